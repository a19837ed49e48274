//! How a restarted member comes back, and how its peers detect what it has forgotten.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::CallError;
use crate::core::Core;
use crate::message::{Origin, Refusal, Request};
use crate::runtime::in_process;
use crate::types::RaftVote;

/// Timeout for a member to take this node back, including the time to open a connection.
const RETURN_TIMEOUT: Duration = Duration::from_secs(3);

/// Asks all other members in parallel whether they still know this store, before it takes part. Peers that do not
/// answer are skipped: the whole cluster may be starting.
pub(crate) async fn announce(core: &Arc<Core>, last: Option<u64>) {
    let vote = core.vote();
    let mut asked = JoinSet::new();
    for (id, member) in core.others() {
        let core = Arc::clone(core);
        let request = Request::Return { vote, last_log_index: last };
        asked.spawn(in_process(async move {
            (id, core.client.call(id, &member, request, RETURN_TIMEOUT).await)
        }));
    }
    while let Some(Ok((id, answer))) = asked.join_next().await {
        match answer {
            Ok(_) => {}
            Err(CallError::Refused { .. }) if core.identity.stop_handle().must_stop() => return,
            Err(error @ CallError::Refused { .. }) => {
                tracing::warn!(peer = id, %error, "a member does not take this node back");
            }
            Err(error) => tracing::debug!(peer = id, %error, "not asked"),
        }
    }
}

/// Judges whether a returning member has lost log entries.
///
/// The leader knows how far every follower's log reached, also from answers that openraft may not have got yet, and a
/// shorter log has lost entries. The exception is a follower that has seen a later leader, possibly of the same term:
/// that leader may have truncated its log.
pub(crate) fn judge(
    core: &Core,
    from: &Origin,
    vote: &RaftVote,
    last_log_index: Option<u64>,
) -> Result<(), Refusal> {
    let (own, matched) = core.metrics(|now| {
        (now.vote, now.replication.as_ref().and_then(|all| *all.get(&from.node_id)?))
    });
    if own < *vote {
        return Ok(());
    }
    let reached = core.early.reached(from.node_id, own);
    match matched.max(reached) {
        Some(matched) if last_log_index < Some(matched.index) => {
            Err(Refusal::LostLog { acknowledged: matched.index })
        }
        _ => Ok(()),
    }
}
