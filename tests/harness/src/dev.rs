//! `mintleaf dev` as a process.

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::{Api, Binary, Port, Process, eventually, secs};

/// A cluster in one process, on ports and a data directory that outlast its restarts.
#[derive(Debug)]
pub struct Dev {
    binary: Binary,
    process: Process,
    ports: Vec<Port>,
    resp_ports: Vec<Port>,
    nodes: u16,
    // Dropped after the process, which writes to it.
    dir: TempDir,
}

impl Dev {
    pub(crate) fn start(binary: &Binary, nodes: u16) -> Self {
        let mut dev = Self::just_started(binary, nodes);
        dev.await_ready();
        dev
    }

    /// Starts `nodes` nodes, and returns at once.
    pub fn just_started(binary: &Binary, nodes: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = Port::claim_row(nodes);
        let resp_ports = Port::claim_row(nodes);
        let process = spawn(binary, dir.path(), [&ports[0], &resp_ports[0]], nodes);
        Self { binary: binary.clone(), process, ports, resp_ports, nodes, dir }
    }

    /// Kills it and starts it again on the same data and ports. Returns once all nodes are ready.
    pub fn restart(&mut self) {
        self.kill_and_start();
        self.await_ready();
    }

    /// Kills it and starts it again on the same data and ports. Returns at once.
    pub fn kill_and_start(&mut self) {
        self.process.kill();
        let first = [&self.ports[0], &self.resp_ports[0]];
        self.process = spawn(&self.binary, self.dir.path(), first, self.nodes);
    }

    fn await_ready(&mut self) {
        for node in 0..usize::from(self.nodes) {
            let Self { process, ports, .. } = self;
            let api = Api(ports[node].addr());
            eventually("dev to be ready", secs(15), || {
                assert!(process.is_running(), "dev has ended");
                api.try_get("/readyz").ok().filter(|answer| answer.status == 200)
            });
        }
    }

    /// A client of the first node.
    pub fn api(&self) -> Api {
        self.node(1)
    }

    /// A client of the node with this id.
    pub fn node(&self, id: usize) -> Api {
        assert!((1..=usize::from(self.nodes)).contains(&id));
        Api(self.ports[id - 1].addr())
    }

    /// The address where the node with this id serves the Redis protocol.
    pub fn resp(&self, id: usize) -> SocketAddr {
        self.resp_ports[id - 1].addr()
    }

    /// The first node's address for the command line's `--url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.api().0)
    }

    /// The process that runs all nodes.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The directory of its data and its log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

fn spawn(binary: &Binary, dir: &Path, [http, resp]: [&Port; 2], nodes: u16) -> Process {
    let mut command = binary.command();
    command.env("MINTLEAF_RESP", resp.addr().to_string());
    command.args(["dev", "--http", &http.addr().to_string(), "--nodes", &nodes.to_string()]);
    command.arg("--data").arg(dir.join("data"));
    Process::start("dev", &mut command, &dir.join("log")).unwrap()
}
