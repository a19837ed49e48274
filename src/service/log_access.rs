//! How services read the replicated state and change it.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Error;
use crate::limits::{GRAB_MAX, TAG_CHANGE_MAX};
use crate::replica::Replica;
use crate::state::{Command, Response};

/// How long a node waits to hear of a change that it has carried to the leader. It hears of commits within a heartbeat.
const NOTE_MAX: Duration = Duration::from_millis(500);

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Consistency {
    /// The answer holds every change that was acknowledged before the read began; it needs the quorum.
    Linearizable,
    /// The answer is this node's copy as it is.
    Stale,
}

/// Waits until the local state is fresh enough for a read.
///
/// # Errors
/// [`Error::Unavailable`] when a linearizable read finds no quorum.
pub(super) async fn refresh(replica: &Replica, consistency: Consistency) -> Result<(), Error> {
    match consistency {
        Consistency::Linearizable => Ok(replica.read_barrier(Instant::now() + GRAB_MAX).await?),
        Consistency::Stale => Ok(()),
    }
}

/// Waits until this node knows of a change that it has carried to the leader, so that it does not go on for a moment as if
/// there were none. The change is made, whatever becomes of the wait.
pub(super) async fn take_note(replica: &Replica) {
    let node = replica.node();
    if node.leader_id() != Some(node.node_id()) {
        let _ = replica.read_barrier(Instant::now() + NOTE_MAX).await;
    }
}

/// Proposes a change that a client asked for, after its bounds are checked.
///
/// # Errors
/// [`Error::InvalidArgument`]; those of the log.
pub(super) async fn change(replica: &Replica, command: Command) -> Result<Response, Error> {
    command.check()?;
    let deadline = Instant::now() + replica.patience(TAG_CHANGE_MAX);
    Ok(replica.propose(&command, deadline).await?)
}
