//! How commands agree: a replicated log of opaque commands, behind [`Node`].
//!
//! The rooms, from the inside out:
//!
//! | module | what it knows |
//! | --- | --- |
//! | `types`, `runtime`, `priority` | openraft's type parameters; what its tasks run on, and who goes first |
//! | `records` | what lies on disk, as structs of our own |
//! | `store` | openraft's log storage over `mintleaf_storage::LogEngine`; the sync thread |
//! | `machine`, `coverage` | openraft's state machine over [`StateMachine`]; snapshots, and the log they replace |
//! | `guard`, `local` | who may speak with whom: cluster, store and start counter of every message |
//! | `transport` | frames, the client to peers, and the wire between: a trait, and TCP |
//! | `clocks` | the voters' clocks and their median |
//! | `reach` | who can be reached |
//! | `contact`, `election`, `heartbeat` | who was heard when; who stands for election; a leader's signs of life |
//! | `form`, `bond`, `found`, `members` | how nodes introduce themselves, and how a cluster forms, joins, changes |
//! | `proposal`, `coalesce` | what is let into the log; many proposals, one log entry; forwarding to the leader |
//! | `level` | what its log may hold, while members of two releases apply it |
//! | `inbox` | what a node does with its peers' requests |
//! | `simulation` | processes that tests simulate; only with the feature of that name |
//! | `node` | [`Node`], which owns all of it; `options`, `error`, `handle`, `status` around it |
//!
//! **Architecture invariant:** this crate is the only user of openraft and knows nothing of ids,
//! tags or HTTP clients; commands and replies are bytes. See `DESIGN.md` for the reasons.

use std::io::{self, Read, Write};

mod bond;
mod clocks;
mod coalesce;
mod contact;
mod coverage;
mod election;
mod error;
mod form;
mod found;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guard;
mod handle;
mod heartbeat;
mod inbox;
mod level;
mod local;
mod machine;
mod members;
mod node;
mod options;
mod priority;
mod proposal;
mod reach;
mod records;
mod runtime;
#[cfg(feature = "simulation")]
pub mod simulation;
mod starts;
mod status;
mod store;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
mod transport;
mod types;
mod vouch;

pub use clocks::PeerClock;
pub use error::{NodeError, ProposeError, Rejected, Remedy, Retry, StopReason};
pub use handle::{Handle, PROPOSAL_BYTES_MAX};
pub use level::{Newer, Release};
pub use members::MemberError;
pub use node::{Ground, Node};
pub use options::{Clock, Options, Tuning};
pub use priority::give_way;
pub use status::{MemberStatus, Role, Status};
pub use transport::{Door, Pending, Wire, WireError};

/// A state taken out of a [`StateMachine`], to be written while the machine goes on applying.
pub type FrozenState = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Why a snapshot was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It is of a higher level than this build supports.
    #[error(transparent)]
    Newer(#[from] Newer),
    /// It is damaged, or cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the log drives. Every replica applies the same commands in the same order, so `apply`
/// must be deterministic: no clock, no randomness, no I/O. It fails where the log goes on above what this
/// build supports, and nowhere else. A command it cannot make sense of must panic, which stops the node,
/// rather than let replicas differ.
pub trait StateMachine: Send + Sync + 'static {
    /// Whether a command may be appended: it decodes, keeps its bounds, and everybody who will apply it
    /// can. Asked of everything that is proposed, before it is appended; what once passed passes later.
    ///
    /// # Errors
    /// Why not; whoever proposed it is told.
    fn check(&self, command: &[u8]) -> Result<(), Rejected>;

    /// What this build supports.
    fn supports(&self) -> Release;

    /// What the log needs, as of what was applied: the cluster's level, which never falls, and the first
    /// version that supports it.
    fn needs(&self) -> Release;

    /// The command that raises the cluster's level, to one that this build supports. It is appended
    /// without a check; [`StateMachine::check`] refuses it, for nobody else may propose it.
    fn raising(&self, to: u32) -> Vec<u8>;

    /// Applies one committed command, stamped by the leader with `now_ms` (Unix milliseconds; may
    /// go back), and returns the reply for whoever proposed it.
    ///
    /// # Errors
    /// When the command raises the level above what this build supports; the node then stops.
    fn apply(&self, now_ms: u64, command: &[u8]) -> Result<Vec<u8>, Newer>;

    /// Takes out the current state. Must be quick: applying waits for it.
    fn freeze(&self) -> FrozenState;

    /// Replaces the state by one that [`FrozenState`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a state, cannot be read, or are of a higher level than this build
    /// supports; the node then stops.
    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError>;
}
