//! A leader's signs of life.
//!
//! openraft has one setting for three things: how often a leader sends heartbeats, how fine its clock
//! ticks for elections (one and a half of it), and how long a message may take. A heartbeat is the
//! work of all members, several times that of a tick, and where ids wait for the same core it delays
//! them. So heartbeats have an interval of their own, and openraft's are off.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::sleep;

use crate::node::Inner;

/// Sends heartbeats whenever this node leads, for as long as it runs.
pub(crate) async fn beat(inner: Arc<Inner>) {
    let me = Some(inner.local.node_id());
    // They change when the leader does, the others with every answer.
    let mut metrics = inner.raft.server_metrics();
    while metrics.wait_for(|now| now.current_leader == me).await.is_ok() {
        sleep(inner.options.tuning.heartbeat).await;
        if !inner.silent.load(Relaxed) && inner.raft.trigger().heartbeat().await.is_err() {
            return; // The Raft core has ended.
        }
    }
}
