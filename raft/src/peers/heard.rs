//! All that messages have told this node of its peers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::clocks::Clocks;
use super::leader_contact::{LeaderContact, may_send};
use super::reachability::Reachability;
use crate::identity::NodeIdentity;
use crate::options::Clock;

/// What messages have told this node of its peers. Nothing of it is on disk, and safety rests on none of
/// it.
pub(crate) struct Heard {
    identity: Arc<NodeIdentity>,
    clock: Arc<dyn Clock>,
    clocks: Clocks,
    contact: LeaderContact,
    reachability: Reachability,
    /// Longest election timeout of followers: a leader without a quorum for so long is on its own.
    election_max: Duration,
}

impl Heard {
    pub(crate) fn new(
        identity: Arc<NodeIdentity>,
        clock: Arc<dyn Clock>,
        election_max: Duration,
    ) -> Self {
        let (clocks, contact, reachability) = Default::default();
        Self { identity, clock, clocks, contact, reachability, election_max }
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

    /// Whether a member can be reached, as of 2 s ago or later.
    pub(crate) fn is_reachable(&self, node_id: u64) -> bool {
        self.reachability.is_fresh(node_id)
    }

    /// How long no quorum has answered this node as the leader of `term`.
    pub(crate) fn without_quorum_for(&self, term: u64, now: Instant) -> Duration {
        self.contact.leads(term, now);
        self.contact.without_quorum_for(self.identity.node_id(), &self.identity.members(), now)
    }

    /// Whether this node leads in `term`, and a quorum has said so and answers it still.
    pub(crate) fn leads_with_quorum(&self, term: u64, now: Instant) -> bool {
        let is_answered = self.without_quorum_for(term, now) <= self.election_max;
        let (me, members) = (self.identity.node_id(), self.identity.members());
        is_answered && self.contact.is_confirmed(term, me, &members)
    }

    /// Whether this node, which follows, has heard its leader lately: within the time in which another is elected,
    /// with room for an election that takes a second try.
    pub(crate) fn hears_leader(&self, now: Instant) -> bool {
        self.contact.has_heard_leader_within(3 * self.election_max, now)
    }

    /// Whether this node, which leads in `term`, sends at the moment.
    pub(crate) fn may_send(&self, term: u64, now: Instant) -> bool {
        may_send(self.without_quorum_for(term, now), self.election_max)
    }

    /// The median of the voters' clocks, as far as this node has read them, in Unix milliseconds.
    pub(crate) fn median_ms(&self) -> u64 {
        let members = self.identity.members();
        self.clocks.median_ms(self.identity.node_id(), self.clock.now_ms(), members.voter_ids())
    }

    /// The median that a leader tells its followers; `None` on other nodes.
    pub(crate) fn median_as_leader_ms(&self) -> Option<u64> {
        self.identity.leads().then(|| self.median_ms())
    }

    /// The cluster's time, in Unix milliseconds: the leader takes the median itself, the others know it from
    /// the leader.
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
    use crate::raft_storage::suite::everything_covered;
    use crate::stop::StopHandle;
    use crate::tests::{ELECTION_MAX, StoppedClock};
    use crate::types::{Member, RaftMembership};

    #[tokio::test]
    async fn only_voters_clocks_count() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let engine = Arc::new(SledEngine::open(&dir).unwrap());
        let log = LogStore::start(engine, everything_covered()).unwrap();
        let identity = Arc::new(NodeIdentity::load(1, 7, 1, log, StopHandle::new()).unwrap());
        let nodes: BTreeMap<u64, Member> = (1..=3).map(|id| (id, Member::default())).collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2])], nodes);
        let membership_config = Arc::new(RaftMembership::new(None, membership));
        let metrics = RaftMetrics { membership_config, ..RaftMetrics::new_initial(1) };
        identity.watch(watch::Sender::new(metrics).subscribe());
        let heard = Heard::new(identity, Arc::new(StoppedClock), ELECTION_MAX);
        let own_ms = StoppedClock.now_ms();
        heard.clocks().read(2, own_ms + 9_000);
        heard.clocks().read(3, own_ms + 5_000);
        assert_eq!(heard.median_ms(), own_ms, "the lower of two voters, and node 3 is a learner");
    }
}
