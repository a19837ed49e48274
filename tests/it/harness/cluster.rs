//! `mintleaf serve`, several times.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::process::build;
use super::{Api, Port, Process, eventually, mintleaf, secs};

/// Time for an election and what hangs on it, on a machine that is busy with other tests.
const SETTLED_WITHIN: Duration = secs(15);

/// Nodes that are one cluster or shall become one. Dropping it ends them.
pub(crate) struct Cluster {
    nodes: BTreeMap<u64, Member>,
    // Goes after the nodes, which write to it and show its logs when a test fails.
    dir: TempDir,
    _turn: Turn,
}

struct Member {
    http: Port,
    raft: Port,
    /// How it enters a cluster, and what else it was told.
    flags: Vec<String>,
    env: Vec<(String, String)>,
    /// Another binary than the one under test.
    build: Option<PathBuf>,
    process: Option<Process>,
}

impl Cluster {
    /// `count` founders that all got `flags`; none runs yet.
    pub(crate) fn prepare(count: u64, flags: &[&str]) -> Self {
        let turn = Turn::wait();
        let ports = || (Port::claim(), Port::claim());
        let ports: BTreeMap<u64, _> = (1..=count).map(|id| (id, ports())).collect();
        let peers: Vec<_> =
            ports.iter().map(|(id, (_, raft))| format!("{id}={}", raft.addr())).collect();
        let peers = peers.join(",");
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let member = |(id, (http, raft))| {
            let mut flags = flags.clone();
            flags.extend(["--peers".to_owned(), peers.clone()]);
            (id, Member { http, raft, flags, env: Vec::new(), build: None, process: None })
        };
        let nodes = ports.into_iter().map(member).collect();
        Self { nodes, dir: tempfile::tempdir().unwrap(), _turn: turn }
    }

    /// `count` founders, running and ready.
    pub(crate) fn start(count: u64) -> Self {
        let mut cluster = Self::prepare(count, &[]);
        cluster.start_all();
        cluster
    }

    /// Starts every node that does not run; returns once all are ready under one leader.
    pub(crate) fn start_all(&mut self) {
        for id in self.ids() {
            if self.nodes[&id].process.is_none() {
                self.start_node(id);
            }
        }
        self.await_ready();
    }

    /// Waits until all running nodes know one leader and are ready.
    pub(crate) fn await_ready(&mut self) {
        self.leader();
        for id in self.running() {
            let api = self.api(id);
            eventually("every node to be ready", SETTLED_WITHIN, || {
                self.assert_running();
                api.try_get("/readyz").ok().filter(|answer| answer.status == 200)
            });
        }
    }

    /// Adds a node that is to join through node `seed`, and starts it.
    pub(crate) fn start_joiner(&mut self, id: u64, seed: u64, flags: &[&str]) {
        let seed = self.nodes[&seed].raft.addr().to_string();
        let mut all: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        all.extend(["--join".to_owned(), seed]);
        let (http, raft, env) = match self.nodes.remove(&id) {
            Some(Member { http, raft, env, .. }) => (http, raft, env),
            None => (Port::claim(), Port::claim(), Vec::new()),
        };
        self.nodes.insert(id, Member { http, raft, flags: all, env, build: None, process: None });
        self.start_node(id);
    }

    /// Starts a node as it was started before, and does not wait for it.
    pub(crate) fn start_node(&mut self, id: u64) {
        let (data, log) = (self.data(id), self.dir.path().join(format!("{id}.log")));
        let member = self.nodes.get_mut(&id).unwrap();
        let mut command = member.build.as_deref().map_or_else(mintleaf, build);
        command.args(["serve", "--node-id", &id.to_string()]);
        command.args(["--http", &member.http.addr().to_string()]);
        command.args(["--raft", &member.raft.addr().to_string()]);
        command.arg("--data").arg(data).args(&member.flags);
        command.envs(member.env.iter().map(|(name, value)| (name, value)));
        member.process = Some(Process::start(&format!("node {id}"), &mut command, &log));
    }

    /// Adds a variable to the environment of a node's next starts.
    pub(crate) fn set_env(&mut self, id: u64, name: &str, value: &str) {
        let env = &mut self.nodes.get_mut(&id).unwrap().env;
        env.push((name.to_owned(), value.to_owned()));
    }

    /// Has the next starts of a node run another binary; `None` is the one under test.
    pub(crate) fn use_build(&mut self, id: u64, build: Option<&Path>) {
        self.nodes.get_mut(&id).unwrap().build = build.map(Path::to_owned);
    }

    /// Stops a node as a supervisor does.
    pub(crate) fn stop(&mut self, id: u64) {
        self.process(id).signal("TERM");
        let (code, log) = self.ended(id, SETTLED_WITHIN);
        assert_eq!(code, Some(0), "{log}");
    }

    /// Gives a node that does not run other addresses for its next start.
    pub(crate) fn move_node(&mut self, id: u64) {
        let member = self.nodes.get_mut(&id).unwrap();
        assert!(member.process.is_none(), "node {id} runs");
        (member.http, member.raft) = (Port::claim(), Port::claim());
        let raft = member.raft.addr().to_string();
        member.flags.extend(["--advertise-raft".to_owned(), raft]);
    }

    /// Every node that there is, running or not.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn api(&self, id: u64) -> Api {
        Api(self.nodes[&id].http.addr())
    }

    /// Ids and client addresses of all nodes.
    pub(crate) fn targets(&self) -> Vec<(u64, SocketAddr)> {
        self.nodes.iter().map(|(&id, member)| (id, member.http.addr())).collect()
    }

    pub(crate) fn raft(&self, id: u64) -> SocketAddr {
        self.nodes[&id].raft.addr()
    }

    pub(crate) fn data(&self, id: u64) -> PathBuf {
        self.dir.path().join(format!("node-{id}"))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn process(&mut self, id: u64) -> &mut Process {
        self.nodes.get_mut(&id).unwrap().process.as_mut().unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, id: u64) {
        let mut process = self.nodes.get_mut(&id).unwrap().process.take().unwrap();
        process.kill();
    }

    /// Deletes a node's data; it must not run.
    pub(crate) fn wipe(&mut self, id: u64) {
        assert!(self.nodes[&id].process.is_none(), "node {id} runs");
        fs::remove_dir_all(self.data(id)).unwrap();
    }

    /// Waits until a node has ended by itself, and returns its exit code and all it ever said.
    pub(crate) fn ended(&mut self, id: u64, within: Duration) -> (Option<i32>, String) {
        let code = self.process(id).exit_code(within);
        let log = self.process(id).log();
        self.nodes.get_mut(&id).unwrap().process = None;
        (code, log)
    }

    /// Waits until all running nodes name the same leader, and returns it.
    pub(crate) fn leader(&mut self) -> u64 {
        let apis: Vec<Api> = self.running().into_iter().map(|id| self.api(id)).collect();
        eventually("one leader", SETTLED_WITHIN, || {
            self.assert_running();
            let leaders: Option<Vec<u64>> = apis.iter().map(|&api| known_leader(api)).collect();
            let leaders = leaders?;
            let first = *leaders.first()?;
            leaders.iter().all(|&leader| leader == first).then_some(first)
        })
    }

    /// The nodes that run, without `id`.
    pub(crate) fn others(&self, id: u64) -> Vec<u64> {
        self.running().into_iter().filter(|&other| other != id).collect()
    }

    fn running(&self) -> Vec<u64> {
        let running = self.nodes.iter().filter(|(_, member)| member.process.is_some());
        running.map(|(&id, _)| id).collect()
    }

    fn assert_running(&mut self) {
        for (id, member) in &mut self.nodes {
            if let Some(process) = &mut member.process {
                assert!(process.is_running(), "node {id} has ended");
            }
        }
    }
}

/// Whom a node takes for the leader.
pub(crate) fn known_leader(api: Api) -> Option<u64> {
    let answer = api.try_get("/v1/cluster").ok()?;
    let cluster: Value = serde_json::from_slice(&answer.body).ok()?;
    cluster["leader_id"].as_u64()
}

/// The right to run a cluster: two at a time, because they are heavy and their timers are real.
struct Turn;

static RUNNING: Mutex<u8> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    fn wait() -> Self {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = ENDED.wait_while(running, |running| *running >= 2);
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
