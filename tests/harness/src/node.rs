//! One `mintleaf serve`: its settings and its process.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Api, Binary, Port, Process};

/// The identity and addresses of a node: the arguments that every node has.
#[derive(Clone, Copy, Debug)]
pub struct Serve<'a> {
    /// Its Raft id.
    pub id: u64,
    /// Its address for clients.
    pub http: SocketAddr,
    /// Its address for other nodes.
    pub raft: SocketAddr,
    /// Its data directory.
    pub data: &'a Path,
}

impl Serve<'_> {
    /// Adds `serve` and these arguments to a command that runs the binary.
    pub fn add_to(&self, command: &mut Command) {
        command.args(["serve", "--node-id", &self.id.to_string()]);
        command.args(["--http", &self.http.to_string(), "--raft", &self.raft.to_string()]);
        command.arg("--data").arg(self.data);
    }
}

/// A node, running or not. Its ports and its data directory outlast its restarts. Dropping it ends it.
#[derive(Debug)]
pub struct Node {
    /// Its Raft id.
    pub id: u64,
    binary: Binary,
    http: Port,
    raft: Port,
    data: PathBuf,
    log: PathBuf,
    flags: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    process: Option<Process>,
}

impl Node {
    /// A node that was never started. Its log is `node-ID.log` in `dir`, and its data is `node-ID` beside the log.
    pub fn new(binary: &Binary, id: u64, dir: &Path) -> Self {
        Self {
            id,
            binary: binary.clone(),
            http: Port::claim(),
            raft: Port::claim(),
            data: dir.join(format!("node-{id}")),
            log: dir.join(format!("node-{id}.log")),
            flags: Vec::new(),
            env: Vec::new(),
            process: None,
        }
    }

    /// Its address for clients.
    pub fn http(&self) -> SocketAddr {
        self.http.addr()
    }

    /// Its address for other nodes.
    pub fn raft(&self) -> SocketAddr {
        self.raft.addr()
    }

    /// A client of it.
    pub fn api(&self) -> Api {
        Api(self.http())
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Uses another data directory from the next start on.
    pub fn set_data(&mut self, data: PathBuf) {
        self.data = data;
    }

    /// Makes the next starts run another binary.
    pub fn set_binary(&mut self, binary: &Binary) {
        self.binary = binary.clone();
    }

    /// Replaces the flags for the next starts: how it enters a cluster, and all other flags.
    pub fn set_flags(&mut self, flags: impl IntoIterator<Item = impl Into<OsString>>) {
        self.flags = flags.into_iter().map(Into::into).collect();
    }

    /// Adds a flag and its value to the next starts.
    pub fn add_flag(&mut self, flag: &str, value: impl AsRef<OsStr>) {
        self.flags.extend([flag.into(), value.as_ref().into()]);
    }

    /// Adds a variable to the environment of the next starts.
    pub fn set_env(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.env.push((name.into(), value.as_ref().into()));
    }

    /// Chooses other ports for the next starts, and advertises them to other nodes.
    ///
    /// # Panics
    /// When it is running.
    pub fn move_to_other_ports(&mut self) {
        assert!(self.process.is_none(), "node {} runs", self.id);
        (self.http, self.raft) = (Port::claim(), Port::claim());
        self.add_flag("--advertise-raft", self.raft().to_string());
    }

    /// Starts it, or restarts it if it is running. Does not wait for it.
    ///
    /// # Errors
    /// When the process cannot be started or its log cannot be opened.
    pub fn start(&mut self) -> io::Result<()> {
        self.kill();
        let (http, raft) = (self.http(), self.raft());
        let serve = Serve { id: self.id, http, raft, data: &self.data };
        let mut command = self.binary.serve(&serve);
        command.args(&self.flags).envs(self.env.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(&format!("node {}", self.id), &mut command, &self.log)?);
        Ok(())
    }

    /// Its process, from its start until its end is collected.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// The same, mutable.
    pub fn process_mut(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Takes its process, which has ended or is about to end.
    pub fn take_process(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// Sends SIGKILL, if it is running.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Whether it reports that it is ready.
    pub fn is_ready(&self) -> bool {
        self.api().try_get("/readyz").is_ok_and(|answer| answer.status == 200)
    }
}

/// The value of `--peers` for these founders.
pub fn peers<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let peers = nodes.into_iter().map(|node| format!("{}={}", node.id, node.raft()));
    peers.collect::<Vec<_>>().join(",")
}
