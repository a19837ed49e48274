//! Why a node did not start, or stopped by itself, with the exit code and what may help.

use std::io;
use std::net::SocketAddr;

use mintleaf_raft::{NodeError, Remedy, StopReason};
use mintleaf_storage::StorageError;
use thiserror::Error;

use crate::config::ConfigError;

/// Why a node did not start, or stopped by itself.
#[derive(Debug, Error)]
pub enum NodeFailure {
    /// A client address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Clients {
        /// The address asked for.
        address: SocketAddr,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Threads or random numbers could not be had.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// The replicated log could not be opened.
    #[error(transparent)]
    Raft(#[from] NodeError),
    /// The node ran, and had to stop.
    #[error("{0}")]
    Stopped(StopReason),
    /// The settings do not fit each other or the machine.
    #[error("{0}")]
    Usage(String),
    /// The directory holds what this command must not begin beside.
    #[error("{0}")]
    Data(String),
}

impl From<ConfigError> for NodeFailure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl NodeFailure {
    /// The process's exit code: 1 where another start may help, 2 where a setting is wrong, 3 where an
    /// operator is needed, so that a supervisor should not try again.
    pub fn exit_code(&self) -> u8 {
        match self.remedy() {
            Remedy::Restart => 1,
            Remedy::Settings => 2,
            Remedy::Operator => 3,
        }
    }

    /// The remedy for the failure.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Usage(_) => Remedy::Settings,
            Self::Data(_) => Remedy::Operator,
            _ if self.is_denied() => Remedy::Settings,
            Self::Raft(error) => error.remedy(),
            Self::Stopped(reason) => reason.remedy(),
            Self::Clients { .. } | Self::System(_) => Remedy::Restart,
        }
    }

    /// Whether the node's user may not do with the data directory what a node has to.
    fn is_denied(&self) -> bool {
        match self {
            Self::Raft(NodeError::Storage(StorageError::Io { source, .. })) => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }

    /// What may help, if the message itself does not say it; `settings` helps with a wrong setting.
    pub fn hint(&self, settings: &'static str) -> Option<&'static str> {
        match self {
            Self::Usage(_) | Self::Raft(NodeError::Options(_)) => Some(settings),
            Self::Clients { source, .. } => hint_of_address(source.kind(), FOR_CLIENTS),
            Self::Raft(NodeError::Listen { source, .. }) => {
                hint_of_address(source.kind(), FOR_NODES)
            }
            Self::Raft(NodeError::Storage(StorageError::Locked { .. })) => {
                Some("each node needs its own directory: --data names another")
            }
            Self::Data(_) => None,
            _ if self.is_denied() => Some(
                "the data directory, with all that is in it, must belong to the user that runs the node: chown -R it",
            ),
            Self::Raft(_) | Self::Stopped(_) | Self::System(_) => match self.remedy() {
                Remedy::Restart => Some("starting it again may help"),
                Remedy::Settings | Remedy::Operator => {
                    Some("mintleaf help when-a-node-ends says what leads out of it")
                }
            },
        }
    }
}

/// The flags that may name another address, for clients and for nodes.
const FOR_CLIENTS: [&str; 2] = [
    "another process listens there, perhaps another node: --http and --resp name other addresses",
    "no interface of this machine has that address: --http and --resp take one that has, or 0.0.0.0 for all",
];
const FOR_NODES: [&str; 2] = [
    "another process listens there, perhaps another node: --raft names another address",
    "no interface of this machine has that address: --raft takes one that has, or 0.0.0.0 for all",
];

/// What helps if an address cannot be bound: the first hint if it is taken, the second if it is foreign.
fn hint_of_address(why: io::ErrorKind, hints: [&'static str; 2]) -> Option<&'static str> {
    let [taken, foreign] = hints;
    match why {
        io::ErrorKind::AddrInUse => Some(taken),
        io::ErrorKind::AddrNotAvailable => Some(foreign),
        io::ErrorKind::PermissionDenied => Some("ports below 1024 are for root: take a higher one"),
        _ => None,
    }
}
