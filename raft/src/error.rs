//! What can go wrong with a node and with what is asked of it.

use std::fmt;
use std::net::SocketAddr;

use mintleaf_storage::StorageError;
use serde::{Deserialize, Serialize};

/// What lets a node that has ended go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Another start: what failed may work again.
    Restart,
    /// Other settings.
    Settings,
    /// An operator, who changes the data directory, the membership or the release: every later start
    /// would meet the same.
    Operator,
}

/// Why a node is at its end though nobody asked it to stop, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReason {
    text: String,
    remedy: Remedy,
}

impl StopReason {
    /// An end after which another start may go on.
    pub fn restart(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::Restart }
    }

    /// An end because the settings do not fit.
    pub fn settings(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::Settings }
    }

    /// An end that only an operator can undo.
    pub fn operator(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::Operator }
    }

    /// What helps.
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

/// What nobody has classed is worth another start.
impl From<String> for StopReason {
    fn from(text: String) -> Self {
        Self::restart(text)
    }
}

/// Why a node could not be opened or went on no longer.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(StorageError),
    /// The internal listener cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The options contradict each other or the data directory.
    #[error("{0}")]
    Options(String),
    /// Raft refused or ended.
    #[error("raft: {0}")]
    Raft(String),
    /// This node must not go on; says why and what to do.
    #[error("{0}")]
    Stopped(StopReason),
}

impl NodeError {
    pub(crate) fn raft(error: impl ToString) -> Self {
        Self::Raft(error.to_string())
    }

    /// What helps.
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

/// Whether a proposal may be made again when nobody knows what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It may be applied twice, and only costs something.
    Always,
    /// It must not be applied twice.
    Never,
}

/// Why a command is not let into the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejected {
    /// It is no command, or breaks a bound.
    #[error("it cannot be applied: {0}")]
    Unfit(String),
    /// It needs a higher level of the cluster.
    #[error("it needs level {needs} of the cluster, which has level {has}")]
    Level {
        /// The lowest level that has it.
        needs: u32,
        /// The cluster's.
        has: u32,
    },
}

/// Why a proposal or a read was not carried through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// No leader or no quorum in time. Not applied, unless [`Retry::Always`] was given.
    #[error("the cluster did not answer in time: {0}")]
    Unavailable(String),
    /// It may or may not be applied, now or later.
    #[error("it may have happened or may yet, so look before you repeat it: {0}")]
    Unknown(String),
    /// Too many proposals wait already. Not applied.
    #[error("too many proposals are waiting")]
    Overloaded,
    /// It must not be appended, now or later. Not applied.
    #[error("refused: {0}")]
    Rejected(Rejected),
}

impl ProposeError {
    /// Whether the same request may succeed later. After [`ProposeError::Unknown`], look first.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Unknown(_) | Self::Rejected(_))
    }
}
