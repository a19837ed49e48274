//! How long recent messages to each peer took, and what each peer last reported about itself.
//!
//! Timers follow these measurements, so that a cluster forms and keeps its leader on slow links and slow disks.
//! Safety rests on no timer.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::estimate::Estimate;
use crate::message::Condition;

/// A message is not given up before this, even on a fast link: three heartbeats pass in this time.
const MESSAGE_MIN: Duration = Duration::from_millis(300);
/// Minimum time before TCP sends a lost packet again.
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// A message is given up after this at the latest, unless its receiver reports that it is writing it. A link that was
/// bad for a moment must not delay sending again what was lost on it.
const MESSAGE_MAX: Duration = Duration::from_secs(3);
/// Time allowed for a message to a peer whose round trip is not known yet, including the time to open a connection.
const MESSAGE_UNKNOWN: Duration = Duration::from_secs(2);
/// A member that refused a heartbeat, as an older build does, is asked again after this long.
const REFUSED_INTERVAL: Duration = Duration::from_secs(5);

/// The weather between this node and each of its peers.
#[derive(Default)]
pub(crate) struct Weather(Mutex<BTreeMap<u64, Link>>);

#[derive(Default)]
struct Link {
    round_trip: Estimate,
    answered: Option<Answered>,
    refused: Option<Instant>,
}

/// The newest answer to a heartbeat.
#[derive(Clone, Copy)]
struct Answered {
    /// When the heartbeat was sent.
    sent: Instant,
    at: Instant,
    condition: Condition,
}

impl Weather {
    /// Records how long a peer took to answer from memory.
    pub(crate) fn measured(&self, id: u64, took: Duration) {
        self.0.lock().entry(id).or_default().round_trip.record(took);
    }

    /// Records the answer to a heartbeat that was sent at `sent`.
    pub(crate) fn answered(&self, id: u64, sent: Instant, condition: Condition) {
        let mut links = self.0.lock();
        let link = links.entry(id).or_default();
        link.refused = None;
        if link.answered.is_none_or(|last| last.sent <= sent) {
            link.answered = Some(Answered { sent, at: Instant::now(), condition });
        }
    }

    /// Records that a peer refused a heartbeat.
    pub(crate) fn refused(&self, id: u64) {
        self.0.lock().entry(id).or_default().refused = Some(Instant::now());
    }

    /// Whether a peer takes heartbeats, as far as is known: a member of an older build refuses them. A peer that
    /// refused one counts as not taking them until it has answered one.
    pub(crate) fn takes_heartbeats(&self, id: u64) -> bool {
        self.of(id, |link| link.refused).is_none()
    }

    /// Whether to send a peer a heartbeat: it takes them, or it is time to ask it again.
    pub(crate) fn may_take_heartbeats(&self, id: u64) -> bool {
        let refused = self.of(id, |link| link.refused);
        refused.is_none_or(|at| at.elapsed() >= REFUSED_INTERVAL)
    }

    /// Whether a peer has answered no heartbeat for `time`.
    pub(crate) fn is_older_than(&self, id: u64, time: Duration) -> bool {
        self.of(id, |link| link.answered).is_none_or(|last| last.at.elapsed() >= time)
    }

    /// The median of the last round trips to a peer.
    pub(crate) fn round_trip(&self, id: u64) -> Option<Duration> {
        self.of(id, |link| link.round_trip.median())
    }

    /// How long recent syncs took at a peer, as it reported.
    pub(crate) fn sync(&self, id: u64) -> Option<Duration> {
        self.condition(id)?.sync_us.map(Duration::from_micros)
    }

    /// How long a commit would take if the peer led, as it reported.
    pub(crate) fn commit(&self, id: u64) -> Option<Duration> {
        let reported = self.condition(id)?.commit_us;
        reported.filter(|us| *us != Condition::DECLINES).map(Duration::from_micros)
    }

    /// Whether a peer reported that it is about to stop.
    pub(crate) fn declines(&self, id: u64) -> bool {
        self.condition(id).is_some_and(|it| it.commit_us == Some(Condition::DECLINES))
    }

    /// How long a leader at the other end of a link may be silent before its follower reacts: time for several
    /// heartbeats, even if some are lost on the way. `None` while the round trip is not known.
    pub(crate) fn silence(&self, id: u64) -> Option<Duration> {
        self.of(id, |link| {
            link.round_trip.last()?;
            Some(6 * link.round_trip.smoothed() + 4 * link.round_trip.deviation())
        })
    }

    /// A time that few round trips to a peer exceed; `None` before the first.
    pub(crate) fn bound(&self, id: u64) -> Option<Duration> {
        self.of(id, |link| link.round_trip.last().map(|_| link.round_trip.bound()))
    }

    /// The time after which a message that needs no disk counts as lost: few round trips take this long, even if a
    /// packet is sent again.
    pub(crate) fn message_max(&self, id: u64) -> Duration {
        match self.bound(id) {
            Some(bound) => (bound + bound / 2 + RETRANSMISSION).clamp(MESSAGE_MIN, MESSAGE_MAX),
            None => MESSAGE_UNKNOWN,
        }
    }

    /// When a message that was sent to a peer at `sent` counts as lost. While the peer reports that it is writing,
    /// the message is not lost: a slow disk delays a commit, not the leader. It is lost if the peer reports that it
    /// is not writing, in answer to a heartbeat that was sent well after the message.
    pub(crate) fn lost_at(&self, id: u64, sent: Instant) -> Instant {
        let patience = self.message_max(id);
        let Some(last) = self.of(id, |link| link.answered).filter(|last| last.sent >= sent) else {
            return sent + patience;
        };
        let behind = MESSAGE_MIN.max(2 * self.round_trip(id).unwrap_or_default());
        match last.condition.writing {
            true => last.at + patience,
            false if last.sent >= sent + behind => last.at,
            false => sent + patience,
        }
    }

    /// Forgets nodes that are no longer members.
    pub(crate) fn keep_only(&self, is_member: impl Fn(u64) -> bool) {
        self.0.lock().retain(|&id, _| is_member(id));
    }

    fn condition(&self, id: u64) -> Option<Condition> {
        self.of(id, |link| link.answered.map(|last| last.condition))
    }

    fn of<T>(&self, id: u64, what: impl Fn(&Link) -> Option<T>) -> Option<T> {
        self.0.lock().get(&id).and_then(what)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn condition(writing: bool) -> Condition {
        Condition { vote: Default::default(), writing, sync_us: None, commit_us: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_is_about_to_stop_declines_and_never_leads_better() {
        let weather = Weather::default();
        let with = |commit_us| Condition { commit_us, ..condition(false) };
        let reports = [(None, None, false), (Some(7), Some(Duration::from_micros(7)), false)];
        for (commit_us, commit, declines) in
            reports.into_iter().chain([(Some(Condition::DECLINES), None, true)])
        {
            weather.answered(2, Instant::now(), with(commit_us));
            assert_eq!((weather.commit(2), weather.declines(2)), (commit, declines));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_not_lost_while_its_receiver_says_that_it_is_writing() {
        let weather = Weather::default();
        (0..50).for_each(|_| weather.measured(2, MS));
        let sent = Instant::now();
        assert_eq!(weather.lost_at(2, sent), sent + MESSAGE_MIN);
        for _ in 0..20 {
            advance(200 * MS).await;
            weather.answered(2, Instant::now(), condition(true));
            assert_eq!(weather.lost_at(2, sent), Instant::now() + MESSAGE_MIN);
        }
        weather.answered(2, Instant::now(), condition(false));
        assert_eq!(weather.lost_at(2, sent), Instant::now(), "nothing of it is being written");
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_that_overtook_a_message_says_nothing_of_it() {
        let weather = Weather::default();
        (0..50).for_each(|_| weather.measured(2, MS));
        let sent = Instant::now();
        advance(100 * MS).await;
        weather.answered(2, Instant::now(), condition(false));
        assert_eq!(weather.lost_at(2, sent), sent + MESSAGE_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_peer_was_writing_before_says_nothing_of_a_message() {
        let weather = Weather::default();
        weather.measured(2, MS);
        weather.answered(2, Instant::now(), condition(true));
        advance(MS).await;
        let sent = Instant::now();
        assert_eq!(weather.lost_at(2, sent), sent + weather.message_max(2));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_grows_with_the_round_trip_and_shrinks_again() {
        let weather = Weather::default();
        assert_eq!((weather.silence(2), weather.message_max(2)), (None, MESSAGE_UNKNOWN));
        (0..50).for_each(|_| weather.measured(2, MS));
        let near = weather.silence(2).unwrap();
        assert!(near < 10 * MS, "{near:?}");
        weather.measured(2, 500 * MS);
        assert!(weather.silence(2).unwrap() > 800 * MS);
        (0..50).for_each(|_| weather.measured(2, MS));
        assert!(weather.silence(2).unwrap() < 20 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_refuses_heartbeats_is_asked_again() {
        let weather = Weather::default();
        assert!(weather.takes_heartbeats(2) && weather.may_take_heartbeats(2));
        weather.refused(2);
        assert!(!weather.may_take_heartbeats(2));
        advance(REFUSED_INTERVAL).await;
        assert!(weather.may_take_heartbeats(2));
        // The leader continues with openraft's heartbeats while it asks.
        assert!(!weather.takes_heartbeats(2));
        weather.answered(2, Instant::now(), condition(false));
        assert!(weather.takes_heartbeats(2));
    }
}
