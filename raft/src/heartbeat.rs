//! A leader's signs of life.
//!
//! openraft ties heartbeats to the timeout of a message. Here they have an interval of their own, and
//! openraft's are off. A leader that no quorum answers falls silent, so that its followers may elect
//! another: an election timeout later than they would if it were gone.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::{Instant, sleep_until};

use crate::contact::LATE;
use crate::node::Inner;

/// Sends heartbeats whenever this node leads, for as long as it runs.
pub(crate) async fn beat(inner: Arc<Inner>) {
    let me = Some(inner.local.node_id());
    // They change when the leader does, not with every answer.
    let mut metrics = inner.raft.server_metrics();
    loop {
        let Ok(term) = metrics
            .wait_for(|now| now.current_leader == me)
            .await
            .map(|now| now.vote.leader_id.term)
        else {
            return; // The Raft core has ended.
        };
        let sends = !inner.silent.load(Relaxed) && inner.local.may_send(term, Instant::now());
        if sends && inner.raft.trigger().heartbeat().await.is_err() {
            return;
        }
        let due = Instant::now() + inner.options.tuning.heartbeat;
        sleep_until(due).await;
        // A leader that did not run has sent nothing, so its followers owe it no answer.
        if Instant::now() > due + LATE {
            inner.local.contact().await_followers_anew(Instant::now());
        }
    }
}
