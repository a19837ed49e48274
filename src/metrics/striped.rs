//! A counter that every id touches, without two threads fighting over one cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use prometheus_client::metrics::counter::Atomic;

/// Stripes of one counter.
pub(super) const STRIPES: usize = 16;

/// A sum spread over cache lines: each thread adds to its own stripe, a reader adds them up.
#[derive(Debug, Default)]
pub(super) struct Striped([Stripe; STRIPES]);

/// Two cache lines, because the processor fetches them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl Striped {
    fn own(&self) -> &AtomicU64 {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! { static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Relaxed) % STRIPES) }
        &self.0[OWN.get()].0
    }
}

impl Atomic<u64> for Striped {
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    /// Returns what this thread's stripe held before. No caller here uses it.
    fn inc_by(&self, count: u64) -> u64 {
        self.own().fetch_add(count, Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}
