//! A leader's heartbeats.
//!
//! openraft ties heartbeats to the timeout of a message. Here they have an interval of their own, and
//! openraft's are off. A leader that no quorum answers pauses its heartbeats, so that its followers may elect
//! another: an election timeout later than they would if its process were gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::identity::NodeIdentity;
use crate::leadership_transfer::LeadershipTransfer;
use crate::peers::{Heard, LATE};
use crate::types::Raft;

/// Sends heartbeats while this node leads.
pub(crate) struct Heartbeat {
    pub(crate) raft: Raft,
    pub(crate) identity: Arc<NodeIdentity>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) transfer: Arc<LeadershipTransfer>,
    pub(crate) interval: Duration,
}

impl Heartbeat {
    /// Runs for as long as the node does.
    pub(crate) async fn run(self) {
        let me = Some(self.identity.node_id());
        // The server metrics change when the leader does, not with every answer.
        let mut metrics = self.raft.server_metrics();
        loop {
            let Ok(term) = metrics
                .wait_for(|now| now.current_leader == me)
                .await
                .map(|now| now.vote.leader_id.term)
            else {
                return; // openraft has ended.
            };
            let sends =
                !self.transfer.heartbeats_are_paused() && self.heard.may_send(term, Instant::now());
            if sends && self.raft.trigger().heartbeat().await.is_err() {
                return;
            }
            let due = Instant::now() + self.interval;
            sleep_until(due).await;
            // A leader that did not run has sent nothing, so its followers owe it no answer.
            if Instant::now() > due + LATE {
                self.heard.contact().await_followers_anew(Instant::now());
            }
        }
    }
}
