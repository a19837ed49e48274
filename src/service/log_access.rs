//! How services read the replicated state and change it.

use mintleaf_core::state::{Command, Response};

use super::error::Error;
use crate::limits::{GRAB_MAX, TAG_CHANGE_MAX};
use crate::replica::Replica;

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
        Consistency::Linearizable => {
            let deadline = replica.deadline(GRAB_MAX);
            Ok(replica.read_barrier(deadline).await?)
        }
        Consistency::Stale => Ok(()),
    }
}

/// Proposes a change that a client asked for, after its bounds are checked.
///
/// # Errors
/// [`Error::InvalidArgument`]; the errors of the log.
pub(super) async fn change(replica: &Replica, command: Command) -> Result<Response, Error> {
    command.check()?;
    let deadline = replica.deadline(TAG_CHANGE_MAX);
    Ok(replica.propose(&command, deadline).await?)
}
