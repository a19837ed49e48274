//! Simulated clocks. Each node has one, which drifts and can be set.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;

/// The clock of one machine.
pub(crate) struct MachineClock {
    began: Instant,
    /// The start of the run, in Unix milliseconds.
    begin_ms: u64,
    offset_ms: AtomicI64,
    /// How fast the clock runs ahead, in millionths.
    drift: i64,
}

impl MachineClock {
    /// A clock that is correct when the run begins, at `begin_ms`.
    pub(crate) fn new(begin_ms: u64, drift: i64) -> Self {
        Self { began: Instant::now(), begin_ms, offset_ms: AtomicI64::new(0), drift }
    }

    /// Sets the clock this far ahead of where it would be if it had never been set.
    pub(crate) fn set_offset(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    pub(crate) fn offset(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl mintleaf::machine::clock::Clock for MachineClock {
    fn now_ms(&self) -> u64 {
        let elapsed_ms = self.elapsed_ms();
        let drifted_ms = elapsed_ms + elapsed_ms * self.drift / 1_000_000;
        self.begin_ms.saturating_add_signed(drifted_ms + self.offset())
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.elapsed_ms()).unwrap_or(0)
    }
}
