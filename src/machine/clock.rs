//! Time, as a trait. The only reader of the machine's clocks.
//!
//! Clocks decide when to ask for more and what time an id shows; no id's uniqueness depends on them.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The two clocks of a node: the wall clock, and one that does not step back.
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds; may go back.
    fn now_ms(&self) -> u64;

    /// Milliseconds since some fixed moment; never falls.
    fn monotonic_ms(&self) -> u64;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        // The one place that the ban on wall clocks leaves open.
        #[expect(clippy::disallowed_methods)]
        let now = SystemTime::now();
        // A clock before 1970 is as wrong as one at 1970.
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
