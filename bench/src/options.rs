//! The options of a run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::load::Load;

/// Mintleaf side by side with its peers, as ratios of alternating slices.
#[derive(Clone, Debug, clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    /// The mintleaf binary to measure
    #[arg(long, value_name = "PATH", default_value = "mintleaf")]
    pub(crate) binary: PathBuf,
    /// Measure against this other build of mintleaf instead of against other servers
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,
    /// Rounds of each row; in a round every server has one slice [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Length of a slice [default: 0.5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    slice: Option<Duration>,
    /// Only these rows
    #[arg(long, value_name = "ROW,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Print the rows, and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the table to this file too
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Few rounds and short slices: shows that everything works, but gives no figures to quote
    #[arg(long)]
    pub(crate) quick: bool,
    /// How many tags the rows about many tags use [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=9_999_999))]
    tags: Option<u64>,
    /// Directory for all data, on the disk to measure
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) dir: PathBuf,
}

/// Parts of a run that are separate processes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Part {
    /// Load a server once, and print the outcome as JSON
    Load(Load),
    /// Serve one fixed answer with bare hyper
    Hyper {
        /// Address to listen at
        listen: SocketAddr,
    },
}

impl Options {
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(self.quick_or(3, 12))
    }

    pub(crate) fn slice(&self) -> Duration {
        self.slice.unwrap_or(Duration::from_millis(self.quick_or(200, 500)))
    }

    pub(crate) fn tags(&self) -> u64 {
        self.tags.unwrap_or(self.quick_or(20_000, 1_000_000))
    }

    /// How often a leader is killed.
    pub(crate) fn kills(&self) -> u32 {
        self.quick_or(3, 10)
    }

    /// How long idle nodes are observed.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.quick_or(3, 20))
    }

    /// How long nodes run under full load while elections are counted.
    pub(crate) fn full_load(&self) -> Duration {
        Duration::from_secs(self.quick_or(5, 60))
    }

    fn quick_or<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Parses a time in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
