//! How late a period may begin that a restored cluster must not begin at 1.
//!
//! A period that had begun when the old cluster stopped may have been used there after the copy was taken. No copy
//! knows when the old cluster stopped, and the clock of the machine that restores may show anything. So the new
//! cluster's own log supplies the time: its first stamped entry was stamped after the old cluster stopped, by the
//! median of its clocks.

use serde::{Deserialize, Serialize};

/// The stamp of the first entry of a restored cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct PeriodsBefore {
    /// Unix milliseconds; 0 in a cluster that was not restored.
    stamped_ms: u64,
    /// Whether the cluster was restored and has stamped no entry since.
    is_awaited: bool,
}

impl PeriodsBefore {
    pub(super) fn stamped_ms(self) -> u64 {
        self.stamped_ms
    }

    /// Makes the next stamp count.
    pub(super) fn await_stamp(&mut self) {
        self.is_awaited = true;
    }

    /// Takes the stamp of an entry, if it is the one that counts. A cluster that was restored again keeps the later
    /// one.
    pub(super) fn take(&mut self, now_ms: u64) {
        if self.is_awaited && now_ms > 0 {
            *self = Self { stamped_ms: now_ms.max(self.stamped_ms), is_awaited: false };
        }
    }
}
