//! Process chaos: a real cluster of the released binary, clients that never rest, and a nemesis that breaks
//! links, processes, clocks and resources on a seeded schedule. Every operation is recorded and judged at the
//! end. See the README of this crate.

mod alerts;
mod caller;
mod campaign;
mod client;
mod climate;
mod climates;
mod cluster;
mod disks;
mod faults;
mod holders;
mod limits;
mod lines;
mod links;
mod logs;
mod namespaces;
mod nemesis;
mod node;
mod options;
mod preflight;
mod proxy;
mod random;
mod restore;
mod schedule;
mod session;
mod summary;
mod workload;
mod world;

use std::process::ExitCode;

use clap::Parser;

use options::Options;

/// Worker threads. One would suffice for clients and proxies; a second one answers while the first is busy.
const THREADS: usize = 2;

/// Tests that real processes of Mintleaf must pass.
#[derive(clap::Parser)]
enum Command {
    /// Faults under load, with every operation recorded and judged
    Faults(Options),
    /// Slow links and disks that last, and how long everything takes with them
    Climates(climates::Options),
    /// Every alert of the deployment, made to fire by a real fault under a real Prometheus
    Alerts(alerts::Options),
    /// Programs that stamp with leased worker ids, for `faults --holders`
    #[command(hide = true)]
    Hold(holders::Options),
}

impl Command {
    async fn run(&self) -> Result<bool, String> {
        match self {
            Self::Faults(options) => campaign::run(options).await,
            Self::Climates(options) => climates::run(options).await,
            Self::Alerts(options) => alerts::run(options).await,
            Self::Hold(options) => holders::work(options).await,
        }
    }
}

fn main() -> ExitCode {
    let command = Command::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("threads can be had");
    match runtime.block_on(command.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
    }
}
