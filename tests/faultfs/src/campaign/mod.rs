//! A cluster of real processes on disks with faults, under load, round after round.
//!
//! Every round breaks something, heals it, and waits until every node serves again. Then the history of the whole
//! campaign is judged, with a listing of all tags: no id twice, ids that rise, no acknowledged tag lost, no mark below
//! an id. `rounds.rs` says what a node may and must do in a round.

mod cluster;
mod cuts;
mod ledger;
mod load;
mod node;
mod report;
mod rounds;

use std::path::PathBuf;
use std::time::Duration;

use crate::disk::Strictness;

pub use report::Report;

/// Nodes of the cluster.
const NODES: u64 = 3;
/// How soon every node must serve after all is healed.
const SERVES_WITHIN: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `mintleaf` binary.
    pub binary: PathBuf,
    /// How many rounds.
    pub rounds: u64,
    /// The seed of faults and their moments.
    pub seed: u64,
    /// Entries of a node's log after which it takes a snapshot and purges. The fewer, the more is removed from the log
    /// between two syncs.
    pub snapshot_entries: u64,
    /// How the disks treat names; by default the seed chooses, for each node.
    pub strictness: Option<Strictness>,
    /// Where mounts and logs go; made, and removed at the end unless something was wrong.
    pub directory: PathBuf,
    /// A part of the names of the rounds to run; `None` for all.
    pub only: Option<String>,
}

/// Runs a campaign. A broken promise ends it and is in the report.
///
/// # Errors
/// When processes, ports or mounts cannot be had.
pub fn run(options: &Options) -> std::io::Result<Report> {
    rounds::Campaign::start(options)?.run()
}
