//! A cluster of real processes on disks with faults, under load, round after round.
//!
//! Every round breaks something, heals it, and waits until every node serves again. Then the history of the
//! whole campaign is judged, with a listing of all tags: no id twice, ids that rise, no acknowledged tag lost,
//! no mark below an id. `rounds.rs` says what a node may and must do in a round.

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
/// The time within which every node must serve after all faults are healed.
const SERVES_WITHIN: Duration = Duration::from_secs(10);

/// The options of a campaign.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `mintleaf` binary.
    pub binary: PathBuf,
    /// How many rounds.
    pub rounds: u64,
    /// The seed of the faults and their times.
    pub seed: u64,
    /// A node takes a snapshot and purges its log after this many entries. With fewer entries, more is removed
    /// from the log between two syncs.
    pub snapshot_entries: u64,
    /// How the disks treat names; by default the seed chooses, for each node.
    pub strictness: Option<Strictness>,
    /// The directory for mounts and logs. It is created, and removed at the end unless something went wrong.
    pub directory: PathBuf,
    /// A part of the names of the rounds to run; `None` for all.
    pub only: Option<String>,
}

/// Runs a campaign. A broken promise ends it; the report contains the promise.
///
/// # Errors
/// When processes cannot be started, or ports or mounts are not available.
pub fn run(options: &Options) -> std::io::Result<Report> {
    rounds::Campaign::start(options)?.run()
}
