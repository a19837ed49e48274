//! The options of a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::climate::Climate;

/// The kind of fault that `--leader-kills` asks for.
pub(crate) const KILL_LEADER: &str = "kill leader";

/// Faults on real processes of Mintleaf, under load, with every operation recorded and judged.
#[derive(Clone, Debug, clap::Parser)]
pub(crate) struct Options {
    /// The mintleaf binary to run
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: PathBuf,
    /// An older binary, for rolling upgrades from it
    #[arg(long, value_name = "PATH")]
    pub(crate) previous: Option<PathBuf>,
    /// How long to inflict faults
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    pub(crate) minutes: f64,
    /// Kill the leader this many times and inflict no other faults, whatever time it takes
    #[arg(long, value_name = "N", conflicts_with_all = ["minutes", "only"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) leader_kills: Option<u64>,
    /// Seed of the schedule and of the load [default: random, printed]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(3..=9))]
    pub(crate) nodes: u64,
    /// Round trips and syncs that last for the whole run: the name of a climate, or rtt-N or sync-N for N
    /// milliseconds [default: drawn by the seed, mostly mild]
    #[arg(long, value_name = "NAME", value_parser = Climate::named)]
    pub(crate) climate: Option<Climate>,
    /// Requests a second of all clients together
    #[arg(long, value_name = "N", default_value_t = 300)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 24)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) clients: u32,
    /// Programs that stamp milliseconds with worker ids of five pools, with clocks that jump and pauses of their own
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub(crate) holders: u64,
    /// Seconds within which every node must serve again after a fault has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) recovery: u64,
    /// Only these kinds of faults, by the names that the summary shows
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Also the faults that need root
    #[arg(long)]
    pub(crate) root: bool,
    /// Directory for the history, logs and data [default: a new one under the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the directory even if nothing was violated
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print the schedule and run nothing
    #[arg(long)]
    pub(crate) plan: bool,
}

impl Options {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// The length of the run, in words.
    pub(crate) fn length(&self) -> String {
        match self.leader_kills {
            Some(kills) => format!("{kills} kills of the leader"),
            None => format!("{} minutes", self.minutes),
        }
    }

    /// Whether the options select faults of this kind.
    pub(crate) fn asks_for(&self, kind: &str) -> bool {
        match self.leader_kills {
            Some(_) => kind == KILL_LEADER,
            None => self.only.is_empty() || self.only.iter().any(|name| name == kind),
        }
    }

    pub(crate) fn recovery(&self) -> Duration {
        Duration::from_secs(self.recovery)
    }

    pub(crate) fn node_ids(&self) -> Vec<u64> {
        (1..=self.nodes).collect()
    }
}
