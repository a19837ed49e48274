//! The cluster's time, which selects the period: the median of the members' clocks as this node heard it last.
//!
//! A node that is cut off from the others carries the last median forward by its own monotonic clock. So it goes on
//! handing out what it holds of the present period, and stops when that is over. Uniqueness does not depend on this
//! time.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::machine::clock::Clock;

/// How long a reading is carried forward before the median is asked for again. It is too short for clients to notice.
const FRESH_MS: u64 = 10;
/// No median was heard since the start.
const NEVER: u64 = u64::MAX;

/// Reads the cluster's time. Takes no lock, except one of the node's every few milliseconds.
pub(in crate::service) struct ClusterTime {
    clock: Arc<dyn Clock>,
    /// When the median was read, in milliseconds of the monotonic clock.
    read_ms: AtomicU64,
    /// How far the median was ahead of the monotonic clock then; wraps.
    ahead_ms: AtomicU64,
}

impl ClusterTime {
    pub(in crate::service) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, read_ms: NEVER.into(), ahead_ms: 0.into() }
    }

    /// The time in Unix milliseconds; `median` asks the node for it. `None` before any median was heard.
    pub(in crate::service) fn now_ms(&self, median: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let now_ms = self.clock.monotonic_ms();
        let read_ms = self.read_ms.load(Acquire);
        if read_ms != NEVER && now_ms.saturating_sub(read_ms) < FRESH_MS {
            return Some(now_ms.wrapping_add(self.ahead_ms.load(Relaxed)));
        }
        match median() {
            Some(median_ms) => {
                self.ahead_ms.store(median_ms.wrapping_sub(now_ms), Relaxed);
                self.read_ms.store(now_ms, Release);
                Some(median_ms)
            }
            None if read_ms == NEVER => None,
            None => Some(now_ms.wrapping_add(self.ahead_ms.load(Relaxed))),
        }
    }
}
