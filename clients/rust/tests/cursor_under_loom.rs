//! The cursor of a lease under loom: the orders in which takers and an installer can meet at its atomics.
//!
//! The product's file is compiled here once more, with loom's atomics. It has as few cells as possible, so that
//! takers fall behind within a few steps. The test explores every order with at most two preemptions: one
//! preemption is enough for an installer to overtake a taker, and all orders would take hours.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(dead_code, reason = "the library uses more of it")]
#[path = "../src/lease/cursor.rs"]
mod cursor;

use std::collections::BTreeSet;
use std::ops::Range;

use cursor::{Cursor, Installed, NEVER};
use loom::sync::Arc;
use loom::thread;

fn range(ids: Range<u64>) -> Installed {
    Installed { ids, refill_at: 0, stale_at: NEVER, block: 1 }
}

/// The largest number of preemptions in the orders that are explored.
const INTERRUPTIONS: usize = 2;

fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(INTERRUPTIONS);
    orders.check(model);
}

/// Runs takers of `counts` ids each and an installer of ranges, in every order. Fails if a taker gets an id
/// that was not installed, that another taker has, or that was taken back.
fn no_id_twice<const CELLS: usize>(counts: &'static [u64], ranges: &'static [(u64, u64)]) {
    let ranges: Vec<_> = ranges.iter().map(|&(start, end)| start..end).collect();
    every_order(move || {
        let cursor = Arc::new(Cursor::<CELLS>::new());
        cursor.install(range(ranges[0].clone())).unwrap();
        let takers: Vec<_> = counts
            .iter()
            .map(|&count| {
                let cursor = Arc::clone(&cursor);
                thread::spawn(move || cursor.take(count))
            })
            .collect();
        let mut seen: Vec<u64> = Vec::new();
        for next in &ranges[1..] {
            seen.extend(cursor.install(range(next.clone())).unwrap());
        }
        let mut askers = 0;
        for taker in takers {
            let taken = taker.join().unwrap();
            askers += usize::from(taken.refill);
            seen.extend(taken.ids);
        }
        seen.extend(cursor.recall());
        let different: BTreeSet<_> = seen.iter().copied().collect();
        assert_eq!(different.len(), seen.len(), "an id twice: {seen:?}");
        let installed: BTreeSet<_> = ranges.iter().cloned().flatten().collect();
        assert!(different.is_subset(&installed), "ids from nowhere: {seen:?}");
        assert!(askers <= ranges.len(), "one taker of each range asks for the next");
    });
}

#[test]
fn takers_of_one_range_share_it() {
    no_id_twice::<1>(&[2, 1], &[(5, 7)]);
}

#[test]
fn a_taker_that_a_new_range_overtakes_takes_of_one_of_the_two() {
    no_id_twice::<2>(&[1, 2], &[(10, 12), (12, 14)]);
}

#[test]
fn a_taker_whose_cell_serves_another_range_takes_nothing() {
    // The ranges are consecutive: an offset into one, added to the start of the other, would be an id of the other.
    no_id_twice::<1>(&[2], &[(10, 12), (12, 14), (14, 16)]);
    no_id_twice::<2>(&[2], &[(10, 12), (12, 14), (14, 16), (16, 18)]);
}

#[test]
fn what_is_taken_back_and_installed_again_is_still_handed_out_once() {
    every_order(|| {
        let cursor = Arc::new(Cursor::<1>::new());
        cursor.install(range(10..13)).unwrap();
        let taker = thread::spawn({
            let cursor = Arc::clone(&cursor);
            move || cursor.take(2).ids
        });
        let left = cursor.recall();
        if !left.is_empty() {
            cursor.install(range(left)).unwrap();
        }
        let mut seen: Vec<u64> = taker.join().unwrap().collect();
        seen.extend(cursor.recall());
        let different: BTreeSet<_> = seen.iter().copied().collect();
        assert_eq!(different.len(), seen.len(), "an id twice: {seen:?}");
    });
}
