//! A node in its process: Raft on its own runtime, the services, and listeners in front of them. There are two ways to
//! run it, [`serve`] and [`dev`].
//!
//! ```text
//! serve, dev    one node until a signal; a cluster in one process
//!   dev_data    whether dev may begin in a directory
//!   failure     why a node ended, with the exit code
//!   warnings    of settings that an operator may regret
//!   open_files  how many of them clients may have
//!   node        one node with its sockets, from start to stop
//!     draining  the time between the request to stop and the end
//!     assemble  one node below its sockets
//!     hot_tags_file  the tags that were used lately, for the next start
//!     last_backup_file  when a backup was last taken from the node, over its restarts
//!     machine_watch  what it takes of its machine, for the metrics
//!     quorum_watch   what the log says about a lost quorum
//!     supervisor     what the node reports to the service manager
//!     peer_credentials    its keys towards other nodes, read again when their files change
//!     client_credentials  its certificate for clients, likewise
//!     client_tokens       the tokens of clients, read again likewise
//!       followed_files    files that are looked at every 5 s
//!       expiry            what the log says about the end of a certificate
//!         signals         what signals ask for
//! logging       the log of the process: how its lines look, and how they are written
//! ```

mod assemble;
mod client_credentials;
mod client_tokens;
mod dev;
mod dev_data;
mod draining;
mod expiry;
mod failure;
mod followed_files;
mod hot_tags_file;
mod last_backup_file;
pub mod logging;
mod machine_watch;
mod node;
mod open_files;
mod peer_credentials;
mod quorum_watch;
mod serve;
mod signals;
mod supervisor;
mod warnings;

#[cfg(test)]
pub(crate) use assemble::RaftClock;
pub use assemble::{AssembledNode, Assembly, assemble, assemble_around};
pub use dev::dev;
pub use draining::hand_over;
pub use failure::NodeFailure;
pub use node::{Process, RunningNode};
pub use serve::serve;
pub use signals::{Reload, survive_hangup};
