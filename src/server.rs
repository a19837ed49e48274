//! A node in its process: Raft on a runtime of its own, the services, and listeners in front of them.
//! There are two ways to run it, [`serve`] and [`dev`].
//!
//! ```text
//! serve, dev    one node until a signal; a cluster in one process
//!   exit        exit codes
//!   open_files  how many of them clients may have
//!   node        one node with its sockets, from start to stop
//!     assemble  one node below its sockets
//!     peer_credentials    its keys towards other nodes, read again when their files change
//!       signals           what signals ask for
//! ```

mod assemble;
mod dev;
mod exit;
mod node;
mod open_files;
mod peer_credentials;
mod serve;
mod signals;

pub use assemble::{AssembledNode, Assembly, assemble};
pub use dev::dev;
pub use node::{NodeConfig, NodeFailure, PeerSecurity, RunningNode};
pub use serve::serve;
pub use signals::Reload;
