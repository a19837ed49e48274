//! Changes of the membership, and why a change may not happen.

use serde::{Deserialize, Serialize};

use crate::state_machine::Release;

/// A change of the membership, of the leader or of the cluster's level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// Add a node as a learner and, if requested, make it a voter once it has caught up; or make a voter a learner.
    /// `store` is present when the node asks on its own behalf, which leaves its role as it is.
    Add {
        id: u64,
        raft: String,
        http: String,
        voter: bool,
        store: Option<u128>,
        /// What the node supports, if it asks to be added itself.
        release: Option<Release>,
    },
    /// Remove a node, voter or learner. `store` is the one that the membership named where the removal was requested:
    /// a request that arrives late must not remove a node that has joined since.
    Remove { id: u64, store: u128 },
    /// Make a voter the leader.
    Transfer { id: u64 },
    /// Raise the level of the cluster to what all members support.
    RaiseLevel,
}

/// What a change of the voters waits for before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precaution {
    /// A majority of the voters that it leaves has answered.
    AskVoters,
    /// Nothing: an operator forces the change.
    None,
}

impl Change {
    /// Whether this node asks on its own behalf: to be added, or to have its new addresses recorded.
    pub(crate) fn is_for(&self, node_id: u64) -> bool {
        matches!(self, Self::Add { id, store: Some(_), .. } if *id == node_id)
    }
}

/// Why a change of the membership did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MembershipError {
    /// The change contradicts the present membership.
    #[error("{0}")]
    Conflict(String),
    /// The node that was named belongs to another cluster.
    #[error("{0}")]
    WrongCluster(String),
    /// There is no such member.
    #[error("node {0} is not a member")]
    Unknown(u64),
    /// The change did not happen in time, or cannot happen yet; another try may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// There was no leader with a quorum to carry the change out, or the leader was lost on the way and the change
    /// may have happened. Another try may succeed once a leader is elected.
    #[error("{0}")]
    NoLeader(String),
    /// A member or a newcomer does not support the level that the cluster has or is to have, or could not be asked.
    #[error("{0}")]
    Level(String),
    /// Another change is under way; another try may succeed.
    #[error("another change is in progress")]
    Busy,
}

impl MembershipError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NoLeader(_) | Self::Busy)
    }
}
