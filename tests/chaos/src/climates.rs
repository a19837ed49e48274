//! Acceptance of a binary: in each climate a cluster forms, keeps its leader, serves, and takes no longer over
//! anything than its round trips and syncs do.

mod load;
mod report;
mod watch;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use mintleaf_harness::SlowSyncs;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::climate::{CLIMATES, Climate, HAND_OVER_MAX};
use report::Report;
use world::World;

/// Only starting needs much of the machine, so climates start one after another.
const STAGGER: Duration = Duration::from_millis(700);
/// The extra time for a cluster to form or to change its leader, which distinguishes late from never.
const PATIENCE: Duration = Duration::from_secs(30);
/// A new leader counts as settled once it has led for this long.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Three nodes in each of several lasting climates, and how long everything takes there.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The mintleaf binary to run
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// How long each cluster is under load
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// Only these climates, by their names in the table; rtt-N and sync-N accept any number of milliseconds
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Seed of jitter and loss
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for logs and data [default: a new one under the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the directory even if no promise was broken
    #[arg(long)]
    keep: bool,
}

/// Runs all climates at the same time. Returns false when a promise was broken.
///
/// # Errors
/// When the run could not be completed, so that its verdict is unknown.
pub(crate) async fn run(options: &Options) -> Result<bool, String> {
    let told = |error: std::io::Error| error.to_string();
    let dir = options.dir.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("mintleaf-climates-{}", std::process::id()))
    });
    std::fs::create_dir_all(&dir).map_err(told)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(told)?;
    let reports = tokio::select! {
        reports = all(options, &dir) => reports?,
        _ = tokio::signal::ctrl_c() => return Err(format!("interrupted; see {}", dir.display())),
        _ = terminated.recv() => return Err(format!("terminated; see {}", dir.display())),
    };
    let kept = report::print(&reports);
    if kept && !options.keep {
        std::fs::remove_dir_all(&dir).map_err(told)?;
    } else {
        println!("kept: {} (logs and data of every node)", dir.display());
    }
    Ok(kept)
}

async fn all(options: &Options, dir: &std::path::Path) -> Result<Vec<Report>, String> {
    let syncs = SlowSyncs::build(dir);
    let mut running = JoinSet::new();
    for (turn, climate) in chosen(&options.only)?.into_iter().enumerate() {
        if let (true, Err(why)) = (climate.has_slow_disks(), &syncs) {
            eprintln!("SKIPPED: {}: {why}", climate.name);
            continue;
        }
        let (options, dir) = (options.clone(), dir.join(climate.name));
        running.spawn(async move {
            sleep(STAGGER * turn as u32).await;
            (turn, conduct(&options, climate, &dir).await)
        });
    }
    let mut reports = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (turn, report) = ended.map_err(|error| error.to_string())?;
        reports.push((turn, report?));
    }
    reports.sort_by_key(|(turn, _)| *turn);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}

fn chosen(only: &[String]) -> Result<Vec<Climate>, String> {
    match only {
        [] => Ok(CLIMATES.to_vec()),
        names => names.iter().map(|name| Climate::named(name)).collect(),
    }
}

/// Runs one climate, from the first start to its report.
async fn conduct(
    options: &Options,
    climate: Climate,
    dir: &std::path::Path,
) -> Result<Report, String> {
    let mut report = Report::new(climate);
    let world = World::start(&options.binary, dir, options.seed, climate).await?;
    world.settle(climate)?;
    report.formed = world.await_ready(climate.forming_max() + PATIENCE).await;
    report.said(&format!("formed: {:?}", report.formed));
    world.check_preload(climate)?;
    let Some(first) = world.watch.leader().filter(|_| report.formed.is_some()) else {
        report.state = world.states().await;
        return Ok(report);
    };
    let climate = climate.under(first);
    report.climate = climate;
    world.settle(climate)?;
    if !climate.may_lead(first) {
        let good = |leader| climate.may_lead(leader);
        report.hand_over = Some(world.watch.led_by(good, HAND_OVER_MAX + PATIENCE).await);
        report.said(&format!("handed over by {first}: {:?}", report.hand_over));
    }
    sleep(SETTLED_AFTER).await;
    let Some((term, leader)) = world.watch.last() else { return Ok(report) };
    (report.leader, report.nodes) = (leader, world.ids());
    load::measure(&world, climate, leader, &mut report).await;
    report.said("measured");
    load::press(&world, Duration::from_secs_f64(options.minutes * 60.0), &mut report).await;
    report.changes = world.watch.changes_since(term);
    report.state = world.states().await;
    world.stop().await;
    Ok(report)
}
