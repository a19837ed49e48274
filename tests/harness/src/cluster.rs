//! Several `mintleaf serve` processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Api, Binary, Node, Process, eventually, peers, secs};

/// Time for an election and everything that waits for it, on a machine that is busy with other tests.
const SETTLED_WITHIN: Duration = secs(15);

/// Nodes that are one cluster or will become one. Dropping this ends them.
///
/// At most three clusters run at a time in one process, because they are heavy and their timers are real. The
/// caller that makes a fourth waits for its [`Turn`].
#[derive(Debug)]
pub struct Cluster {
    binary: Binary,
    nodes: BTreeMap<u64, Node>,
    // Dropped after the nodes, which write to it, and which print their logs when a test fails.
    dir: TempDir,
    _turn: Turn,
}

impl Cluster {
    pub(crate) fn prepare(binary: &Binary, count: u64, flags: &[&str]) -> Self {
        let turn = Turn::wait();
        let dir = tempfile::tempdir().unwrap();
        let mut nodes: BTreeMap<u64, Node> =
            (1..=count).map(|id| (id, Node::new(binary, id, dir.path()))).collect();
        let peers = peers(nodes.values());
        for node in nodes.values_mut() {
            node.set_flags(flags);
            node.add_flag("--peers", &peers);
        }
        Self { binary: binary.clone(), nodes, dir, _turn: turn }
    }

    /// Starts every node that is not running. Returns once all are ready under one leader.
    pub fn start_all(&mut self) {
        for id in self.ids() {
            if self.nodes[&id].process().is_none() {
                self.start_node(id);
            }
        }
        self.await_ready();
    }

    /// Waits until all running nodes agree on a leader and are ready.
    pub fn await_ready(&mut self) {
        self.leader();
        for id in self.running() {
            eventually("every node to be ready", SETTLED_WITHIN, || {
                self.assert_running();
                self.nodes[&id].is_ready().then_some(())
            });
        }
    }

    /// Adds a node that joins through node `seed`, and starts it.
    pub fn start_joiner(&mut self, id: u64, seed: u64, flags: &[&str]) {
        let seed = self.raft(seed).to_string();
        let dir = self.dir.path();
        let new = || Node::new(&self.binary, id, dir);
        let node = self.nodes.entry(id).or_insert_with(new);
        node.set_binary(&self.binary);
        node.set_flags(flags);
        node.add_flag("--join", seed);
        self.start_node(id);
    }

    /// Starts a node with the settings of its last start, and does not wait for it.
    pub fn start_node(&mut self, id: u64) {
        self.node(id).start().unwrap();
    }

    /// Replaces the flags for a node's next starts: how it enters a cluster, and all other flags.
    pub fn set_flags(&mut self, id: u64, flags: impl IntoIterator<Item = impl Into<OsString>>) {
        self.node(id).set_flags(flags);
    }

    /// Adds a flag and its value to a node's next starts.
    pub fn add_flag(&mut self, id: u64, flag: &str, value: impl AsRef<OsStr>) {
        self.node(id).add_flag(flag, value);
    }

    /// Adds a variable to the environment of a node's next starts.
    pub fn set_env(&mut self, id: u64, name: &str, value: impl AsRef<OsStr>) {
        self.node(id).set_env(name, value);
    }

    /// Makes the next starts of a node run another binary; `None` is the binary under test.
    pub fn use_build(&mut self, id: u64, build: Option<&Path>) {
        let binary = build.map_or_else(|| self.binary.clone(), Binary::at);
        self.node(id).set_binary(&binary);
    }

    /// Makes the next starts of a node run the binary under test by a command line such as `taskset -c 1`.
    pub fn run_under(&mut self, id: u64, words: impl IntoIterator<Item = impl Into<OsString>>) {
        let binary = self.binary.under(words);
        self.node(id).set_binary(&binary);
    }

    /// Stops a node as a supervisor does.
    #[track_caller]
    pub fn stop(&mut self, id: u64) {
        self.process(id).signal("TERM");
        let (code, log) = self.ended(id, SETTLED_WITHIN);
        assert_eq!(code, Some(0), "{log}");
    }

    /// Gives a node that is not running other addresses for its next start.
    pub fn move_node(&mut self, id: u64) {
        self.node(id).move_to_other_ports();
    }

    /// All nodes, running or not.
    pub fn ids(&self) -> Vec<u64> {
        self.nodes.keys().copied().collect()
    }

    /// A client of a node.
    pub fn api(&self, id: u64) -> Api {
        self.nodes[&id].api()
    }

    /// Ids and client addresses of all nodes.
    pub fn targets(&self) -> Vec<(u64, SocketAddr)> {
        self.nodes.iter().map(|(&id, node)| (id, node.http())).collect()
    }

    /// The address of a node for other nodes.
    pub fn raft(&self, id: u64) -> SocketAddr {
        self.nodes[&id].raft()
    }

    /// A node's data directory.
    pub fn data(&self, id: u64) -> PathBuf {
        self.nodes[&id].data().to_owned()
    }

    /// A directory that exists as long as the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves the directory behind, with the logs and data of all nodes, when this is dropped.
    pub fn keep_dir(&mut self) {
        self.dir.disable_cleanup(true);
    }

    /// The process of a node that was started and whose end has not been collected.
    #[track_caller]
    pub fn process(&mut self, id: u64) -> &mut Process {
        self.node(id).process_mut().unwrap_or_else(|| panic!("node {id} does not run"))
    }

    /// Sends SIGKILL to a node.
    #[track_caller]
    pub fn kill(&mut self, id: u64) {
        self.process(id).kill();
        self.node(id).take_process();
    }

    /// Deletes a node's data. The node must not be running.
    pub fn wipe(&mut self, id: u64) {
        assert!(self.nodes[&id].process().is_none(), "node {id} runs");
        fs::remove_dir_all(self.data(id)).unwrap();
    }

    /// Waits until a node has ended by itself. Returns its exit code and the output of all its processes.
    #[track_caller]
    pub fn ended(&mut self, id: u64, within: Duration) -> (Option<i32>, String) {
        let code = self.process(id).exit_code(within);
        let log = self.process(id).log();
        self.node(id).take_process();
        (code, log)
    }

    /// Waits until all running nodes name the same leader, and returns it.
    pub fn leader(&mut self) -> u64 {
        let apis: Vec<Api> = self.running().into_iter().map(|id| self.api(id)).collect();
        eventually("one leader", SETTLED_WITHIN, || {
            self.assert_running();
            let leaders: Option<Vec<u64>> = apis.iter().map(|&api| known_leader(api)).collect();
            let leaders = leaders?;
            let first = *leaders.first()?;
            leaders.iter().all(|&leader| leader == first).then_some(first)
        })
    }

    /// The running nodes except `id`.
    pub fn others(&self, id: u64) -> Vec<u64> {
        self.running().into_iter().filter(|&other| other != id).collect()
    }

    fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&id).unwrap_or_else(|| panic!("there is no node {id}"))
    }

    /// The nodes that were started and whose end has not been collected.
    pub fn running(&self) -> Vec<u64> {
        let running = self.nodes.iter().filter(|(_, node)| node.process().is_some());
        running.map(|(&id, _)| id).collect()
    }

    fn assert_running(&mut self) {
        for (id, node) in &mut self.nodes {
            if let Some(process) = node.process_mut() {
                assert!(process.is_running(), "node {id} has ended");
            }
        }
    }
}

/// The leader according to a node.
pub fn known_leader(api: Api) -> Option<u64> {
    api.try_get("/v1/cluster").ok()?.try_json()?["leader_id"].as_u64()
}

/// The right to run a cluster, until it is dropped.
#[derive(Debug)]
pub struct Turn;

/// Clusters of one test binary at a time. Nodes wait for each other and for disks more than they compute: three clusters
/// take some two thirds of two cores.
const CLUSTERS_MAX: u8 = 3;

static RUNNING: Mutex<u8> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    /// Waits until fewer than three clusters run.
    pub fn wait() -> Self {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = ENDED.wait_while(running, |running| *running >= CLUSTERS_MAX);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
