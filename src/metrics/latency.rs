//! How long requests took. Ids that are held are answered in bursts, and measured in samples: one burst in
//! [`BURSTS_PER_SAMPLE`] reads the clock. A request that hyper reads is a burst of its own.

use std::cell::Cell;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::labels::{MODES, Mode, Protocol};
use super::registration::{Labels, metric};

/// Each thread measures one burst of this many.
const BURSTS_PER_SAMPLE: u32 = 64;
/// Bounds of the buckets of bursts, in seconds: what is held is answered in microseconds.
const BURST_BUCKETS: [f64; 12] =
    [5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 0.025, 0.1, 1.0];
/// Bounds of the buckets of requests, in seconds: up to the longest that a request may take.
const REQUEST_BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The histograms of how long requests took.
#[derive(Debug)]
pub(super) struct RequestTimes {
    pub(super) requests: [[Histogram; MODES]; 2],
    pub(super) bursts: [Histogram; 2],
}

/// The beginning of a burst that is measured.
pub(crate) struct Burst(pub(super) Instant);

impl RequestTimes {
    pub(super) fn new(r: &mut Registry) -> Self {
        let requests = Family::<Labels<2>, Histogram>::new_with_constructor(|| {
            Histogram::new(REQUEST_BUCKETS)
        });
        let bursts =
            Family::<Labels<1>, Histogram>::new_with_constructor(|| Histogram::new(BURST_BUCKETS));
        let times = Self {
            requests: Protocol::LABELS.map(|protocol| {
                Mode::LABELS.map(|mode| {
                    requests.get_or_create(&[("protocol", protocol), ("mode", mode)]).clone()
                })
            }),
            bursts: Protocol::LABELS
                .map(|protocol| bursts.get_or_create(&[("protocol", protocol)]).clone()),
        };
        metric(
            r,
            "request_seconds",
            "Time to answer requests that were not answered from what is held",
            requests,
        );
        metric(
            r,
            "burst_seconds",
            "Time from reading a burst of requests to having sent its answers, of one burst in 64",
            bursts,
        );
        times
    }
}

impl Burst {
    /// The beginning of a burst, if it is one that is measured.
    #[inline]
    pub(crate) fn begin() -> Option<Self> {
        thread_local! { static BURSTS: Cell<u32> = const { Cell::new(0) } }
        let number = BURSTS.get().wrapping_add(1);
        BURSTS.set(number);
        number.is_multiple_of(BURSTS_PER_SAMPLE).then(|| Self(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_in_sixty_four_reads_the_clock() {
        let measured = std::thread::spawn(|| (0..640).filter_map(|_| Burst::begin()).count());
        assert_eq!(measured.join().unwrap(), 10);
    }
}
