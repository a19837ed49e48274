//! The election timers, adjusted to the measured links.

use std::time::Duration;

use crate::options::Tuning;

/// Longest patience with a silent leader, even on the slowest links: a follower campaigns within 10 s, the time after
/// which a healed cluster must have a leader. The leader may have asked for this much right
/// before the links became quick and the leader itself was lost.
const PATIENCE_MAX: Duration = Duration::from_millis(6_500);
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

    /// The time after a leader's last message when its lease has run out at every follower, even if that message was
    /// slow: it took `message_max` on a fast link, or as long as few messages take on a slow one, half a `round_trip`. A
    /// candidate that campaigns then with the leader's consent does so before other followers lose their patience.
    pub(crate) fn lease_end(&self, message_max: Duration, round_trip: Duration) -> Duration {
        self.lease + message_max.max(round_trip / 2)
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
        assert!(unusable.election_max < Duration::from_secs(10));
        assert_eq!(Timers::new(&tuning, None).election_min, PATIENCE_UNKNOWN);
    }

    #[test]
    fn a_candidate_with_consent_campaigns_before_other_followers_lose_their_patience() {
        let tuning = Tuning::default();
        for ms in 1..=500 {
            let round_trip = Duration::from_millis(ms);
            let deviation = round_trip / 4;
            let timers = Timers::new(&tuning, Some(6 * round_trip + 4 * deviation));
            let bound = round_trip + 4 * deviation;
            // The leader's last message was quick on its way to a follower, and the one to the candidate is slow.
            let campaigns = timers.lease_end(tuning.message_max, bound) + bound / 2;
            assert!(campaigns < timers.election_min, "{round_trip:?}: {campaigns:?}, {timers:?}");
        }
    }
}
