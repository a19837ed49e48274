//! A node in its process: Raft on a runtime of its own, the services, and listeners in front of them.
//! There are two ways to run it, [`serve`] and [`dev`].
//!
//! ```text
//! serve, dev    one node until a signal; a cluster in one process
//!   exit        exit codes, signals
//!   open_files  how many of them clients may have
//!   node        one node with its sockets, from start to stop
//!     assemble  one node below its sockets
//! ```

mod assemble;
mod dev;
mod exit;
mod node;
mod open_files;
mod serve;

pub use assemble::{AssembledNode, Assembly, assemble};
pub use dev::dev;
pub use node::{NodeConfig, NodeFailure, RunningNode};
pub use serve::serve;
