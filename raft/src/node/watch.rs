//! Watches openraft: stops the node when its part in the cluster is over, and takes snapshots that are due by size.

use std::sync::Arc;

use openraft::StorageError as RaftStorageError;
use openraft::error::Fatal;

use crate::core::Core;

/// Why the node ends.
enum End {
    Failed(String),
    Removed(u64),
}

/// Stops the node when openraft ends, or when the node is removed from the membership. Until then, has a snapshot taken
/// whenever a start would replay too much.
pub(super) async fn watch_raft(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    let mut was_member = false;
    loop {
        let ended = {
            let now = metrics.borrow_and_update();
            let members = &now.membership_config;
            let is_member = members
                .membership()
                .get_node(&core.identity.node_id())
                .is_some_and(|member| member.store == core.identity.store());
            let index = members.log_id().map(|id| id.index);
            let committed = now.last_applied.map(|id| id.index) >= index;
            match &now.running_state {
                Err(error) => Some(End::Failed(describe_end(error))),
                Ok(()) if was_member && !is_member && committed => {
                    Some(End::Removed(index.unwrap_or(0)))
                }
                Ok(()) => {
                    was_member |= is_member;
                    None
                }
            }
        };
        match ended {
            Some(End::Failed(why)) => return core.identity.stop_handle().stop(why),
            Some(End::Removed(index)) => return core.identity.stop_as_removed(index).await,
            None => {}
        }
        if core.replay.is_long() {
            // openraft ignores it while it takes one. An error is shown by the metrics, too.
            let _ = core.raft.trigger().snapshot().await;
        }
        if metrics.changed().await.is_err() {
            return core.identity.stop_handle().stop("the raft core has ended".to_owned());
        }
    }
}

fn describe_end(error: &Fatal<u64>) -> String {
    match error {
        Fatal::StorageError(error) => describe_storage_end(error),
        error => format!("the raft core has ended: {error}"),
    }
}

fn describe_storage_end(error: &RaftStorageError<u64>) -> String {
    format!("the storage failed, and what is on disk is unknown from here on: {error}")
}
