//! A cluster of real processes on disks with faults, under load, round after round.
//!
//! Every round breaks something, heals it, and looks: is any id there twice, is every acknowledged
//! tag still there with all its ids below its mark, does every node serve again in time? What a
//! node may and must do in a round is in `rounds.rs`.

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
/// Healed, every node serves within this.
const SERVES_WITHIN: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `mintleaf` binary.
    pub binary: PathBuf,
    /// How many rounds.
    pub rounds: u64,
    /// Chooses faults and their moments.
    pub seed: u64,
    /// Entries of a node's log after which it takes a snapshot and purges: the fewer, the more is
    /// removed from the log between two of its barriers.
    pub snapshot_entries: u64,
    /// How the disks treat names; by default the seed chooses, for each node.
    pub strictness: Option<Strictness>,
    /// Where mounts and logs go; made, and removed at the end unless something was wrong.
    pub directory: PathBuf,
    /// One kind of rounds only, by a part of its name.
    pub only: Option<String>,
}

/// Runs a campaign. A broken promise ends it and is in the report.
///
/// # Errors
/// The machine is in the way: processes, ports or mounts that cannot be had.
pub fn run(options: &Options) -> std::io::Result<Report> {
    rounds::Campaign::start(options)?.run()
}
