//! When a follower last heard its leader, and a leader its quorum.
//!
//! These times decide who may campaign, who may be deposed, and whether a leader continues to send. They only affect
//! availability: a quorum elected every leader, no matter what these times are. Callers pass the time in, so that
//! tests need not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::types::{RaftMembership, RaftVote};

/// A timer that fires this late shows that the process was not running: it was paused, or its machine was busy.
/// Messages from that time may still be unread.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// A later vote in a learner's answer is forgotten after this long. Replication retries sooner, and gets the same
/// answer again.
const LATER_VOTE_AGE_MAX: Duration = Duration::from_secs(1);

/// The times of the last contact with the leader and, on a leader, with every other member.
#[derive(Default)]
pub(crate) struct LeaderContact(Mutex<Times>);

#[derive(Default)]
struct Times {
    /// When a leader was last heard, or when the count of its silence began anew.
    leader: Option<Instant>,
    /// When a leader's message last came in; `None` before the first one since this node started.
    message: Option<Instant>,
    /// How long this node waits for a leader before it campaigns, as that leader last announced.
    patience: Option<(u64, Duration)>,
    /// When this node last voted for another.
    voted: Option<Instant>,
    /// When the election timer fires next, while it runs.
    timer: Option<Instant>,
    leading: Option<Leading>,
    /// A vote later than this leader's own that a learner answered with, and when.
    later_vote: Option<(RaftVote, Instant)>,
}

/// What a leader knows of its followers.
struct Leading {
    term: u64,
    since: Instant,
    /// When the newest message that each member has acknowledged was sent.
    acknowledged: BTreeMap<u64, Instant>,
}

impl LeaderContact {
    /// Counts the leader's silence from now on: at a start, and after a period without reading messages.
    pub(crate) fn begin_anew(&self, now: Instant) {
        let mut times = self.0.lock();
        times.leader = times.leader.max(Some(now));
    }

    /// Records a message from the leader.
    pub(crate) fn heard_leader(&self, now: Instant) {
        self.begin_anew(now);
        let mut times = self.0.lock();
        times.message = times.message.max(Some(now));
    }

    /// Records how long to wait for a leader, as that leader announced.
    pub(crate) fn set_patience(&self, leader: u64, patience: Duration) {
        self.0.lock().patience = Some((leader, patience));
    }

    /// How long to wait for this leader, if it has announced that since this node heard another.
    pub(crate) fn patience_of(&self, leader: u64) -> Option<Duration> {
        self.0.lock().patience.filter(|(id, _)| *id == leader).map(|(_, patience)| patience)
    }

    /// Whether a leader's message has arrived within the last `time`. A node that was just restarted has heard none,
    /// even if its disk names a leader.
    pub(crate) fn has_heard_leader_within(&self, time: Duration, now: Instant) -> bool {
        let message = self.0.lock().message;
        message.is_some_and(|at| now.saturating_duration_since(at) <= time)
    }

    /// Records that this node voted for another, which gets time to win.
    pub(crate) fn voted(&self, now: Instant) {
        self.0.lock().voted = Some(now);
    }

    /// When the current silence of the leader began, as a follower counts it; `None` if it never heard one.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.0.lock().leader
    }

    /// When this node last voted for another; `None` if it never did.
    pub(crate) fn voted_at(&self) -> Option<Instant> {
        self.0.lock().voted
    }

    /// Records when the election timer fires next, or that it does not run.
    pub(crate) fn set_timer(&self, at: Option<Instant>) {
        self.0.lock().timer = at;
    }

    /// Whether the election timer should have fired long ago.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.0.lock().timer.is_some_and(|at| now > at + LATE)
    }

    /// Whether no leader was heard for the length of a leader lease. A node that was just resumed cannot know yet,
    /// because there may be unread messages.
    pub(crate) fn leader_is_silent(&self, now: Instant, lease: Duration) -> bool {
        let heard = self.0.lock().leader;
        !self.is_late(now) && heard.is_none_or(|heard| now > heard + lease)
    }

    /// Records that a member acknowledged a message that was sent at `sent` in `term`.
    pub(crate) fn acknowledged(&self, term: u64, member: u64, sent: Instant) {
        let mut times = self.0.lock();
        let leading = times.leading.as_mut().filter(|leading| leading.term == term);
        if let Some(leading) = leading {
            let last = leading.acknowledged.entry(member).or_insert(sent);
            *last = sent.max(*last);
        }
    }

    /// When the newest message that a member has acknowledged to this leader of `term` was sent.
    pub(crate) fn acknowledged_at(&self, term: u64, member: u64) -> Option<Instant> {
        let times = self.0.lock();
        let leading = times.leading.as_ref().filter(|leading| leading.term == term)?;
        leading.acknowledged.get(&member).copied()
    }

    /// Records that this node leads in `term`. Its followers' acknowledgements count from `now` on.
    pub(crate) fn leads(&self, term: u64, now: Instant) {
        let mut times = self.0.lock();
        if times.leading.as_ref().is_none_or(|leading| leading.term < term) {
            times.leading = Some(Leading { term, since: now, acknowledged: BTreeMap::new() });
        }
    }

    /// Since when this node has led, or has been running again after a pause; `None` if it never led.
    pub(crate) fn leading_since(&self) -> Option<Instant> {
        self.0.lock().leading.as_ref().map(|leading| leading.since)
    }

    /// Counts the silence of this leader's followers from now on, because the leader was not running before.
    pub(crate) fn await_followers_anew(&self, now: Instant) {
        if let Some(leading) = &mut self.0.lock().leading {
            leading.since = now;
        }
    }

    /// How long ago this leader sent the newest message that a quorum has acknowledged. A new leader counts from its
    /// election.
    pub(crate) fn without_quorum_for(
        &self,
        me: u64,
        members: &RaftMembership,
        now: Instant,
    ) -> Duration {
        let times = self.0.lock();
        let Some(leading) = &times.leading else { return Duration::ZERO };
        let last = |id: &u64| match id {
            id if *id == me => now,
            id => leading.acknowledged.get(id).map_or(leading.since, |at| leading.since.max(*at)),
        };
        let of_quorum = |voters: &BTreeSet<u64>| {
            let mut newest_last: Vec<Instant> = voters.iter().map(last).collect();
            newest_last.sort_unstable();
            newest_last.get((voters.len().max(1) - 1) / 2).copied()
        };
        let configs = members.membership().get_joint_config();
        let acknowledged = configs.iter().filter_map(of_quorum).min();
        acknowledged.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Whether a quorum has acknowledged any message that this node sent as the leader of `term`. A restarted node
    /// still takes itself for the leader that it was, until its peers contradict it.
    pub(crate) fn is_confirmed(&self, term: u64, me: u64, members: &RaftMembership) -> bool {
        let times = self.0.lock();
        let Some(leading) = times.leading.as_ref().filter(|leading| leading.term == term) else {
            return false;
        };
        let has = |id: &&u64| **id == me || leading.acknowledged.contains_key(id);
        let configs = members.membership().get_joint_config();
        configs.iter().all(|voters| 2 * voters.iter().filter(has).count() > voters.len())
    }

    /// Records that a learner answered this leader with a vote later than its own.
    pub(crate) fn heard_later_vote(&self, vote: RaftVote, now: Instant) {
        self.0.lock().later_vote = Some((vote, now));
    }

    /// The later vote that a learner answered this leader with lately.
    pub(crate) fn later_vote(&self, now: Instant) -> Option<RaftVote> {
        let told = self.0.lock().later_vote;
        told.filter(|(_, at)| now < *at + LATER_VOTE_AGE_MAX).map(|(vote, _)| vote)
    }
}

/// Whether a leader that has been without a quorum for this long continues to send (a check quorum; Raft thesis,
/// 6.2). It sends for one election timeout at first, and then for one in three. In between its followers hear nothing
/// and may elect another leader. It must not fall silent for good, because it may hold the longest log and be the
/// only node that can win.
pub(crate) fn may_send(without_quorum: Duration, election_max: Duration) -> bool {
    let Some(beyond) = without_quorum.checked_sub(election_max) else { return true };
    let (silence, cycle) = (2 * election_max, 3 * election_max);
    beyond.as_nanos() % cycle.as_nanos() >= silence.as_nanos()
}

#[cfg(test)]
mod tests {
    use openraft::{LeaderId, Membership};

    use super::*;
    use crate::types::{Member, RaftLogId};

    const LEASE: Duration = Duration::from_millis(150);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn members(configs: &[&[u64]]) -> RaftMembership {
        let sets: Vec<BTreeSet<u64>> =
            configs.iter().map(|set| set.iter().copied().collect()).collect();
        let all: BTreeSet<u64> = sets.iter().flatten().copied().collect();
        let nodes: BTreeMap<u64, Member> = all.iter().map(|id| (*id, Member::default())).collect();
        let log_id = RaftLogId::new(LeaderId::new(1, 1), 1);
        RaftMembership::new(Some(log_id), Membership::new(sets, nodes))
    }

    #[test]
    fn a_leader_is_silent_after_its_lease_and_not_before() {
        let (contact, start) = (LeaderContact::default(), Instant::now());
        assert!(contact.leader_is_silent(start, LEASE), "a new node knows of none");
        contact.heard_leader(start);
        assert!(!contact.leader_is_silent(start + LEASE, LEASE));
        assert!(contact.leader_is_silent(start + LEASE + ms(1), LEASE));
        contact.begin_anew(start + ms(400));
        assert!(!contact.leader_is_silent(start + ms(500), LEASE));
    }

    #[test]
    fn a_silence_that_is_counted_anew_is_no_message_of_a_leader() {
        let (contact, start) = (LeaderContact::default(), Instant::now());
        contact.begin_anew(start);
        assert!(!contact.has_heard_leader_within(ms(500), start));
        contact.heard_leader(start + ms(100));
        assert!(contact.has_heard_leader_within(ms(500), start + ms(600)));
        assert!(!contact.has_heard_leader_within(ms(500), start + ms(601)));
    }

    #[test]
    fn a_leader_is_confirmed_by_a_quorum_of_its_own_term() {
        let (contact, now) = (LeaderContact::default(), Instant::now());
        let three = members(&[&[1, 2, 3]]);
        assert!(!contact.is_confirmed(4, 1, &three));
        contact.leads(4, now);
        assert!(!contact.is_confirmed(4, 1, &three), "it was started again a moment ago");
        contact.acknowledged(4, 3, now);
        assert!(contact.is_confirmed(4, 1, &three) && !contact.is_confirmed(5, 1, &three));
        assert!(!contact.is_confirmed(4, 1, &members(&[&[1, 3], &[1, 4, 5]])));
        assert!(contact.is_confirmed(4, 1, &members(&[&[1]])));
    }

    #[test]
    fn a_node_that_was_paused_calls_no_leader_silent() {
        let (contact, start) = (LeaderContact::default(), Instant::now());
        contact.heard_leader(start);
        contact.set_timer(Some(start + ms(400)));
        assert!(contact.leader_is_silent(start + ms(450), LEASE));
        assert!(!contact.leader_is_silent(start + ms(5_000), LEASE));
        contact.set_timer(None);
        assert!(contact.leader_is_silent(start + ms(5_000), LEASE));
    }

    #[test]
    fn a_quorum_is_as_old_as_its_oldest_needed_member() {
        let (contact, start) = (LeaderContact::default(), Instant::now());
        contact.leads(4, start);
        let five = members(&[&[1, 2, 3, 4, 5]]);
        contact.acknowledged(4, 2, start + ms(100));
        contact.acknowledged(3, 3, start + ms(900));
        assert_eq!(contact.without_quorum_for(1, &five, start + ms(1_000)), ms(1_000));
        contact.acknowledged(4, 3, start + ms(300));
        assert_eq!(contact.without_quorum_for(1, &five, start + ms(1_000)), ms(900));
        contact.acknowledged(4, 4, start + ms(600));
        assert_eq!(contact.without_quorum_for(1, &five, start + ms(1_000)), ms(700));
        let joint = members(&[&[1, 2, 3, 4], &[1, 5, 6]]);
        assert_eq!(contact.without_quorum_for(1, &joint, start + ms(1_000)), ms(1_000));
        assert_eq!(contact.without_quorum_for(1, &members(&[&[1]]), start + ms(9_000)), ms(0));
    }

    #[test]
    fn a_new_term_begins_with_no_acknowledgements() {
        let (contact, start) = (LeaderContact::default(), Instant::now());
        let three = members(&[&[1, 2, 3]]);
        contact.leads(4, start);
        contact.acknowledged(4, 2, start + ms(800));
        contact.leads(5, start + ms(900));
        assert_eq!(contact.without_quorum_for(1, &three, start + ms(1_000)), ms(100));
        contact.leads(4, start + ms(950));
        contact.acknowledged(4, 2, start + ms(990));
        assert_eq!(contact.without_quorum_for(1, &three, start + ms(1_000)), ms(100));
    }

    #[test]
    fn a_leader_that_was_paused_counts_its_followers_silence_anew() {
        let (contact, start) = (LeaderContact::default(), Instant::now());
        contact.leads(4, start);
        contact.await_followers_anew(start + ms(2_000));
        let without = contact.without_quorum_for(1, &members(&[&[1, 2, 3]]), start + ms(2_100));
        assert_eq!(without, ms(100));
    }

    #[test]
    fn a_leader_without_a_quorum_falls_silent_for_longer_than_an_election_timeout() {
        let election_max = ms(500);
        let sends = |at| may_send(ms(at), election_max);
        assert!(sends(0) && sends(499));
        assert!((500..1_500).all(|at| !sends(at)));
        assert!((1_500..2_000).all(sends));
        assert!(!sends(2_000));
    }
}
