//! The election timers, adjusted to the measured links.

use std::time::Duration;

use crate::options::Tuning;

/// Longest time that a leader may be silent, even on the slowest links.
const PATIENCE_MAX: Duration = Duration::from_secs(10);
/// Patience of a node that knows no round trip yet: what round trips of half a second call for.
const PATIENCE_UNKNOWN: Duration = Duration::from_secs(3);

/// How long a leader may be silent before its followers react. On a fast network these are the times of [`Tuning`];
/// on a slow one all of them grow by the same factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timers {
    /// For this long after it heard a leader, a follower helps to elect no other.
    pub(crate) lease: Duration,
    /// Shortest silence of a leader after which a follower campaigns.
    pub(crate) election_min: Duration,
    /// Longest silence of a leader after which a follower campaigns, and of a quorum after which a leader falls
    /// silent.
    pub(crate) election_max: Duration,
}

impl Timers {
    /// The timers for a leader whose messages may be this far apart; `None` while that is unknown.
    pub(crate) fn new(tuning: &Tuning, silence: Option<Duration>) -> Self {
        let patience = silence.unwrap_or(PATIENCE_UNKNOWN).min(PATIENCE_MAX);
        let Tuning { lease, election_min, election_max, .. } = *tuning;
        if patience <= election_min {
            return Self { lease, election_min, election_max };
        }
        let longer = patience.as_secs_f64() / election_min.as_secs_f64();
        let grown = |time: Duration| time.mul_f64(longer);
        Self { lease: grown(lease), election_min: patience, election_max: grown(election_max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_network_has_the_timers_of_the_tuning() {
        let tuning = Tuning::default();
        let timers = Timers::new(&tuning, Some(Duration::from_millis(20)));
        assert_eq!(timers.election_min, tuning.election_min);
        assert_eq!((timers.lease, timers.election_max), (tuning.lease, tuning.election_max));
    }

    #[test]
    fn slow_links_make_all_timers_longer_and_none_is_endless() {
        let tuning = Tuning::default();
        let slow = Timers::new(&tuning, Some(10 * tuning.election_min));
        assert_eq!((slow.lease, slow.election_max), (10 * tuning.lease, 10 * tuning.election_max));
        let unusable = Timers::new(&tuning, Some(Duration::from_secs(3_600)));
        assert_eq!(unusable.election_min, PATIENCE_MAX);
        assert!(unusable.election_max < Duration::from_secs(15));
        assert_eq!(Timers::new(&tuning, None).election_min, PATIENCE_UNKNOWN);
    }
}
