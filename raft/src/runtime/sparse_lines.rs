//! Log lines that others can cause as often as they like.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// One kind of line that strangers can cause, limited to one per interval.
pub(crate) struct SparseLines {
    interval: Duration,
    written: Mutex<Written>,
}

struct Written {
    last: Option<Instant>,
    left_out: u64,
}

impl SparseLines {
    /// At most one line per second.
    pub(crate) const fn each_second() -> Self {
        Self::each(Duration::from_secs(1))
    }

    /// At most one line per interval.
    pub(crate) const fn each(interval: Duration) -> Self {
        Self { interval, written: Mutex::new(Written { last: None, left_out: 0 }) }
    }

    /// Returns how many lines were left out since the last one, or `None` if there is no room for a line now.
    pub(crate) fn take(&self) -> Option<u64> {
        let mut written = self.written.lock();
        if written.last.is_some_and(|last| last.elapsed() < self.interval) {
            written.left_out += 1;
            return None;
        }
        written.last = Some(Instant::now());
        Some(std::mem::take(&mut written.left_out))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_leaves_a_line_a_second_and_its_count() {
        let lines = SparseLines::each_second();
        assert_eq!(lines.take(), Some(0));
        assert_eq!((0..10_000).filter_map(|_| lines.take()).count(), 0);
        advance(Duration::from_secs(1)).await;
        assert_eq!((lines.take(), lines.take()), (Some(10_000), None));
    }
}
