//! Three nodes of a binary in one climate.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hyper::Method;
use mintleaf_harness::{Binary, Process, Serve, SlowSyncs};
use tokio::time::{Instant, sleep};

use super::watch::Watch;
use crate::client::Client;
use crate::climate::Climate;
use crate::links::{Links, NodeId};
use crate::proxy::Proxies;

const NODES: [NodeId; 3] = [1, 2, 3];
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a node that was asked to stop may take.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The cluster of one climate. Dropping it ends it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) watch: Watch,
    proxies: Proxies,
    syncs: Option<SlowSyncs>,
    processes: Vec<Process>,
    began: Instant,
}

impl World {
    /// Starts founders. The climate is in effect before they start.
    pub(crate) async fn start(
        binary: &Path,
        dir: &Path,
        seed: u64,
        climate: Climate,
    ) -> Result<Self, String> {
        let told = |error: std::io::Error| error.to_string();
        fs::create_dir_all(dir).map_err(told)?;
        let proxies = Proxies::start(&NODES, seed).await.map_err(told)?;
        let syncs = climate.has_slow_disks().then(|| SlowSyncs::build(dir)).transpose()?;
        let addresses = NODES.iter().map(|&id| (id, proxies.addresses(id)));
        let client = Client::new(addresses.collect());
        let watch = Watch::start(client.clone(), NODES.to_vec());
        let processes = Vec::new();
        let began = Instant::now();
        let mut world = Self { client, watch, proxies, syncs, processes, began };
        world.settle(climate)?;
        world.began = Instant::now();
        for id in NODES {
            let process = world.launch(binary, dir, id).map_err(told)?;
            world.processes.push(process);
        }
        Ok(world)
    }

    fn launch(&self, binary: &Path, dir: &Path, id: NodeId) -> std::io::Result<Process> {
        let addresses = self.proxies.addresses(id);
        let data = dir.join(format!("data-{id}"));
        let serve = Serve { id, http: addresses.http, raft: addresses.raft, data: &data };
        let mut command = Binary::at(binary).serve(&serve);
        let peer = |id: &NodeId| format!("{id}={}", self.proxies.addresses(*id).advertised);
        let peers: Vec<_> = NODES.iter().map(peer).collect();
        command.args(["--peers", &peers.join(","), "--auto-create-tags"]);
        command.args(["--advertise-raft", &addresses.advertised.to_string()]);
        command.env("MINTLEAF_INSECURE", "true").env("RUST_LOG", "info");
        if let Some(syncs) = &self.syncs {
            let (name, file) = syncs.environment(id);
            command.env("LD_PRELOAD", syncs.shared_object()).env(name, file);
        }
        Process::start(&format!("node {id}"), &mut command, &dir.join(format!("node-{id}.log")))
    }

    /// Applies this climate from now on.
    pub(crate) fn settle(&self, climate: Climate) -> Result<(), String> {
        let settled = climate.settle(&NODES, &self.proxies, self.syncs.as_ref());
        settled.map_err(|error| error.to_string())
    }

    /// Waits until all nodes are ready. Returns how long that took since their start.
    pub(crate) async fn await_ready(&self, within: Duration) -> Option<Duration> {
        for id in NODES {
            while self.client.get(id, "/readyz").await.is_none() {
                if self.began.elapsed() > within {
                    return None;
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        Some(self.began.elapsed())
    }

    /// Returns an error if disks are meant to be slow but are not.
    pub(crate) fn check_preload(&self, climate: Climate) -> Result<(), String> {
        let Some(syncs) = &self.syncs else { return Ok(()) };
        match self.processes.iter().all(|process| syncs.is_loaded(process.pid())) {
            true => Ok(()),
            false => Err(format!(
                "{}: the binary does not load {}; is it linked statically?",
                climate.name,
                syncs.shared_object().display()
            )),
        }
    }

    /// The state that each node reports.
    pub(crate) async fn states(&self) -> Vec<String> {
        let mut states = Vec::new();
        for id in NODES {
            let within = Duration::from_secs(2);
            let ready = self.client.ask(id, Method::GET, "/readyz", None, within).await;
            let said = ready.map_or_else(
                |error| error.to_string(),
                |answer| format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)),
            );
            states.push(format!("node {id}: {said}"));
        }
        states
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        NODES.to_vec()
    }

    /// Stops all nodes, by force if they do not stop in time.
    pub(crate) async fn stop(mut self) {
        for process in self.processes.iter_mut().filter_map(|p| p.is_running().then_some(p)) {
            process.signal("TERM");
        }
        let deadline = Instant::now() + STOP_MAX;
        while self.processes.iter_mut().any(Process::is_running) && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
        }
    }
}
