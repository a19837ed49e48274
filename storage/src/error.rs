//! The errors of this crate.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Why a call was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A file operation failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was attempted, with the path.
        action: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Stored bytes are missing or altered. A node that continued could forget what it acknowledged.
    #[error(
        "{what}; stop using this data directory: remove the node from the cluster, then wipe it and \
         join the node again as a learner; see mintleaf help a-damaged-node"
    )]
    Damaged {
        /// Which bytes, and how they differ from what was acknowledged.
        what: String,
    },
    /// A snapshot file that was received is incomplete or altered. Nothing was changed.
    #[error("received snapshot is refused: {what}")]
    BadSnapshot {
        /// What is wrong with it.
        what: String,
    },
    /// Another process uses the data directory.
    #[error("data directory {} is in use by another process", .dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// The directory holds files that this crate did not write.
    #[error(
        "{} is not empty and not a mintleaf data directory ({} is in it); choose another directory",
        .dir.display(), .found
    )]
    Foreign {
        /// The directory that the caller named.
        dir: PathBuf,
        /// One of the files in it.
        found: String,
    },
    /// The directory belongs to another node. Nothing in it was changed.
    #[error(
        "data directory {} belongs to node {}, not to node {}: check --node-id and --data",
        .dir.display(), .owner, .node
    )]
    OtherNode {
        /// The directory that the caller named.
        dir: PathBuf,
        /// The node that it belongs to.
        owner: u64,
        /// The node that opened it.
        node: u64,
    },
    /// The directory is a copy of a data directory. Nothing in it was changed.
    #[error(
        "data directory {} is a copy: its identity was written to another file. Two copies in use would repeat \
         ids. If the original is gone for good and this is the only copy, start with --moved once; to go on \
         from a copy of a cluster that is lost, use mintleaf restore; see mintleaf help \
         backup-and-restore",
        .dir.display()
    )]
    Copied {
        /// The directory that the caller named.
        dir: PathBuf,
    },
    /// The directory is not the data directory of a node.
    #[error("{} is not the data directory of a node: there is no identity in it", .dir.display())]
    Missing {
        /// The directory that the caller named.
        dir: PathBuf,
    },
    /// The directory for a new node is already in use.
    #[error("{} is not empty ({} is in it): give a directory that is empty or does not exist", .dir.display(), .found)]
    NotEmpty {
        /// The directory that the caller named.
        dir: PathBuf,
        /// One of the files in it.
        found: String,
    },
    /// The data directory was written by another release.
    #[error("data directory has format {found}, this release reads format {supported}")]
    Format {
        /// The format on disk.
        found: u8,
        /// The format this release reads and writes.
        supported: u8,
    },
    /// A record or value is larger than the engine takes.
    #[error("{what} of {bytes} bytes is larger than {bytes_max}")]
    TooLarge {
        /// What was to be stored.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The bound in bytes.
        bytes_max: usize,
    },
    /// The caller named an index that does not fit the log.
    #[error("log index {index} is out of order: {expected}")]
    OutOfOrder {
        /// The index that the caller named.
        index: u64,
        /// The index that would have fitted.
        expected: String,
    },
    /// An earlier write or sync failed. What is on disk is unknown from then on, so every later call fails. The
    /// process must end and open the directory again.
    #[error("storage stopped after a failed write: {cause}")]
    Stopped {
        /// The first failure.
        cause: String,
    },
}

impl StorageError {
    /// Whether the same call may succeed later in the same process without an operator. This is never true for a
    /// failed write or sync, because it is then unknown what is on disk.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StorageError::Locked { .. })
    }

    /// Whether the stored bytes are unusable, rather than unreadable for the moment.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            StorageError::Damaged { .. } => true,
            // Damaged files make sled request things that do not exist from the file system.
            StorageError::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::UnexpectedEof
                    | ErrorKind::InvalidInput
                    | ErrorKind::InvalidData
            ),
            _ => false,
        }
    }

    /// Whether every later open fails in the same way until an operator changes the directory, the flags or the
    /// release.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            StorageError::Damaged { .. }
                | StorageError::Foreign { .. }
                | StorageError::OtherNode { .. }
                | StorageError::Copied { .. }
                | StorageError::Format { .. }
        )
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        StorageError::Damaged { what: what.into() }
    }
}

/// Adds to an error which action failed.
pub(crate) trait Context<T> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T, StorageError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::Io { action: action(), source })
    }
}

impl<T> Context<T> for sled::Result<T> {
    fn context(self, action: impl FnOnce() -> String) -> Result<T, StorageError> {
        self.map_err(|error| match error {
            sled::Error::Io(source) => StorageError::Io { action: action(), source },
            other => StorageError::damaged(format!("cannot {}: {other}", action())),
        })
    }
}
