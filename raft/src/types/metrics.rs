//! How openraft's metrics are read.

use std::cell::Cell;

use tokio::sync::watch;

use super::raft_types::Member;

/// The metrics that openraft publishes.
pub(crate) type RaftMetrics = openraft::RaftMetrics<u64, Member>;

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Reads the latest metrics under their lock. `read` must neither wait nor read metrics again. The lock lets no
/// reader pass a waiting writer, so a nested read and openraft's core, which writes, would wait for each other for
/// ever. A debug build panics on a nested read.
pub(crate) fn read_metrics<R>(
    metrics: &watch::Receiver<RaftMetrics>,
    read: impl FnOnce(&RaftMetrics) -> R,
) -> R {
    let _reading = Reading::begin();
    read(&metrics.borrow())
}

/// Marks this thread as reading metrics until it is dropped.
struct Reading;

impl Reading {
    fn begin() -> Self {
        if cfg!(debug_assertions) {
            assert!(!READING.replace(true), "metrics are read within a read of metrics");
        }
        Self
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "within a read")]
    fn a_read_within_a_read_is_found_though_no_writer_waits() {
        let (_sender, metrics) = watch::channel(RaftMetrics::new_initial(1));
        read_metrics(&metrics, |_| read_metrics(&metrics, |now| now.current_term));
    }
}
