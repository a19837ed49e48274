//! The errors of a node, and of what callers ask of it.

use std::fmt;
use std::net::SocketAddr;

use mintleaf_storage::StorageError;
use serde::{Deserialize, Serialize};

/// What lets a node go on after it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Start the node again: what failed may work next time.
    Restart,
    /// Start the node with other settings.
    Settings,
    /// Call an operator to change the data directory, the membership or the release. Until then every start would end
    /// for the same reason.
    Operator,
}

/// Why a node ends without being asked to stop, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReason {
    text: String,
    remedy: Remedy,
}

impl StopReason {
    /// A reason that another start may overcome.
    pub fn restart(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::Restart }
    }

    /// A reason that lies in the settings.
    pub fn settings(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::Settings }
    }

    /// A reason that only an operator can remove.
    pub fn operator(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::Operator }
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        self.remedy
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<NodeError> for StopReason {
    fn from(error: NodeError) -> Self {
        Self { text: error.to_string(), remedy: error.remedy() }
    }
}

/// An error without a known remedy is worth another start.
impl From<String> for StopReason {
    fn from(text: String) -> Self {
        Self::restart(text)
    }
}

/// Why a node could not be opened, or ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(StorageError),
    /// The internal listener cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address in the options.
        address: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The options contradict each other or the data directory.
    #[error("{0}")]
    Options(String),
    /// openraft refused to start, or ended.
    #[error("raft: {0}")]
    Raft(String),
    /// The node must not go on. The reason names the remedy.
    #[error("{0}")]
    Stopped(StopReason),
}

impl From<StorageError> for NodeError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl NodeError {
    pub(crate) fn raft(error: impl ToString) -> Self {
        Self::Raft(error.to_string())
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Storage(error) if error.needs_operator() => Remedy::Operator,
            Self::Stopped(reason) => reason.remedy(),
            Self::Options(_) => Remedy::Settings,
            Self::Storage(_) | Self::Listen { .. } | Self::Raft(_) => Remedy::Restart,
        }
    }
}

/// How often a proposal may be applied. This decides whether it is repeated when its fate is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The proposal may be applied more than once, which costs something but does no harm.
    AtLeastOnce,
    /// The proposal must not be applied twice.
    AtMostOnce,
    /// The proposal must not be applied twice, and only this node may append it, as the leader. It is not sent to
    /// another node, and fails if this node does not lead.
    AsLeader,
}

/// Why a command must not be appended to the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejected {
    /// The bytes are not a command, or break a bound.
    #[error("it cannot be applied: {0}")]
    Unfit(String),
    /// The command needs a higher level of the cluster.
    #[error("it needs level {needs} of the cluster, which has level {has}")]
    Level {
        /// The lowest level with the command.
        needs: u32,
        /// The cluster's level.
        has: u32,
    },
}

/// Why a proposal or a read was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// No leader or no quorum answered in time. The proposal is not applied, unless it was made with
    /// [`Delivery::AtLeastOnce`].
    #[error("the cluster did not answer in time: {0}")]
    Unavailable(String),
    /// The proposal may or may not be applied, now or later.
    #[error("it may have happened or may yet, so look before you repeat it: {0}")]
    Unknown(String),
    /// Too many proposals are waiting already. The proposal is not applied.
    #[error("too many proposals are waiting")]
    Overloaded,
    /// The proposal must never be appended, and is not applied.
    #[error("refused: {0}")]
    Rejected(Rejected),
}

impl ProposeError {
    /// Whether the same request may succeed later. After [`ProposeError::Unknown`], first check whether it was
    /// applied.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Unknown(_) | Self::Rejected(_))
    }
}

/// Why this node's leadership was not confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotConfirmed {
    /// This node does not lead.
    #[error("this node does not lead")]
    NotLeading,
    /// This node may lead, but no quorum confirmed it in time. Another round may succeed.
    #[error("no quorum confirmed in time that this node leads")]
    NoQuorum,
}

/// Why a member did not answer a request. The request may have been carried out all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No leader is known, or this node leads itself.
    #[error("no other node is known to lead")]
    NoLeader,
    /// The node that was asked did not answer in time or at all, or is not a member.
    #[error("no answer: {0}")]
    Unanswered(String),
    /// The node that was asked has too many requests to answer.
    #[error("the node that was asked has too many requests to answer")]
    Overloaded,
}
