//! How long recent syncs of the log took.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::estimate::Estimate;

/// How long recent syncs took, including the one that is under way.
#[derive(Default)]
pub(crate) struct SyncPace(Mutex<Syncs>);

#[derive(Default)]
struct Syncs {
    estimate: Estimate,
    /// When the sync that is under way began.
    began: Option<Instant>,
}

impl SyncPace {
    /// Records that a sync begins.
    pub(super) fn begin(&self) {
        self.0.lock().began = Some(Instant::now());
    }

    /// Records that the sync that was under way has ended.
    pub(super) fn end(&self) {
        let mut syncs = self.0.lock();
        if let Some(began) = syncs.began.take() {
            syncs.estimate.record(began.elapsed());
        }
    }

    /// How long a sync takes lately: the median of the last ones, or the time that the current one has taken so far
    /// if that is longer. `None` before the first.
    pub(crate) fn lately(&self) -> Option<Duration> {
        let syncs = self.0.lock();
        let present = syncs.began.map(|began| began.elapsed());
        syncs.estimate.median().max(present)
    }

    /// A time that syncs certainly reach lately: the same, or the shorter of the last two if that is longer.
    pub(crate) fn usually(&self) -> Option<Duration> {
        let last_two = self.0.lock().estimate.at_least_lately();
        self.lately().max(last_two)
    }

    /// Whether the last sync took at least `slow`, and `times` times as long as syncs usually take: the disk may have
    /// turned bad, or it was chance. `false` while a sync is under way, because its time will show which.
    pub(crate) fn may_have_turned_bad(&self, slow: Duration, times: u32) -> bool {
        let last = {
            let syncs = self.0.lock();
            syncs.estimate.last().filter(|_| syncs.began.is_none()).unwrap_or_default()
        };
        last >= slow && self.usually().is_some_and(|usually| last >= usually * times)
    }

    /// A time that few syncs exceed.
    pub(crate) fn bound(&self) -> Duration {
        let syncs = self.0.lock();
        let present = syncs.began.map(|began| began.elapsed());
        syncs.estimate.bound().max(present.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sync_that_hangs_shows_before_it_ends() {
        let pace = SyncPace::default();
        assert_eq!(pace.lately(), None);
        for _ in 0..9 {
            pace.begin();
            advance(Duration::from_millis(1)).await;
            pace.end();
        }
        assert_eq!(pace.lately(), Some(Duration::from_millis(1)));
        pace.begin();
        advance(Duration::from_secs(3)).await;
        assert_eq!(pace.lately(), Some(Duration::from_secs(3)));
        pace.end();
        assert_eq!(pace.lately(), Some(Duration::from_millis(1)));
        assert!(pace.bound() > Duration::from_secs(3));
        let slow = Duration::from_millis(100);
        assert!(pace.may_have_turned_bad(slow, 4));
        pace.begin();
        advance(Duration::from_secs(3)).await;
        pace.end();
        assert!(!pace.may_have_turned_bad(slow, 4), "that is known by now");
    }
}
