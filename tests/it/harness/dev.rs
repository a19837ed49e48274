//! `mintleaf dev` as a process.

use std::path::Path;

use tempfile::TempDir;

use super::{Api, Port, Process, eventually, mintleaf, secs};

/// A cluster in one process, on ports and a data directory that outlast its restarts.
#[derive(Debug)]
pub(crate) struct Dev {
    process: Process,
    ports: Vec<Port>,
    nodes: u16,
    // Goes after the process, which writes to it.
    dir: TempDir,
}

impl Dev {
    /// One node; returns once it has answered.
    pub(crate) fn start() -> Self {
        Self::with_nodes(1)
    }

    /// `nodes` nodes; returns once the first has answered.
    pub(crate) fn with_nodes(nodes: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = Port::claim_row(nodes);
        let process = spawn(dir.path(), &ports[0], nodes);
        let mut dev = Self { process, ports, nodes, dir };
        dev.await_answer();
        dev
    }

    /// Kills it and starts it again on the same data and ports; returns once it has answered.
    pub(crate) fn restart(&mut self) {
        self.process.kill();
        self.spawn();
        self.await_answer();
    }

    /// Starts a process that ended again, and does not wait for it.
    pub(crate) fn spawn(&mut self) {
        self.process = spawn(self.dir.path(), &self.ports[0], self.nodes);
    }

    fn await_answer(&mut self) {
        let Self { process, ports, .. } = self;
        let api = Api(ports[0].addr());
        eventually("the first answer of dev", secs(10), || {
            assert!(process.is_running(), "dev has ended");
            api.try_get("/livez").ok()
        });
    }

    pub(crate) fn api(&self) -> Api {
        self.node(1)
    }

    /// The node with this id.
    pub(crate) fn node(&self, id: usize) -> Api {
        assert!((1..=usize::from(self.nodes)).contains(&id));
        Api(self.ports[id - 1].addr())
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

fn spawn(dir: &Path, http: &Port, nodes: u16) -> Process {
    let mut command = mintleaf();
    command.args(["dev", "--http", &http.addr().to_string(), "--nodes", &nodes.to_string()]);
    command.arg("--data").arg(dir.join("data"));
    Process::start("dev", &mut command, &dir.join("log"))
}
