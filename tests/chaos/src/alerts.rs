//! Every alert of `deploy/alerts.yml` fires by a real fault, and clears once the fault has ended: three nodes, under a
//! Prometheus that scrapes them every second and waits for seconds where the rules wait for minutes.

mod faults;
mod prometheus;
mod world;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use mintleaf_harness::{Binary, Interrupts};
use tokio::task::spawn_blocking;

use faults::{FAULTS, Fault};
use world::{Done, World};

/// Makes each alert fire by a real fault, and sees it clear.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = table())]
pub(crate) struct Options {
    /// The mintleaf binary to run
    #[arg(long, value_name = "PATH", required_unless_present = "list")]
    binary: Option<PathBuf>,
    /// A binary that supports one level more, for the fault `releases`
    #[arg(long, value_name = "PATH")]
    next_level: Option<PathBuf>,
    /// Only these faults, by their names in the table
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(FAULTS.iter().map(|fault| fault.name)))]
    only: Vec<String>,
    /// Print the table of faults, and run nothing
    #[arg(long)]
    list: bool,
    /// Keep logs and data even if every alert fired and cleared
    #[arg(long)]
    keep: bool,
}

impl Options {
    fn asks_for(&self, fault: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == fault)
    }
}

/// The faults and the alerts that each makes fire, one a line.
fn table() -> String {
    let row =
        |fault: &Fault| format!("{:9} {:48} {}", fault.name, fault.what, fault.alerts.join(", "));
    FAULTS.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// Runs the faults one after another. Returns false when an alert did not fire or did not clear.
///
/// # Errors
/// When the run could not be completed.
pub(crate) async fn run(options: &Options) -> Result<bool, String> {
    if options.list {
        println!("{}", table());
        return Ok(true);
    }
    let interrupts = Interrupts::catch().map_err(|error| error.to_string())?;
    let options = options.clone();
    // Clusters of the harness wait for their nodes in place. They panic when a node fails them, and print its log.
    let every = spawn_blocking(move || conduct(&options, interrupts)).await;
    let kept = every.unwrap_or(Ok(false)).map_err(|error| error.to_string())?;
    println!("{}", if kept { "every alert fired and cleared" } else { "FAILED" });
    Ok(kept)
}

fn conduct(options: &Options, interrupts: Interrupts) -> Done<bool> {
    let binary = Binary::at(options.binary.as_ref().ok_or("there is no binary")?);
    let mut world = World::start(&binary, options.asks_for("disk"), interrupts)?;
    world.next_level.clone_from(&options.next_level);
    world.keep = options.keep;
    for fault in FAULTS.iter().filter(|fault| options.asks_for(fault.name)) {
        println!("-- {}", fault.name);
        let inflicted = (fault.inflict)(&mut world, fault.alerts);
        world.failed |= inflicted.is_err() && !world.interrupts.arrived();
        inflicted?;
    }
    Ok(!world.failed)
}
