//! What a node knows of its cluster without asking any other node.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::Core;
use crate::state_machine::Release;
use crate::types::{NamesLeader, RaftMetrics};

/// A member's role in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The member leads in the current term.
    Leader,
    /// The member votes, and does not lead.
    Voter,
    /// The member replicates the log and has no vote.
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
    /// Role in the cluster.
    pub role: Role,
    /// Last log index known to be on that member's disk. The leader knows it for every member, any other node only
    /// for itself.
    pub matched_index: Option<u64>,
    /// Whether the member showed a sign of life within the last 2 s.
    pub reachable: bool,
    /// How long ago the member last showed a sign of life; `None` when it has shown none since this node started.
    pub silence: Option<Duration>,
    /// The median of the last round trips from this node to the member; `None` for this node itself, and before the
    /// first.
    pub round_trip: Option<Duration>,
    /// How long recent syncs took on the member's disk, as it last reported; `None` while that is not known.
    pub sync: Option<Duration>,
    /// Whether the member reported that it is about to stop.
    pub declines: bool,
    /// What the member runs, as it last reported; `None` until it was heard.
    pub release: Option<Release>,
    /// The member's zone, as it last reported; `None` if it has no zone or was not heard.
    pub zone: Option<String>,
}

/// What a node knows of its cluster without asking any other node.
#[derive(Debug, Clone)]
pub struct Status {
    /// The cluster's id; `None` before this node has taken part in one.
    pub cluster_id: Option<u128>,
    /// What this node waits for in order to take part in one, in words; `None` once it does.
    pub waits_for: Option<String>,
    /// This node's id.
    pub node_id: u64,
    /// The leader, if one is known. This node counts as the leader only while a quorum answers it, and another node
    /// only while this node hears it.
    pub leader_id: Option<u64>,
    /// How many times a leader took over since this node started, not counting the first leader that it knew.
    pub leader_changes: u64,
    /// Raft's current term.
    pub term: u64,
    /// Last index in this node's log.
    pub last_log_index: Option<u64>,
    /// Last index this node has applied.
    pub last_applied_index: Option<u64>,
    /// Last index covered by this node's newest snapshot.
    pub snapshot_index: Option<u64>,
    /// Last index that this node has purged from its log; only its snapshot covers it.
    pub purged_index: Option<u64>,
    /// Every member, by id.
    pub members: Vec<MemberStatus>,
    /// The ids of the voters. While the voters change there are two lists, before and after the change, and a quorum
    /// is a majority of each.
    pub voters: Vec<BTreeSet<u64>>,
    /// The fingerprints of this node's [`Credentials`](crate::Credentials) at this moment. A node without any has none.
    pub keys: Vec<String>,
}

impl Status {
    pub(crate) fn of(core: &Core) -> Self {
        let now = core.metrics(Clone::clone);
        let leader_id = known_leader(core, &now);
        Self {
            cluster_id: core.cluster(),
            waits_for: core.waits_for.lock().clone().filter(|_| core.cluster().is_none()),
            node_id: core.identity.node_id(),
            leader_id,
            leader_changes: core.leader_changes.load(Relaxed),
            term: now.current_term,
            last_log_index: now.last_log_index,
            last_applied_index: now.last_applied.map(|id| id.index),
            snapshot_index: now.snapshot.map(|id| id.index),
            purged_index: now.purged.map(|id| id.index),
            members: members(core, &now, leader_id),
            voters: now.membership_config.membership().get_joint_config().clone(),
            keys: core.options.security.fingerprints(),
        }
    }
}

/// The leader to show: one that answers. openraft notices neither that this node lost its quorum as the leader, nor
/// that the leader it follows is gone, and it starts with the leader that its disk names.
pub(super) fn known_leader(core: &Core, now: &RaftMetrics) -> Option<u64> {
    let at = Instant::now();
    now.leader().filter(|&leader| match leader == core.identity.node_id() {
        true => core.heard.leads_with_quorum(now.current_term, at),
        false => core.heard.hears_leader(at),
    })
}

fn members(core: &Core, now: &RaftMetrics, leader_id: Option<u64>) -> Vec<MemberStatus> {
    let me = core.identity.node_id();
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
        reachable: id == me || core.heard.is_reachable(id),
        silence: match id {
            id if id == me => Some(Duration::ZERO),
            id => core.heard.reachability().silence(id),
        },
        round_trip: core.heard.weather().round_trip(id),
        sync: if id == me { core.heard.syncs().lately() } else { core.heard.weather().sync(id) },
        declines: match id {
            id if id == me => core.transfer.has_declined(),
            id => core.heard.weather().declines(id),
        },
        release: if id == me { Some(core.state.supports()) } else { core.releases.of(member) },
        zone: match id {
            id if id == me => Some(core.options.zone.clone()),
            _ => core.releases.zone_of(member),
        }
        .filter(|zone| !zone.is_empty()),
    });
    members.collect()
}
