//! What a node knows of its cluster without asking anybody.

use openraft::RaftMetrics;
use tokio::time::Instant;

use crate::level::Release;
use crate::node::Inner;
use crate::types::Member;

/// A member's part in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Leads the current term.
    Leader,
    /// Votes.
    Voter,
    /// Replicates only.
    Learner,
}

/// One member, as this node knows it.
#[derive(Debug, Clone)]
pub struct MemberStatus {
    /// Raft id.
    pub id: u64,
    /// Internal address.
    pub raft: String,
    /// Client address.
    pub http: String,
    /// Part in the cluster.
    pub role: Role,
    /// Last log index known to be on that member's disk; known to the leader, and of oneself.
    pub matched_index: Option<u64>,
    /// Whether it showed a sign of life within the last 2 s.
    pub reachable: bool,
    /// What it runs, as it last said; `None` while it was not heard.
    pub release: Option<Release>,
}

/// What this node knows of the cluster, without asking anybody.
#[derive(Debug, Clone)]
pub struct Status {
    /// The cluster's name; `None` before it has formed.
    pub cluster_id: Option<u128>,
    /// This node.
    pub node_id: u64,
    /// The leader, when one is known and, if it is this node, has a quorum behind it.
    pub leader_id: Option<u64>,
    /// Raft's current term.
    pub term: u64,
    /// Last index in this node's log.
    pub last_log_index: Option<u64>,
    /// Last index this node has applied.
    pub last_applied_index: Option<u64>,
    /// Last index covered by this node's newest snapshot.
    pub snapshot_index: Option<u64>,
    /// Last index that is in no log of this node any more, only in its snapshot.
    pub purged_index: Option<u64>,
    /// Every member, by id.
    pub members: Vec<MemberStatus>,
}

impl Status {
    pub(crate) fn of(inner: &Inner) -> Self {
        // A copy: a borrow that is held over another one would wait for a writer that waits for it.
        let now = inner.raft.metrics().borrow().clone();
        let leader_id = leader_with_quorum(inner, &now);
        Self {
            cluster_id: inner.formed(),
            node_id: inner.local.node_id(),
            leader_id,
            term: now.current_term,
            last_log_index: now.last_log_index,
            last_applied_index: now.last_applied.map(|id| id.index),
            snapshot_index: now.snapshot.map(|id| id.index),
            purged_index: now.purged.map(|id| id.index),
            members: members(inner, &now, leader_id),
        }
    }
}

/// A leader that lost its quorum does not notice by itself; here it stops claiming to lead.
fn leader_with_quorum(inner: &Inner, now: &RaftMetrics<u64, Member>) -> Option<u64> {
    let leads = now.current_leader == Some(inner.local.node_id());
    let without_quorum = || inner.local.without_quorum_for(now.current_term, Instant::now());
    now.current_leader.filter(|_| !leads || without_quorum() <= inner.options.tuning.election_max)
}

fn members(
    inner: &Inner,
    now: &RaftMetrics<u64, Member>,
    leader_id: Option<u64>,
) -> Vec<MemberStatus> {
    let me = inner.local.node_id();
    let voters: Vec<u64> = now.membership_config.voter_ids().collect();
    let role = |id: u64| match id {
        id if leader_id == Some(id) => Role::Leader,
        id if voters.contains(&id) => Role::Voter,
        _ => Role::Learner,
    };
    let matched = |id: u64| match id {
        id if id == me => now.last_log_index,
        id => now.replication.as_ref().and_then(|all| *all.get(&id)?).map(|id| id.index),
    };
    let members = now.membership_config.nodes().map(|(&id, member)| MemberStatus {
        id,
        raft: member.raft.clone(),
        http: member.http.clone(),
        role: role(id),
        matched_index: matched(id),
        reachable: id == me || inner.client.is_reachable(id),
        release: if id == me { Some(inner.state.supports()) } else { inner.releases.of(member) },
    });
    members.collect()
}
