//! Why a proposal that was forwarded to the leader was not carried out.

use serde::{Deserialize, Serialize};

use crate::error::Rejected;

/// Why the node that was asked as the leader did not carry a proposal out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ForwardError {
    /// The commands are certainly not in the log, so it is safe to propose them again.
    NotAppended,
    /// The commands may be in the log, now or later.
    Unknown,
    /// Too many proposals are waiting already; the commands are certainly not in the log.
    Overloaded,
    /// The leader refuses these commands, so no command of the proposal is in the log.
    Refused(Vec<RefusedCommand>),
}

/// A refused command: its place among those proposed together, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedCommand {
    pub(crate) at: u32,
    pub(crate) why: Rejected,
}
