//! Three nodes under a Prometheus.

use std::error::Error;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use mintleaf_faultfs::{Device, Disk, Mounted, Strictness};
use mintleaf_harness::{Binary, Cluster, Interrupts, Process, ms, pause, secs};
use serde_json::json;

use super::prometheus::Prometheus;

/// The pause between two looks at the alerts.
const POLL_INTERVAL: Duration = ms(300);
/// An alert that takes longer to fire or to clear has failed. Rules wait for 2 s here, and look back up to 40 s.
const PATIENCE: Duration = secs(90);
/// How long a command of the binary may take.
const COMMAND_MAX: Duration = secs(30);
/// How long alerts that fire without a fault have to show.
const SETTLED_AFTER: Duration = secs(5);
/// The node with a disk of its own, and the size of that disk.
const DISK_NODE: u64 = 2;
pub(crate) const DISK_BYTES: u64 = 128 << 20;

/// The states of an alert.
pub(crate) const FIRING: &str = "firing";
pub(crate) const CLEAR: &str = "clear";

pub(crate) type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The cluster, and what faults need besides. Dropping it ends everything.
pub(crate) struct World {
    /// A small disk with the data of one node, if it was asked for and the machine supports it.
    pub(crate) disk: Option<Mounted>,
    pub(crate) prometheus: Prometheus,
    pub(crate) binary: Binary,
    /// A build that supports one level more.
    pub(crate) next_level: Option<PathBuf>,
    // Dropped after the disk, which is mounted in its directory.
    pub(crate) cluster: Cluster,
    /// A cluster of one node, which is not running.
    pub(crate) alone: Cluster,
    /// An alert did not fire or did not clear.
    pub(crate) failed: bool,
    /// Keep logs and data in any case.
    pub(crate) keep: bool,
    changes: u32,
    /// Signals that ask the run to end.
    pub(crate) interrupts: Interrupts,
}

impl World {
    /// Starts everything, and prints the alerts that fire already.
    pub(crate) fn start(binary: &Binary, small_disk: bool, interrupts: Interrupts) -> Done<Self> {
        let cluster = binary.prepare(3, &["--snowflake-window", "30s"]);
        let alone = binary.prepare(1, &[]);
        let device = Device::new(Disk::new(Strictness::Strict, DISK_BYTES));
        let mount = || Mounted::new(device, &cluster.data(DISK_NODE)).ok();
        let mut world = Self {
            disk: small_disk.then(mount).flatten(),
            prometheus: Prometheus::start(cluster.dir(), [&cluster, &alone])?,
            binary: binary.clone(),
            next_level: None,
            cluster,
            alone,
            failed: false,
            keep: false,
            changes: 0,
            interrupts,
        };
        world.cluster.start_all();
        world.mintleaf(&["tag", "create", "orders"])?;
        world.mintleaf(&["next", "orders"])?;
        pause(SETTLED_AFTER);
        let firing = Vec::from_iter(world.prometheus.firing()?).join(", ");
        println!("three nodes and Prometheus run; alerts that fire already: {firing}");
        Ok(world)
    }

    /// A node that does not lead, and is not node 1, which answers requests.
    pub(crate) fn follower(&mut self) -> u64 {
        if self.cluster.leader() == 3 { 2 } else { 3 }
    }

    /// Kills these nodes if they run, and starts them. Returns once the cluster is ready.
    pub(crate) fn restart(&mut self, nodes: &[u64]) {
        nodes.iter().for_each(|&node| self.cluster.start_node(node));
        self.cluster.await_ready();
    }

    /// The same, with more variables in their environments.
    pub(crate) fn restart_with<const N: usize>(
        &mut self,
        nodes: &[u64],
        variables: [(&str, impl AsRef<OsStr>); N],
    ) {
        for &node in nodes {
            variables.iter().for_each(|(name, value)| self.cluster.set_env(node, name, value));
        }
        self.restart(nodes);
    }

    /// Runs a command of the binary against the cluster, in its directory.
    pub(crate) fn mintleaf(&self, args: &[&str]) -> Done<()> {
        self.run(&self.binary, args)
    }

    /// The same for another binary.
    pub(crate) fn run(&self, binary: &Binary, args: &[&str]) -> Done<()> {
        let url = |(_, address)| format!("http://{address}");
        let urls: Vec<_> = self.cluster.targets().into_iter().map(url).collect();
        let (mut command, dir) = (binary.command(), self.cluster.dir());
        command.args(args).env("MINTLEAF_URL", urls.join(",")).current_dir(dir);
        let mut process = Process::start("a command", &mut command, &dir.join("commands.log"))?;
        match process.await_end(COMMAND_MAX) {
            Some(status) if status.success() => Ok(()),
            ended => Err(format!("{command:?}: {ended:?}: {}", process.said()).into()),
        }
    }

    /// Changes a tag: one more entry of the log, and one more sync of every node.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
        let description = json!({ "description": self.changes.to_string() });
        self.cluster.api(1).patch("/v1/tags/orders", &description);
    }

    /// Waits until each of these alerts has fired.
    pub(crate) fn fires(&mut self, alerts: &[&str]) -> Done<()> {
        self.becomes(FIRING, alerts, |_| {})
    }

    /// Waits until each of these alerts has cleared.
    pub(crate) fn clears(&mut self, alerts: &[&str]) -> Done<()> {
        self.becomes(CLEAR, alerts, |_| {})
    }

    /// Waits until each of these alerts is in this state. Between two looks it takes a step of the fault.
    pub(crate) fn becomes(
        &mut self,
        state: &str,
        alerts: &[&str],
        mut step: impl FnMut(&mut Self),
    ) -> Done<()> {
        for &alert in alerts {
            let began = Instant::now();
            let took = loop {
                let fires = self.prometheus.firing()?.contains(alert);
                if fires == (state == FIRING) {
                    break Some(began.elapsed().as_secs());
                }
                if began.elapsed() > PATIENCE {
                    break None;
                }
                step(self);
                self.interrupts.pause(POLL_INTERVAL)?;
            };
            match took {
                Some(took) => println!("ok      {alert:24} {state} after {took} s"),
                None => println!("FAILED  {alert:24} is not {state} within {PATIENCE:?}"),
            }
            self.failed |= took.is_none();
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The disk can be unmounted once no node has open files there.
        for node in self.cluster.running() {
            self.cluster.kill(node);
        }
        if self.keep || self.failed || thread::panicking() && !self.interrupts.arrived() {
            self.cluster.keep_dir();
            println!("logs and data are in {}", self.cluster.dir().display());
        }
    }
}
