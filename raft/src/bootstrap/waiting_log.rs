//! When a node that waits to enter a cluster logs it: at once when the reason changes, and otherwise once a minute.

use std::time::Duration;

use tokio::time::Instant;

/// The same reason is logged again after this long.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// The reason that was logged last, and when.
#[derive(Default)]
pub(super) struct WaitingLog(Option<(String, Instant)>);

impl WaitingLog {
    /// Returns whether to log now that this node waits for `what`.
    pub(super) fn is_told(&mut self, what: &str, now: Instant) -> bool {
        let is_known = self.0.as_ref().is_some_and(|(told, at)| {
            told == what && now.saturating_duration_since(*at) < REPEAT_INTERVAL
        });
        if !is_known {
            self.0 = Some((what.to_owned(), now));
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_a_minute_and_another_at_once() {
        let (mut log, start) = (WaitingLog::default(), Instant::now());
        let mut told = |what, after| log.is_told(what, start + Duration::from_secs(after));
        assert!(told("node 2", 0) && !told("node 2", 5) && !told("node 2", 59));
        assert!(told("node 2", 60) && !told("node 2", 65));
        assert!(told("node 3", 70) && told("node 2", 75));
    }
}
