//! How long requests took, in buckets that grow wider with the value.

/// Buckets for each power of two, which bounds the error of a value at 1.6 %.
const BUCKETS: u64 = 64;
/// Powers of two beyond the first 128 nanoseconds, where every nanosecond has a bucket.
const POWERS: u64 = 57;

/// Counts of nanoseconds.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; ((POWERS + 2) * BUCKETS) as usize], total: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a time `times` times.
    pub(crate) fn record(&mut self, nanos: u64, times: u64) {
        self.counts[bucket(nanos)] += times;
        self.total += times;
        self.max = self.max.max(nanos);
    }

    /// The buckets that are not empty, with their counts.
    pub(crate) fn buckets(&self) -> Vec<(usize, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Adds the counts of another histogram.
    pub(crate) fn add(&mut self, buckets: &[(usize, u64)]) {
        for &(bucket, count) in buckets {
            self.record(lowest(bucket as u64), count);
        }
    }

    /// The time in microseconds that a `share` of all times do not exceed.
    pub(crate) fn quantile_us(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0.0, |bucket| us(lowest(bucket as u64).min(self.max)))
    }

    /// The longest time, in microseconds.
    pub(crate) fn max_us(&self) -> f64 {
        us(self.max)
    }
}

fn us(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

fn bucket(nanos: u64) -> usize {
    if nanos < 2 * BUCKETS {
        return nanos as usize;
    }
    let power = u64::from(nanos.ilog2()) - 6;
    (power * BUCKETS + (nanos >> power)) as usize
}

/// The lowest value of a bucket.
fn lowest(bucket: u64) -> u64 {
    match (bucket / BUCKETS).saturating_sub(1) {
        0 => bucket,
        power => (bucket - power * BUCKETS) << power,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let values = (0..5_000).chain((13..64).flat_map(|power| {
            let start = 1_u64 << power;
            [start - 1, start, start + start / 3, start + start / 2]
        }));
        let mut last = 0;
        for value in values {
            let at = bucket(value);
            assert!(at >= last, "{value} falls back to bucket {at}");
            let low = lowest(at as u64);
            assert!(low <= value && value - low <= value / BUCKETS, "{value} reads as {low}");
            last = at;
        }
        assert!(bucket(u64::MAX) < Histogram::default().counts.len());
    }

    #[test]
    fn counts_survive_the_way_from_one_histogram_to_another() {
        let mut first = Histogram::default();
        for nanos in [0, 1, 127, 128, 1_000, 123_456_789] {
            first.record(nanos, 3);
        }
        let mut second = first.clone();
        second.add(&first.buckets());
        assert_eq!(second.total, 2 * first.total);
        let doubled = first.buckets().into_iter().map(|(bucket, count)| (bucket, 2 * count));
        assert_eq!(second.buckets(), doubled.collect::<Vec<_>>());
    }

    #[test]
    fn quantiles_are_counted_from_below() {
        let mut histogram = Histogram::default();
        histogram.record(1_000, 98);
        histogram.record(64_000, 2);
        assert_eq!(histogram.quantile_us(0.5), 1.0);
        assert_eq!(histogram.quantile_us(0.98), 1.0);
        assert_eq!(histogram.quantile_us(0.99), 64.0);
        assert_eq!(histogram.max_us(), 64.0);
        assert_eq!(Histogram::default().quantile_us(0.5), 0.0);
    }
}
