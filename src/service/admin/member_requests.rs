//! What other members ask of this node: each request goes to the part of the node that it concerns.

use std::sync::{Arc, Weak};

use mintleaf_raft::{LeaderRequests, Pending};
use tokio::time::Instant;

use super::cluster::ClusterService;
use super::notes;
use crate::replica::Replica;
use crate::service::leader::LeaderQueue;

/// Has this node answer what other members ask of it: `leader` what they ask of it as the leader.
pub(in crate::service) fn answer_members(cluster: &Arc<ClusterService>, leader: &LeaderQueue) {
    let replica = Arc::downgrade(&cluster.replica);
    let (cluster_service, leader) = (Arc::downgrade(cluster), leader.clone());
    let requests = MemberRequests { replica, cluster: cluster_service, leader };
    cluster.replica.node().answer_by(Arc::new(requests));
}

/// The replica holds the node, which holds this.
struct MemberRequests {
    replica: Weak<Replica>,
    cluster: Weak<ClusterService>,
    leader: LeaderQueue,
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
            None => self.leader.answer(request, deadline),
        }
    }
}
