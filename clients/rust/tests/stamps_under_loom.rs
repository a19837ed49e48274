//! Milliseconds of a worker id under loom: the orders in which takers of ids, stamps and a close can meet.
//!
//! The product's file is compiled here once more, with loom's atomics. The test explores every order with at most two
//! preemptions.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(dead_code, reason = "the library uses more of it")]
#[path = "../src/stamps.rs"]
mod stamps;

use std::collections::BTreeSet;

use loom::sync::{Arc, Mutex};
use loom::thread;
use stamps::{Ids, Stamps};

/// The largest number of preemptions in the orders that are explored.
const INTERRUPTIONS: usize = 2;
const FROM_MS: u64 = 100;
/// As few sequences as possible, so that a millisecond is soon spent.
const SEQUENCE_BITS: u32 = 1;
const WORKER_BITS: u32 = 2;

fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(INTERRUPTIONS);
    orders.check(model);
}

/// A generator as the library has it, with another clock.
struct Generator {
    ids: Ids,
    stamps: Stamps,
    begin: Mutex<()>,
}

impl Generator {
    fn new(until_ms: u64) -> Self {
        Self {
            ids: Ids::after(FROM_MS - 1, WORKER_BITS, SEQUENCE_BITS),
            stamps: Stamps::new(FROM_MS, until_ms),
            begin: Mutex::new(()),
        }
    }

    fn next(&self, now: u64) -> Option<u64> {
        if let Some(id) = self.ids.next(now) {
            return Some(id);
        }
        let _begin = self.begin.lock().unwrap();
        if let Some(id) = self.ids.next(now) {
            return Some(id);
        }
        let ms = now.max(self.ids.time() + 1);
        self.stamps.grant(ms).then(|| self.ids.begin(ms, 3))
    }
}

fn ms(id: u64) -> u64 {
    id >> (WORKER_BITS + SEQUENCE_BITS)
}

#[test]
fn threads_share_a_generator() {
    every_order(|| {
        let generator = Arc::new(Generator::new(FROM_MS + 3));
        // Each thread sees a clock of its own, and each order spends a millisecond.
        let takers = [[FROM_MS, FROM_MS], [FROM_MS, FROM_MS + 1]].map(|clock| {
            let generator = Arc::clone(&generator);
            thread::spawn(move || {
                let ids = clock.map(|now| generator.next(now).unwrap());
                assert!(
                    ids[0] < ids[1] && clock[0] <= ms(ids[0]) && clock[1] <= ms(ids[1]),
                    "{ids:?}"
                );
                ids
            })
        });
        let ids: Vec<u64> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        let different: BTreeSet<_> = ids.iter().copied().collect();
        assert_eq!(different.len(), ids.len(), "an id twice: {ids:?}");
        assert!(ids.iter().all(|id| id >> SEQUENCE_BITS & 3 == 3), "the worker id: {ids:?}");
    });
}

#[test]
fn close_names_a_millisecond_that_none_is_after() {
    every_order(|| {
        let generator = Arc::new(Generator::new(FROM_MS + 3));
        let takers = [FROM_MS + 1, FROM_MS + 2].map(|now| {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.next(now))
        });
        let stamper = thread::spawn({
            let generator = Arc::clone(&generator);
            move || generator.stamps.grant(FROM_MS).then_some(FROM_MS)
        });
        let last_ms = generator.stamps.close().unwrap();
        assert_eq!(generator.stamps.close(), None);
        assert!(!generator.stamps.grant(FROM_MS + 1), "after close");
        let stamped = takers.into_iter().filter_map(|taker| taker.join().unwrap().map(ms));
        let stamped = stamped.chain(stamper.join().unwrap());
        assert!(stamped.max().is_none_or(|ms| ms <= last_ms));
        assert_eq!(generator.stamps.highest(), last_ms);
    });
}

#[test]
fn a_renewal_under_stamps_moves_the_end_further_and_never_back() {
    every_order(|| {
        let stamps = Arc::new(Stamps::new(FROM_MS, FROM_MS + 1));
        let renewals = [FROM_MS + 3, FROM_MS + 2].map(|until_ms| {
            let stamps = Arc::clone(&stamps);
            thread::spawn(move || stamps.renew(until_ms))
        });
        assert!(stamps.grant(FROM_MS));
        assert!(!stamps.grant(FROM_MS + 3));
        renewals.into_iter().for_each(|renewal| renewal.join().unwrap());
        assert_eq!(stamps.until_ms(), FROM_MS + 3);
        assert!(stamps.grant(FROM_MS + 2));
    });
}
