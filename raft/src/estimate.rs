//! How long something has been taking: a smoothed duration, its deviation, and a median for display. A wait that follows
//! such estimates.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Number of measurements behind the median: enough to hide one outlier.
const RECENT_MAX: usize = 9;
/// How often a wait looks whether its deadline has moved.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// An estimate of a duration that is measured repeatedly, as TCP estimates its round trip (RFC 6298, 2).
#[derive(Debug, Clone, Default)]
pub(crate) struct Estimate {
    smoothed: Duration,
    deviation: Duration,
    recent: VecDeque<Duration>,
}

impl Estimate {
    /// Records a measurement.
    pub(crate) fn record(&mut self, took: Duration) {
        if self.recent.is_empty() {
            (self.smoothed, self.deviation) = (took, took / 2);
        } else {
            let error = self.smoothed.abs_diff(took);
            self.deviation = (3 * self.deviation + error) / 4;
            self.smoothed = (7 * self.smoothed + took) / 8;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// The smoothed duration.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The mean deviation from it.
    pub(crate) fn deviation(&self) -> Duration {
        self.deviation
    }

    /// A duration that few measurements exceed: the smoothed one plus four deviations.
    pub(crate) fn bound(&self) -> Duration {
        self.smoothed + 4 * self.deviation
    }

    /// The last measurement.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.recent.back().copied()
    }

    /// The shorter of the last two measurements; `None` before the first.
    pub(crate) fn at_least_lately(&self) -> Option<Duration> {
        self.recent.iter().rev().take(2).min().copied()
    }

    /// The median of the last measurements; `None` before the first.
    pub(crate) fn median(&self) -> Option<Duration> {
        let mut sorted = [Duration::ZERO; RECENT_MAX];
        let sorted = &mut sorted[..self.recent.len()];
        sorted.iter_mut().zip(&self.recent).for_each(|(to, took)| *to = *took);
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// Resolves at a deadline that follows the present estimates of links and disks. An answer that was lost on a bad link
/// must not hold up what waits behind it once the link is well.
pub async fn overdue(deadline: impl Fn() -> Instant) {
    loop {
        let (at, now) = (deadline(), Instant::now());
        if at <= now {
            return;
        }
        sleep_until(at.min(now + LOOK_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_steady_duration_is_bounded_closely_in_the_end() {
        let mut estimate = Estimate::default();
        estimate.record(ms(100));
        assert_eq!((estimate.smoothed(), estimate.bound()), (ms(100), ms(300)));
        for _ in 0..20 {
            estimate.record(ms(100));
        }
        assert!(estimate.bound() < ms(102), "{estimate:?}");
    }

    #[test]
    fn one_longer_measurement_raises_the_bound_above_it_at_once() {
        let mut estimate = Estimate::default();
        for _ in 0..50 {
            estimate.record(Duration::from_micros(200));
        }
        estimate.record(ms(500));
        assert!(estimate.bound() > ms(500), "{estimate:?}");
        assert_eq!(estimate.median(), Some(Duration::from_micros(200)));
    }

    #[test]
    fn the_median_follows_the_last_measurements() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.median(), None);
        for at in 0..30 {
            estimate.record(ms(at));
        }
        assert_eq!(estimate.median(), Some(ms(25)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_on_a_bad_link_ends_soon_after_the_link_is_well() {
        let (began, patience) = (Instant::now(), Cell::new(ms(20_000)));
        let well = async {
            sleep_until(began + ms(8_000)).await;
            patience.set(ms(2_000));
            pending::<()>().await;
        };
        tokio::select! {
            () = overdue(|| began + patience.get()) => {}
            () = well => {}
        }
        assert!(began.elapsed() >= ms(8_000), "{:?}", began.elapsed());
        assert!(began.elapsed() <= ms(8_000) + LOOK_INTERVAL, "{:?}", began.elapsed());
    }
}
