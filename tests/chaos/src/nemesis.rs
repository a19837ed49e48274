//! Inflicts faults, and heals them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use mintleaf_faultfs::{Cut, Failure, Operation};
use mintleaf_harness::Clocks;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::disks::Disks;
use crate::faults::{Fault, Routes, Victim};
use crate::limits::{self, Limited, Resource};
use crate::links::{NodeId, Weather};
use crate::random::Random;

/// How long flapping links stay cut, and how long they stay open.
const TURN: Duration = Duration::from_millis(700);
/// Pause between two resets of all connections.
const RESET_INTERVAL: Duration = Duration::from_millis(250);
/// Roughly how long a stuttering process is paused, and how long it runs.
const STUTTER: Duration = Duration::from_millis(150);
/// Pause between two leadership transfers.
const TRANSFER_INTERVAL: Duration = Duration::from_millis(1_500);
const TRANSFER_WITHIN: Duration = Duration::from_secs(8);
/// Pause between two nodes in a rolling restart.
const ROLLING_PAUSE: Duration = Duration::from_secs(2);
/// How much more memory a process may map when its memory is limited.
const SPARE_MEMORY_BYTES: u64 = 128 << 10;

/// Breaks a cluster.
pub(crate) struct Nemesis {
    cluster: Arc<Cluster>,
    clocks: Option<Clocks>,
    disks: Disks,
    /// The two binaries of rolling upgrades, the current one first.
    binaries: Vec<PathBuf>,
    random: Random,
    /// Tasks that repeat a fault until all is healed.
    going_on: JoinSet<()>,
    limited: Vec<Limited>,
    /// Nodes that may have given ids from the future.
    ahead: BTreeSet<NodeId>,
    /// Promises that were broken while faults were inflicted.
    pub(crate) broken: Vec<String>,
    /// How often each kind was inflicted.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Nemesis {
    /// A nemesis of this cluster and its disks.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        clocks: Option<Clocks>,
        disks: Disks,
        binaries: Vec<PathBuf>,
        seed: u64,
    ) -> Self {
        Self {
            cluster,
            clocks,
            disks,
            binaries,
            random: Random::new(seed, "nemesis"),
            going_on: JoinSet::new(),
            limited: Vec::new(),
            ahead: BTreeSet::new(),
            broken: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Inflicts a fault. It lasts until [`Nemesis::heal`], unless it ends earlier by itself.
    pub(crate) async fn inflict(&mut self, name: &'static str, fault: &Fault, leader: NodeId) {
        *self.counts.entry(name).or_default() += 1;
        let node = |victim: &Victim| victim.node(leader);
        match fault {
            Fault::Links(routes, weather) => self.set_links(routes, *weather, leader),
            Fault::Flapping(routes, weather) => self.flap(routes, *weather, leader),
            Fault::Resets => self.reset(),
            Fault::Kill { victim, stays_down } => self.kill(&[node(victim)], *stays_down).await,
            Fault::KillAll { stay_down } => {
                let all = self.cluster.nodes.ids();
                self.kill(&all, *stay_down).await;
            }
            Fault::Pause(victim) => self.cluster.nodes.get(node(victim)).signal("STOP").await,
            Fault::Stutter(victim) => self.stutter(node(victim)),
            Fault::ClockJump(victim, by_ms) => self.set_clock(node(victim), *by_ms),
            Fault::ClockStrobe(victim, by_ms) => self.strobe(node(victim), *by_ms),
            Fault::ClocksOfMost(by_ms) => self.set_clocks_of_most(*by_ms),
            Fault::DiskFull(victim) => self.fill_disk(node(victim)).await,
            Fault::PowerCut { of, draw: (cut, seed) } => self.cut_power(of, *cut, *seed).await,
            Fault::FailingSyncs(victim) => {
                self.fail(node(victim), Operation::Fsync, Failure::Eio);
            }
            Fault::SlowSyncs(victim, ms) => {
                self.disks.slow(node(victim), Duration::from_millis(*ms));
            }
            Fault::NoFiles(victim) => self.limit_files(node(victim)).await,
            Fault::NoMemory(victim) => self.limit_memory(node(victim)).await,
            Fault::Restart(victim) => self.restart(node(victim)).await,
            Fault::RollingRestart => self.restart_all().await,
            Fault::Upgrade => {
                self.binaries.rotate_left(1);
                self.restart_all().await;
            }
            Fault::Rejoin(victim) => {
                if let Err(why) = self.cluster.rejoin(node(victim)).await {
                    self.broken.push(why);
                }
            }
            Fault::Restore => self.restore().await,
            Fault::Transfers => self.transfer(),
        }
    }

    /// Ends all faults.
    pub(crate) async fn heal(&mut self) {
        self.going_on.shutdown().await;
        self.set_links(&Routes::All, Weather::default(), 0);
        self.disks.heal();
        for limited in self.limited.drain(..) {
            limited.lift().await;
        }
        for node in self.cluster.nodes.iter() {
            if let Some(clocks) = &self.clocks {
                // The directory exists as long as the run.
                let _ = clocks.shift(node.id, 0);
            }
            node.relaunch(|launch| launch.limit.clear());
            node.signal("CONT").await;
            node.want(true);
        }
        for id in std::mem::take(&mut self.ahead) {
            self.restart(id).await;
        }
    }

    /// Stops excusing what nodes do.
    pub(crate) fn settle(&self) {
        self.cluster.nodes.iter().for_each(|node| node.excuse(false));
    }

    /// Unmounts the disks, which do not outlive the run.
    pub(crate) fn unmount_disks(&mut self) {
        self.disks.unmount();
    }

    /// Copies the contents of the disks, which do not outlive the run.
    ///
    /// # Errors
    /// When they cannot be copied.
    pub(crate) fn keep_disks(&self) -> std::io::Result<()> {
        self.disks.keep()
    }

    fn set_links(&self, routes: &Routes, weather: Weather, leader: NodeId) {
        for (from, to) in routes.links(&self.cluster.nodes.ids(), leader) {
            self.cluster.links.set(from, to, weather);
        }
    }

    fn flap(&mut self, routes: &Routes, weather: Weather, leader: NodeId) {
        let links = Arc::clone(&self.cluster.links);
        let routes = routes.links(&self.cluster.nodes.ids(), leader);
        self.going_on.spawn(async move {
            for weather in [weather, Weather::default()].into_iter().cycle() {
                for &(from, to) in &routes {
                    links.set(from, to, weather);
                }
                sleep(TURN).await;
            }
        });
    }

    fn reset(&mut self) {
        let links = Arc::clone(&self.cluster.links);
        let ids = self.cluster.nodes.ids();
        self.going_on.spawn(async move {
            loop {
                for &one in &ids {
                    for &other in ids.iter().filter(|&&other| other > one) {
                        links.reset(one, other);
                    }
                }
                sleep(RESET_INTERVAL).await;
            }
        });
    }

    async fn kill(&self, ids: &[NodeId], stay_down: bool) {
        let mut killing = JoinSet::new();
        for &id in ids {
            let nodes = Arc::clone(&self.cluster.nodes);
            killing.spawn(async move {
                let node = nodes.get(id);
                node.want(!stay_down);
                node.kill().await;
            });
        }
        killing.join_all().await;
    }

    fn stutter(&mut self, id: NodeId) {
        let nodes = Arc::clone(&self.cluster.nodes);
        self.going_on.spawn(async move {
            for signal in ["STOP", "CONT"].into_iter().cycle() {
                nodes.get(id).signal(signal).await;
                sleep(STUTTER).await;
            }
        });
    }

    fn set_clock(&self, id: NodeId, by_ms: i64) {
        if let Some(clocks) = &self.clocks {
            let _ = clocks.shift(id, by_ms);
        }
    }

    fn strobe(&mut self, id: NodeId, by_ms: i64) {
        let Some(clocks) = self.clocks.clone() else { return };
        self.going_on.spawn(async move {
            for by_ms in [by_ms, 0].into_iter().cycle() {
                let _ = clocks.shift(id, by_ms);
                sleep(STUTTER).await;
            }
        });
    }

    /// Sets the clocks of a majority. If they run ahead, all nodes may give ids from the future; they are
    /// restarted once the clocks are right again, as the documentation asks operators to do.
    fn set_clocks_of_most(&mut self, by_ms: i64) {
        let ids = self.cluster.nodes.ids();
        let most = self.random.shuffled(ids.clone());
        for &id in &most[..ids.len() / 2 + 1] {
            self.set_clock(id, by_ms);
        }
        if by_ms > 0 {
            self.ahead.extend(ids);
        }
    }

    /// Kills these nodes, cuts the power of their disks, and starts them again.
    async fn cut_power(&self, of: &[NodeId], cut: Cut, seed: u64) {
        self.kill(of, true).await;
        for &id in of {
            self.disks.cut_power(id, cut, seed);
            self.cluster.nodes.get(id).want(true);
        }
    }

    /// Makes operations of a node's disk fail. Returns false if the disk is a plain directory.
    fn fail(&self, id: NodeId, operation: Operation, failure: Failure) -> bool {
        let failing = self.disks.fail(id, operation, failure);
        if failing {
            self.cluster.nodes.get(id).excuse(true);
            self.cluster.nodes.get(id).taint();
        }
        failing
    }

    /// Fills a node's disk. If it is a plain directory, a limit keeps its files from growing, for the running
    /// process and for those after it.
    async fn fill_disk(&mut self, id: NodeId) {
        if self.fail(id, Operation::Write, Failure::Enospc) {
            return;
        }
        let node = self.cluster.nodes.get(id);
        let bytes = limits::largest_file(&node.data());
        node.taint();
        node.relaunch(|launch| launch.limit = Resource::FileBytes.words(bytes));
        self.limit(id, Resource::FileBytes, bytes).await;
    }

    async fn limit_files(&mut self, id: NodeId) {
        let Some(pid) = self.cluster.nodes.get(id).life().pid else { return };
        if let Ok(open) = limits::open_files(pid) {
            self.limit(id, Resource::Files, open).await;
        }
    }

    async fn limit_memory(&mut self, id: NodeId) {
        let Some(pid) = self.cluster.nodes.get(id).life().pid else { return };
        if let Ok(used) = limits::writable_memory(pid) {
            self.limit(id, Resource::Memory, used + SPARE_MEMORY_BYTES).await;
        }
    }

    async fn limit(&mut self, id: NodeId, resource: Resource, limit: u64) {
        let node = self.cluster.nodes.get(id);
        node.excuse(true);
        let Some(pid) = node.life().pid else { return };
        // A process that has just ended cannot be limited.
        self.limited.extend(Limited::set(pid, resource, limit).await.ok());
    }

    async fn restart(&mut self, id: NodeId) {
        let node = self.cluster.nodes.get(id);
        // A paused process would not act on SIGTERM.
        node.signal("CONT").await;
        if let Err(why) = node.stop().await {
            self.broken.push(why);
        }
        let binary = self.binaries[0].clone();
        node.relaunch(|launch| launch.binary = binary);
        node.want(true);
    }

    /// Restores the whole cluster from one directory. If the clocks do not allow that, it amounts to a kill of
    /// all nodes.
    async fn restore(&mut self) {
        let survivor = self.disks.beside("survivor");
        let binary = self.binaries[0].clone();
        if let Err(why) = self.cluster.restore(&binary, &survivor).await {
            self.broken.push(why);
        }
    }

    async fn restart_all(&mut self) {
        for id in self.cluster.nodes.ids() {
            self.restart(id).await;
            sleep(ROLLING_PAUSE).await;
        }
    }

    /// Transfers leadership from node to node. Nodes may refuse: the target may lag behind, or another change
    /// may be under way.
    fn transfer(&mut self) {
        let cluster = Arc::clone(&self.cluster);
        self.going_on.spawn(async move {
            for id in cluster.nodes.ids().into_iter().cycle() {
                let body = json!({ "id": id });
                let path = "/v1/cluster/leader";
                let asked =
                    cluster.client.ask(id, Method::POST, path, Some(&body), TRANSFER_WITHIN);
                let _ = asked.await;
                sleep(TRANSFER_INTERVAL).await;
            }
        });
    }
}
