//! How long syncs of the write-ahead log took.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds: from a disk with a cache that survives a power cut to one that needs
/// an operator's attention. One more bucket holds everything slower.
const BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000,
];

/// How long syncs took since the log was opened.
#[derive(Debug, Default)]
pub(crate) struct SyncTimes {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// How long the syncs of a log took since it was opened, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SyncReadings {
    /// For each upper bound, how many syncs took at most that long but longer than the bound before. The last bound
    /// is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// The total time of all syncs.
    pub sum_s: f64,
}

impl SyncTimes {
    pub(crate) fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn readings(&self) -> SyncReadings {
        let bounds = BOUNDS_US.iter().map(|&us| us as f64 / 1e6).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let sum_s = self.sum_us.load(Relaxed) as f64 / 1e6;
        SyncReadings { buckets: bounds.zip(counts).collect(), sum_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_counts_in_the_first_bucket_that_holds_it() {
        let times = SyncTimes::default();
        for us in [100, 101, 2_500_000, 60_000_000] {
            times.record(Duration::from_micros(us));
        }
        let SyncReadings { buckets, sum_s } = times.readings();
        let counted: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(counted, [(0.0001, 1), (0.00025, 1), (2.5, 1), (f64::INFINITY, 1)]);
        assert!((sum_s - 62.500_201).abs() < 1e-9);
    }
}
