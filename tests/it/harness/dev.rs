//! `mintleaf dev` as a process.

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use super::{Api, Port, Process, eventually, mintleaf, secs};

/// A cluster in one process, on ports and a data directory that outlast its restarts.
#[derive(Debug)]
pub(crate) struct Dev {
    process: Process,
    ports: Vec<Port>,
    resp_ports: Vec<Port>,
    nodes: u16,
    // Goes after the process, which writes to it.
    dir: TempDir,
}

impl Dev {
    /// One node; returns once it is ready.
    pub(crate) fn start() -> Self {
        Self::with_nodes(1)
    }

    /// `nodes` nodes; returns once all are ready.
    pub(crate) fn with_nodes(nodes: u16) -> Self {
        let mut dev = Self::just_started(nodes);
        dev.await_ready();
        dev
    }

    /// Returns at once.
    pub(crate) fn just_started(nodes: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = Port::claim_row(nodes);
        let resp_ports = Port::claim_row(nodes);
        let process = spawn(dir.path(), [&ports[0], &resp_ports[0]], nodes);
        Self { process, ports, resp_ports, nodes, dir }
    }

    /// Kills it and starts it again on the same data and ports; returns once all are ready.
    pub(crate) fn restart(&mut self) {
        self.kill_and_start();
        self.await_ready();
    }

    /// Kills it and starts it again on the same data and ports; returns at once.
    pub(crate) fn kill_and_start(&mut self) {
        self.process.kill();
        self.process = spawn(self.dir.path(), [&self.ports[0], &self.resp_ports[0]], self.nodes);
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

    pub(crate) fn api(&self) -> Api {
        self.node(1)
    }

    /// The node with this id.
    pub(crate) fn node(&self, id: usize) -> Api {
        assert!((1..=usize::from(self.nodes)).contains(&id));
        Api(self.ports[id - 1].addr())
    }

    /// Where the node with this id serves the Redis protocol.
    pub(crate) fn resp(&self, id: usize) -> SocketAddr {
        self.resp_ports[id - 1].addr()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.api().0)
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

fn spawn(dir: &Path, [http, resp]: [&Port; 2], nodes: u16) -> Process {
    let mut command = mintleaf();
    command.env("MINTLEAF_RESP", resp.addr().to_string());
    command.args(["dev", "--http", &http.addr().to_string(), "--nodes", &nodes.to_string()]);
    command.arg("--data").arg(dir.join("data"));
    Process::start("dev", &mut command, &dir.join("log"))
}
