//! What the tasks of a node run on, the priority of their threads, and how often they may log.

mod openraft_runtime;
mod priority;
#[cfg(feature = "simulation")]
mod process;
mod sparse_lines;

pub use openraft_runtime::Pending;
pub(crate) use openraft_runtime::{
    MESSAGE_MAX, Runtime, Spawner, blocking, in_process, random_below, random_u128, to_completion,
};
pub use priority::lower_priority;
#[cfg(feature = "simulation")]
pub use process::Process;
pub(crate) use sparse_lines::SparseLines;
