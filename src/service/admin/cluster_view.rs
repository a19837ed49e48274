//! The cluster as one node sees it, in the fields that clients read.

use std::time::Duration;

use mintleaf_raft::{MemberStatus, Role, Status};
use serde::{Deserialize, Serialize};

use super::worker_view::ClockView;
use crate::metrics::ClusterReadings;

/// The cluster, from local knowledge only.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterView {
    /// The cluster's name, 32 hexadecimal digits; `None` before the bootstrap.
    pub cluster_id: Option<String>,
    /// The node that answers.
    pub node_id: u64,
    /// The leader, while one is known.
    pub leader_id: Option<u64>,
    /// Raft's current term.
    pub term: u64,
    /// The cluster's level, which decides what its log may hold.
    pub level: u32,
    /// The ids of the voters; two lists while they change, before and after, and a quorum is a majority of each.
    pub voters: Vec<Vec<u64>>,
    /// Fingerprints of what the answering node proves itself with to others, the preferred one first: of the keys that
    /// its secrets give, or of its certificate.
    pub keys: Vec<String>,
    /// What distinguishes the auth file that is in force at the answering node; `None` without one.
    pub auth_file: Option<String>,
    /// Which files of the answering node have changed, or are gone, and cannot be used: what they held before is in
    /// force.
    pub failed_reloads: Vec<&'static str>,
    /// Every member, by id.
    pub nodes: Vec<NodeView>,
}

/// One member.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Raft id.
    pub id: u64,
    /// Internal address.
    pub raft: String,
    /// Client address.
    pub http: String,
    /// `leader`, `voter` or `learner`.
    pub role: &'static str,
    /// Where it is, as it last said; `None` when it was not heard, or was started without a zone.
    pub zone: Option<String>,
    /// The version it runs, as it last said; `None` when it was not heard.
    pub version: Option<String>,
    /// The highest level of a cluster that it supports, as it last said; `None` when it was not heard.
    pub level_max: Option<u32>,
    /// Last index in its log; each node knows its own.
    pub last_log_index: Option<u64>,
    /// Last index it applied; each node knows its own.
    pub last_applied_index: Option<u64>,
    /// Last index known to be on its disk; the leader knows every member's.
    pub matched_index: Option<u64>,
    /// Whether it showed a sign of life within the last 2 s.
    pub reachable: bool,
    /// When it last showed a sign of life, by the clock of the node that answers, in Unix milliseconds; `None` when
    /// it has shown none since that node started.
    pub last_heard_ms: Option<u64>,
    /// The median of the last round trips from this node to it, in milliseconds; `None` of this node itself, and before
    /// the first.
    pub rtt_ms: Option<f64>,
    /// What a sync takes lately on its disk, in milliseconds, as it last said; `None` while that is not known.
    pub sync_ms: Option<f64>,
    /// How far its clock is ahead of this node's, in milliseconds, when it said so lately.
    pub clock_offset_ms: Option<i64>,
    /// What its clock showed in its last report to the cluster, in Unix milliseconds.
    pub last_reported_ms: Option<u64>,
    /// What it has counted since its start, where that was asked for and it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<CountsView>,
}

/// What a node has counted since its start.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(in crate::service) struct NodeCounts {
    /// Ids that it handed out.
    pub(super) ids: u64,
    /// Requests that failed.
    pub(super) errors: u64,
}

/// The same in answers, as decimal texts.
#[derive(Clone, Debug, Serialize)]
pub struct CountsView {
    /// Ids that the node handed out.
    pub ids: String,
    /// Requests that failed.
    pub errors: String,
}

impl From<NodeCounts> for CountsView {
    fn from(NodeCounts { ids, errors }: NodeCounts) -> Self {
        Self { ids: ids.to_string(), errors: errors.to_string() }
    }
}

impl ClusterView {
    /// The view at `now_ms` of this node's clock, without the level, the auth file and the members' clocks.
    pub(in crate::service) fn new(status: &Status, now_ms: u64) -> Self {
        let node = |member: &MemberStatus| NodeView::new(member, status, now_ms);
        let nodes = status.members.iter().map(node).collect();
        Self {
            cluster_id: status.cluster_id.map(|id| format!("{id:032x}")),
            node_id: status.node_id,
            leader_id: status.leader_id,
            term: status.term,
            level: 1,
            voters: status.voters.iter().map(|ids| ids.iter().copied().collect()).collect(),
            keys: status.keys.clone(),
            auth_file: None,
            failed_reloads: Vec::new(),
            nodes,
        }
    }

    /// Adds what members have counted, by node.
    pub(in crate::service) fn add_counts(&mut self, counts: &[(u64, NodeCounts)]) {
        for node in &mut self.nodes {
            let counted = counts.iter().find(|(id, _)| *id == node.id);
            node.counts = counted.map(|(_, counts)| CountsView::from(*counts));
        }
    }

    /// Adds what is known of the members' clocks.
    pub(in crate::service) fn add_clocks(&mut self, clocks: &[ClockView]) {
        for node in &mut self.nodes {
            if let Some(clock) = clocks.iter().find(|clock| clock.node_id == node.id) {
                node.clock_offset_ms = clock.offset_ms;
                node.last_reported_ms = clock.last_reported_ms;
            }
        }
    }
}

impl From<&ClusterView> for ClusterReadings {
    fn from(view: &ClusterView) -> Self {
        let own = view.nodes.iter().find(|node| node.id == view.node_id);
        let clocks = view.nodes.iter().filter_map(|node| Some((node.id, node.clock_offset_ms?)));
        let others = || view.nodes.iter().filter(|node| node.id != view.node_id);
        let leads = view.leader_id == Some(view.node_id);
        let last = own.and_then(|node| node.last_log_index).filter(|_| leads);
        // A member that the leader knows nothing of lacks everything.
        let lag = |node: &NodeView| {
            Some((node.id, last?.saturating_sub(node.matched_index.unwrap_or(0))))
        };
        Self {
            term: view.term,
            leader_known: view.leader_id.is_some(),
            is_leader: leads,
            level: view.level,
            last_log_index: own.and_then(|node| node.last_log_index).unwrap_or(0),
            last_applied_index: own.and_then(|node| node.last_applied_index).unwrap_or(0),
            voters: view.nodes.iter().filter(|node| node.role != "learner").count() as u64,
            reachable: others().map(|node| (node.id, node.reachable)).collect(),
            lags: others().filter_map(lag).collect(),
            round_trips_s: others()
                .filter_map(|node| Some((node.id, node.rtt_ms? / 1e3)))
                .collect(),
            syncs_s: view
                .nodes
                .iter()
                .filter_map(|node| Some((node.id, node.sync_ms? / 1e3)))
                .collect(),
            clock_offsets_ms: clocks.collect(),
            ..Self::default()
        }
    }
}

impl NodeView {
    fn new(member: &MemberStatus, status: &Status, now_ms: u64) -> Self {
        let is_self = member.id == status.node_id;
        Self {
            id: member.id,
            raft: member.raft.clone(),
            http: member.http.clone(),
            role: match member.role {
                Role::Leader => "leader",
                Role::Voter => "voter",
                Role::Learner => "learner",
            },
            zone: member.zone.clone(),
            version: member.release.as_ref().map(|release| release.version.clone()),
            level_max: member.release.as_ref().map(|release| release.level),
            last_log_index: status.last_log_index.filter(|_| is_self),
            last_applied_index: status.last_applied_index.filter(|_| is_self),
            matched_index: member.matched_index,
            reachable: member.reachable,
            last_heard_ms: member.silence.map(|silence| now_ms.saturating_sub(whole_ms(silence))),
            rtt_ms: member.round_trip.map(ms),
            sync_ms: member.sync.map(ms),
            clock_offset_ms: None,
            last_reported_ms: None,
            counts: None,
        }
    }
}

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
