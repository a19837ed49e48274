//! A leader whose process is gone is replaced as soon as the others may vote again.
//!
//! Followers find out that a leader is silent by waiting: longer than it could stutter, and each for
//! another time. But where nobody listens at the leader's address any more, its machine says so at
//! once. Then there is no doubt to wait out, only the lease that openraft lets every follower keep,
//! and one after the other stands for election. When and who is a matter of speed alone: whoever
//! stands still needs the votes of a quorum.

use std::sync::Arc;
use std::time::Duration;

use openraft::metrics::RaftServerMetrics;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::node::Inner;
use crate::transport::Wire;
use crate::types::Member;

/// A leader that listens again within this long was restarted, and leads on.
const LOOK_AGAIN_TIMEOUT: Duration = Duration::from_millis(50);

/// They change when the leader does, the others with every answer.
type Metrics = watch::Receiver<RaftServerMetrics<u64, Member>>;

/// Timers are not exact.
const MARGIN: Duration = Duration::from_millis(10);

/// A leader to follow, and how many of the voters stand for election before this node does.
type Followed = (Member, u32);

/// Stands for election whenever the leader is certainly gone, for as long as the node runs.
pub(crate) async fn succeed_leaders(inner: Arc<Inner>, wire: Arc<dyn Wire>) {
    let mut metrics = inner.raft.server_metrics();
    loop {
        let leader = metrics.borrow_and_update().current_leader;
        tokio::select! {
            () = outlive(&inner, &*wire, leader) => {
                tracing::info!(leader, "nobody listens at the leader's address: standing for election");
                // An error says that the Raft core has ended, and so does the next line.
                let _ = inner.raft.trigger().elect().await;
            }
            runs = until_another(metrics.clone(), leader) => if runs { continue } else { return },
        }
        // One attempt for each leader; after that, Raft's own timers decide.
        if !until_another(metrics.clone(), leader).await {
            return;
        }
    }
}

/// Waits until this leader is no more, or another one is; `false` once Raft has ended here.
async fn until_another(mut metrics: Metrics, leader: Option<u64>) -> bool {
    metrics.wait_for(|now| now.current_leader != leader).await.is_ok()
}

/// Resolves when the leader is gone and it is this node's turn; never, when there is none to follow.
async fn outlive(inner: &Inner, wire: &dyn Wire, leader: Option<u64>) {
    let Some((leader, turn)) = leader.and_then(|leader| follow(inner, leader)) else {
        return std::future::pending().await;
    };
    let tuning = &inner.options.tuning;
    loop {
        wire.gone(&leader.raft).await;
        // Whatever it sent last arrived before this, so this is when all of them may vote again.
        sleep(tuning.election_max + turn * tuning.message_max + MARGIN).await;
        if timeout(LOOK_AGAIN_TIMEOUT, wire.gone(&leader.raft)).await.is_ok() {
            return;
        }
    }
}

fn follow(inner: &Inner, leader: u64) -> Option<Followed> {
    let me = inner.local.node_id();
    let members = inner.local.members();
    let mut successors: Vec<u64> = members.voter_ids().filter(|id| *id != leader).collect();
    successors.sort_unstable();
    let turn = successors.iter().position(|id| *id == me)?;
    Some((inner.member(leader)?, u32::try_from(turn).ok()?))
}
