//! What other members ask of this node: each request goes to the part of the node that it concerns.

use std::sync::{Arc, Weak};

use mintleaf_core::state::State;
use mintleaf_core::tag::BizTag;
use mintleaf_raft::{LeaderRequests, Pending};
use tokio::time::Instant;

use super::cluster::ClusterService;
use super::notes;
use crate::replica::Replica;
use crate::service::leader::LeaderQueue;

/// Has this node answer what other members ask of it: `leader` what they ask of it as the leader.
pub(in crate::service) fn answer_members(cluster: &Arc<ClusterService>, leader: &LeaderQueue) {
    cluster.parts.replica.node().answer_by(Arc::new(MemberRequests::of(cluster, leader)));
}

/// The replica holds the node, which holds this.
pub(in crate::service) struct MemberRequests {
    replica: Weak<Replica>,
    cluster: Weak<ClusterService>,
    leader: LeaderQueue,
}

impl MemberRequests {
    pub(in crate::service) fn of(cluster: &Arc<ClusterService>, leader: &LeaderQueue) -> Self {
        let replica = Arc::downgrade(&cluster.parts.replica);
        Self { replica, cluster: Arc::downgrade(cluster), leader: leader.clone() }
    }

    /// Whether this node's copy shows the tag as frozen.
    fn is_frozen(&self, tag: &BizTag) -> bool {
        let protection = |state: &State| state.protection(tag.as_str());
        let protection = self.replica.upgrade().and_then(|replica| replica.read(protection));
        protection.is_some_and(|protection| protection.frozen)
    }
}

impl LeaderRequests for MemberRequests {
    fn answer(&self, request: Vec<u8>, deadline: Instant) -> Pending<'_, Option<Vec<u8>>> {
        if notes::is_note(&request) {
            return Box::pin(async move {
                notes::answer(&*self.replica.upgrade()?, &request, deadline).await
            });
        }
        let cluster = self.cluster.upgrade();
        match cluster.and_then(|cluster| cluster.answer_member(&request)) {
            Some(answer) => Box::pin(async move { Some(answer) }),
            None => Box::pin(async move {
                self.leader.answer_member(&request, deadline, |tag| self.is_frozen(tag)).await
            }),
        }
    }
}
