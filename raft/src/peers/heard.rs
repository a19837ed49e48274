//! What this node has learned about its peers from messages.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::clocks::Clocks;
use super::leader_contact::{LeaderContact, may_send};
use super::reachability::Reachability;
use super::timers::Timers;
use super::weather::Weather;
use crate::identity::NodeIdentity;
use crate::options::{Clock, Tuning};
use crate::raft_storage::SyncPace;

/// Upper bound on the message time that a candidate allows for before it stands again. A link that was bad for a
/// moment must not hold up the elections after it.
const ELECTION_MESSAGES_MAX: Duration = Duration::from_secs(2);

/// What this node has learned about its peers from messages. None of it is on disk, and safety does not depend on it.
pub(crate) struct PeerObservations {
    identity: Arc<NodeIdentity>,
    clock: Arc<dyn Clock>,
    clocks: Clocks,
    contact: LeaderContact,
    reachability: Reachability,
    weather: Weather,
    /// How long this node's own syncs take.
    syncs: Arc<SyncPace>,
    /// The timers of fast links.
    tuning: Tuning,
}

impl PeerObservations {
    pub(crate) fn new(
        identity: Arc<NodeIdentity>,
        clock: Arc<dyn Clock>,
        syncs: Arc<SyncPace>,
        tuning: Tuning,
    ) -> Self {
        let (clocks, contact, reachability, weather) = Default::default();
        Self { identity, clock, clocks, contact, reachability, weather, syncs, tuning }
    }

    /// This node's own clock, in Unix milliseconds.
    pub(crate) fn own_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The peers' clocks.
    pub(crate) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The times of the last contact with the leader, or with its followers.
    pub(crate) fn contact(&self) -> &LeaderContact {
        &self.contact
    }

    /// When each peer last showed a sign of life.
    pub(crate) fn reachability(&self) -> &Reachability {
        &self.reachability
    }

    /// How long messages to each peer take, and what it last reported about itself.
    pub(crate) fn weather(&self) -> &Weather {
        &self.weather
    }

    /// How long this node's recent syncs took.
    pub(crate) fn syncs(&self) -> &SyncPace {
        &self.syncs
    }

    /// The election timers. They fit the link to the leader that this node follows, as that leader measures it, or
    /// else the links to the members that a quorum needs.
    pub(crate) fn timers(&self) -> Timers {
        let leader = self.identity.leader().filter(|id| *id != self.identity.node_id());
        let silence = match leader {
            Some(leader) => {
                self.contact.patience_of(leader).or_else(|| self.weather.silence(leader))
            }
            None => self.of_quorum(|id| self.weather.silence(id)),
        };
        Timers::new(&self.tuning, silence)
    }

    /// How long a follower should wait for this node, which leads, before it campaigns.
    pub(crate) fn patience_with(&self, id: u64) -> Duration {
        Timers::new(&self.tuning, self.weather.silence(id)).election_min
    }

    /// The time that the messages of an election take: two rounds.
    pub(crate) fn election_messages(&self) -> Duration {
        ELECTION_MESSAGES_MAX.min(2 * self.quorum_round_trip())
    }

    /// The time that a candidate needs to win if it can: its messages, and several syncs of each voter.
    pub(crate) fn election_time(&self) -> Duration {
        let messages = self.election_messages();
        let others_sync = self.of_quorum(|id| self.weather.sync(id)).unwrap_or_default();
        let sync = self.syncs.bound().max(others_sync);
        self.tuning.message_max.max(messages + 8 * sync)
    }

    /// A round trip that the slowest member needed for a quorum rarely exceeds; zero while it is not known.
    pub(crate) fn quorum_round_trip(&self) -> Duration {
        self.of_quorum(|id| self.weather.bound(id)).unwrap_or_default()
    }

    /// How long a commit takes if this node leads: its own sync, and the answer of the slowest member that a quorum
    /// needs. `None` while that is not known.
    pub(crate) fn commit_time(&self) -> Option<Duration> {
        let answer = |id| Some(self.weather.round_trip(id)? + self.weather.sync(id)?);
        Some(self.syncs.usually()? + self.of_quorum(answer)?)
    }

    /// A time that few commits would exceed if this node led: the same sum, of bounds that few syncs and round trips
    /// exceed.
    pub(crate) fn commit_bound(&self) -> Option<Duration> {
        let answer = |id| Some(self.weather.bound(id)? + self.weather.sync(id)?);
        Some(self.syncs.bound() + self.of_quorum(answer)?)
    }

    /// The longest time among the fastest members that make a quorum together with this node. `None` while one of
    /// those times is not known, or the voters are not.
    fn of_quorum(&self, time: impl Fn(u64) -> Option<Duration>) -> Option<Duration> {
        let (me, members) = (self.identity.node_id(), self.identity.members());
        let mut longest = Duration::ZERO;
        // A node that was not let in yet knows no voters.
        members.voter_ids().next()?;
        for voters in members.membership().get_joint_config() {
            let others = voters.iter().filter(|id| **id != me);
            let mut times: Vec<Option<Duration>> = others.map(|id| time(*id)).collect();
            times.sort_by_key(|time| time.unwrap_or(Duration::MAX));
            let needed = voters.len() / 2 + usize::from(!voters.contains(&me));
            if let Some(last) = needed.checked_sub(1) {
                longest = longest.max((*times.get(last)?)?);
            }
        }
        Some(longest)
    }

    /// Whether a member can be reached, as of 2 s ago or later.
    pub(crate) fn is_reachable(&self, node_id: u64) -> bool {
        self.reachability.is_fresh(node_id)
    }

    /// How long this node has led in `term` without an answer from a quorum.
    pub(crate) fn without_quorum_for(&self, term: u64, now: Instant) -> Duration {
        self.contact.leads(term, now);
        self.contact.without_quorum_for(self.identity.node_id(), &self.identity.members(), now)
    }

    /// Whether this node leads in `term`, a quorum has confirmed that, and a quorum still answers it.
    pub(crate) fn leads_with_quorum(&self, term: u64, now: Instant) -> bool {
        let is_answered = self.without_quorum_for(term, now) <= self.timers().election_max;
        let (me, members) = (self.identity.node_id(), self.identity.members());
        is_answered && self.contact.is_confirmed(term, me, &members)
    }

    /// Whether this node, as a follower, has heard its leader lately: within the time that the election of another
    /// leader takes, a second try included.
    pub(crate) fn hears_leader(&self, now: Instant) -> bool {
        self.contact.has_heard_leader_within(3 * self.timers().election_max, now)
    }

    /// Whether this node, which leads in `term`, may send at the moment.
    pub(crate) fn may_send(&self, term: u64, now: Instant) -> bool {
        may_send(self.without_quorum_for(term, now), self.timers().election_max)
    }

    /// The median of the voters' clocks, as far as this node has read them, in Unix milliseconds.
    pub(crate) fn median_ms(&self) -> u64 {
        let members = self.identity.members();
        self.clocks.median_ms(self.identity.node_id(), self.clock.now_ms(), members.voter_ids())
    }

    /// The median that a leader sends to its followers; `None` on other nodes.
    pub(crate) fn median_as_leader_ms(&self) -> Option<u64> {
        self.identity.leads().then(|| self.median_ms())
    }

    /// The cluster's time, in Unix milliseconds: the leader takes the median itself, the others receive it from the
    /// leader.
    pub(crate) fn cluster_now_ms(&self) -> Option<u64> {
        if self.identity.leads() { Some(self.median_ms()) } else { self.clocks.told_median_ms() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mintleaf_storage::{DataDir, SledEngine};
    use openraft::{Membership, RaftMetrics};
    use tokio::sync::watch;

    use super::*;
    use crate::raft_storage::LogStore;
    use crate::raft_storage::tests::everything_covered;
    use crate::stop::StopHandle;
    use crate::tests::StoppedClock;
    use crate::types::{Member, RaftMembership};

    #[tokio::test]
    async fn only_voters_clocks_count() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let engine = Arc::new(SledEngine::open(&dir).unwrap());
        let log = LogStore::start(1, engine, everything_covered()).unwrap();
        let syncs = Arc::clone(log.sync_pace());
        let identity = Arc::new(NodeIdentity::load(1, 7, 1, log, StopHandle::new()).unwrap());
        let nodes: BTreeMap<u64, Member> = (1..=3).map(|id| (id, Member::default())).collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2])], nodes);
        let membership_config = Arc::new(RaftMembership::new(None, membership));
        let metrics = RaftMetrics { membership_config, ..RaftMetrics::new_initial(1) };
        identity.watch(watch::Sender::new(metrics).subscribe());
        let heard =
            PeerObservations::new(identity, Arc::new(StoppedClock), syncs, Tuning::default());
        let own_ms = StoppedClock.now_ms();
        heard.clocks().read(2, own_ms + 9_000);
        heard.clocks().read(3, own_ms + 5_000);
        assert_eq!(heard.median_ms(), own_ms, "the lower of two voters, and node 3 is a learner");
    }
}
