//! What the log drives: the trait that the user of this crate implements, and its types.

use std::fmt;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::error::Rejected;

/// A state taken out of a [`StateMachine`], to be written while the state machine continues to apply commands.
pub type FrozenState = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// A build: its version, and the highest level of a cluster that it supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The highest level that the build supports.
    pub level: u32,
    /// The version of the build.
    pub version: String,
}

/// The error of a log or a snapshot whose level is higher than this build supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newer {
    /// The cluster's level, and the first version that supports it.
    pub needs: Release,
    /// This build.
    pub supports: Release,
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needs, supports } = self;
        write!(
            f,
            "the cluster's log has level {}, which needs version {} or later; this is version {}, which \
             supports level {}: start the later version on this data directory",
            needs.level, needs.version, supports.version, supports.level
        )
    }
}

impl std::error::Error for Newer {}

/// Why a snapshot was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The snapshot is of a higher level than this build supports.
    #[error(transparent)]
    Newer(#[from] Newer),
    /// The snapshot is damaged or cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Information about a log entry for its commands, the same on every replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The leader's view of the time when it appended the entry, in Unix milliseconds. It may go back from entry to
    /// entry.
    pub now_ms: u64,
    /// The term that the entry was appended in.
    pub term: u64,
    /// The node that led in this term and appended it.
    pub leader_id: u64,
}

/// The replicated state machine. Every replica applies the same commands in the same order, so `apply` must be
/// deterministic: no clock, no randomness, no I/O. It fails only if the log rises above the level that this build
/// supports. On a command that it cannot interpret it must panic, which stops the node, rather than let replicas
/// differ.
pub trait StateMachine: Send + Sync + 'static {
    /// Checks whether a command may be appended: it decodes, keeps its bounds, and every member that will apply it
    /// can do so. The node checks every proposed command before it appends it. A command that passed once passes for
    /// ever.
    ///
    /// # Errors
    /// The reason, which the proposer receives.
    fn check(&self, command: &[u8]) -> Result<(), Rejected>;

    /// What this build supports.
    fn supports(&self) -> Release;

    /// What a build needs to apply the log as of the last applied entry: the cluster's level, which never falls, and
    /// the first version that supports it.
    fn needs(&self) -> Release;

    /// The commands that raise the cluster's level to one that this build supports, together with what that level
    /// needs from its beginning. The leader appends them as one entry and without a check. [`StateMachine::check`]
    /// refuses them, because only a leader may propose them.
    ///
    /// # Errors
    /// When the machine cannot create them; the level stays as it is.
    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>>;

    /// Applies one committed command of the entry with this stamp, and returns the reply for the proposer.
    ///
    /// # Errors
    /// When the command raises the level above what this build supports; the node then stops.
    fn apply(&self, stamp: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer>;

    /// Takes out the current state. Must be quick: applying waits for it.
    fn freeze(&self) -> FrozenState;

    /// Replaces the state with one that [`FrozenState`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a state, cannot be read, or have a higher level than this build
    /// supports; the node then stops.
    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError>;
}
