//! Nodes of Mintleaf: a single one, or three.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mintleaf_harness::{Api, Port, Serve, pause};
use serde_json::{Value, json};

use crate::Result;
use crate::bench::Bench;
use crate::doors::{Certificates, Door, auth_file, said};
use crate::process::Process;

/// A build of Mintleaf.
#[derive(Clone, Copy)]
pub(crate) struct Build<'a> {
    pub(crate) binary: &'a Path,
    /// The prefix of its nodes' directories.
    pub(crate) name: &'a str,
    /// Whether its nodes prove themselves to each other with a secret, and therefore speak TLS.
    pub(crate) secured: bool,
    /// What its ports require of clients.
    pub(crate) door: Door,
}

impl<'a> Build<'a> {
    /// The build that a run measures.
    pub(crate) fn measured(bench: &'a Bench) -> Self {
        Self { binary: &bench.options.binary, name: "mintleaf", secured: false, door: Door::Open }
    }
}

/// A running node: `mintleaf serve` with default settings.
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) http: SocketAddr,
    pub(crate) resp: SocketAddr,
    /// The token that it accepts, if it requires one.
    pub(crate) token: Option<String>,
    /// The CA that has signed its certificate, if it speaks TLS.
    pub(crate) ca: Option<PathBuf>,
    binary: PathBuf,
    id: u64,
    ports: [Port; 3],
    dir: PathBuf,
    /// The arguments that list the other nodes and set what clients must present.
    peers: Vec<String>,
}

/// A secret of the shortest length that a node accepts.
const SECRET: &str = "a secret of the bench in 32 bytes";

impl Node {
    /// A cluster of one.
    pub(crate) fn alone(bench: &Bench) -> Result<Self> {
        Self::alone_of(bench, Build::measured(bench))
    }

    /// A cluster of one node of a build.
    pub(crate) fn alone_of(bench: &Bench, build: Build<'_>) -> Result<Self> {
        let raft = Port::claim();
        let peers = format!("1={}", raft.addr());
        let mut node = Self::start(bench, build, 1, raft, peers)?;
        node.await_ready()?;
        Ok(node)
    }

    fn start(bench: &Bench, build: Build<'_>, id: u64, raft: Port, peers: String) -> Result<Self> {
        let name = format!("{}-{id}", build.name);
        let dir = bench.fresh_dir(&name)?;
        let ports = [Port::claim(), Port::claim(), raft];
        let (http, resp) = (ports[0].addr(), ports[1].addr());
        let binary = build.binary.to_owned();
        let mut peers = vec!["--peers".to_owned(), peers];
        // A node that requires tokens of clients also requires a secret between nodes.
        if build.secured || matches!(build.door, Door::Token) {
            let secret = dir.join("secret");
            std::fs::write(&secret, SECRET)?;
            peers.extend(["--cluster-secret-file".to_owned(), secret.display().to_string()]);
        }
        let (mut token, mut ca) = (None, None);
        match build.door {
            Door::Open => {}
            Door::Token => {
                let (file, made) = auth_file(&binary, &dir)?;
                peers.extend(["--auth-file".to_owned(), file.display().to_string()]);
                token = Some(made);
            }
            Door::Tls => {
                let made = Certificates::make(&binary, &dir)?;
                peers.extend(["--tls-cert".to_owned(), made.certificate.display().to_string()]);
                peers.extend(["--tls-key".to_owned(), made.key.display().to_string()]);
                ca = Some(made.ca);
            }
        }
        let command = command(bench, &binary, id, &ports, &dir, &peers);
        let process = Process::start(&name, command, &dir)?;
        Ok(Self { process, http, resp, token, ca, binary, id, ports, dir, peers })
    }

    /// The client's view of the node.
    pub(crate) fn api(&self) -> Api {
        Api(self.http)
    }

    /// Starts it again on its data after it has ended.
    pub(crate) fn restart(&mut self, bench: &Bench) -> Result<()> {
        let command = command(bench, &self.binary, self.id, &self.ports, &self.dir, &self.peers);
        self.process = Process::start(self.process.name(), command, &self.dir)?;
        Ok(())
    }

    /// Waits until it reports that it can hand out ids.
    pub(crate) fn await_ready(&mut self) -> Result<()> {
        if let Some(ca) = self.ca.clone() {
            let (binary, http) = (self.binary.clone(), self.http);
            let ready = || by_tls(&binary, http, &ca, &["snowflake"]).is_ok();
            return self.process.await_until(ready);
        }
        let api = self.api();
        self.process.await_until(|| api.try_get("/readyz").is_ok_and(|answer| answer.is_ok()))
    }

    /// Creates a tag.
    pub(crate) fn create_tag(&self, tag: &str, step: u32) -> Result<()> {
        if let Some(ca) = &self.ca {
            let step = step.to_string();
            return by_tls(&self.binary, self.http, ca, &["tag", "create", tag, "--step", &step]);
        }
        self.create(&json!({ "tag": tag, "step": step }))
    }

    /// Creates a tag from a body of `POST /v1/tags`.
    pub(crate) fn create(&self, body: &Value) -> Result<()> {
        let answer = self.api().try_post("/v1/tags", body)?;
        if answer.is_ok() {
            Ok(())
        } else {
            Err(format!("{body} is not created: {answer:?}").into())
        }
    }

    /// Takes an id of a tag, so that a segment of it is buffered.
    pub(crate) fn warm_up(&self, tag: &str) -> Result<()> {
        if let Some(ca) = &self.ca {
            return by_tls(&self.binary, self.http, ca, &["next", tag]);
        }
        let answer = self.api().try_get(&format!("/v1/segment/{tag}"))?;
        if answer.is_ok() { Ok(()) } else { Err(format!("{tag} has no ids: {answer:?}").into()) }
    }
}

/// Asks a node that speaks TLS, through the command line.
fn by_tls(binary: &Path, http: SocketAddr, ca: &Path, words: &[&str]) -> Result<()> {
    let (url, ca) = (format!("https://{http}"), ca.display().to_string());
    said(binary, [words, &["--url", &url, "--cacert", &ca]].concat()).map(drop)
}

fn command(
    bench: &Bench,
    binary: &Path,
    id: u64,
    ports: &[Port; 3],
    dir: &Path,
    peers: &[String],
) -> Command {
    let mut command = bench.server_at(binary);
    let [http, resp, raft] = ports.each_ref().map(Port::addr);
    Serve { id, http, raft, data: &dir.join("data") }.add_to(&mut command);
    command.args(peers).args(["--resp", &resp.to_string()]);
    command
}

/// Three nodes.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    /// Starts them, and waits until all are ready.
    pub(crate) fn start(bench: &Bench) -> Result<Self> {
        Self::start_of(bench, Build::measured(bench))
    }

    /// Starts three nodes of a build, and waits until all are ready.
    pub(crate) fn start_of(bench: &Bench, build: Build<'_>) -> Result<Self> {
        let rafts: Vec<_> = (1..=3).map(|id| (id, Port::claim())).collect();
        let peers = rafts.iter().map(|(id, raft)| format!("{id}={}", raft.addr()));
        let peers = peers.collect::<Vec<_>>().join(",");
        let mut nodes = Vec::new();
        for (id, raft) in rafts {
            nodes.push(Node::start(bench, build, id, raft, peers.clone())?);
        }
        let mut cluster = Self { nodes };
        cluster.await_ready()?;
        Ok(cluster)
    }

    pub(crate) fn await_ready(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Node::await_ready)
    }

    pub(crate) fn processes(&self) -> Vec<&Process> {
        self.nodes.iter().map(|node| &node.process).collect()
    }

    /// The leading node and its term, once all nodes agree.
    ///
    /// # Errors
    /// When they do not agree in time.
    pub(crate) fn leader(&self) -> Result<(usize, u64)> {
        const AGREED_WITHIN: Duration = Duration::from_secs(20);
        let deadline = Instant::now() + AGREED_WITHIN;
        loop {
            let views = self.nodes.iter().map(|node| {
                let view = node.api().try_get("/v1/cluster").ok()?.try_json()?;
                Some((view["leader_id"].as_u64()?, view["term"].as_u64()?))
            });
            let views: Option<Vec<_>> = views.collect();
            if let Some([first, rest @ ..]) = views.as_deref()
                && rest.iter().all(|view| view == first)
                && let Some(at) = self.nodes.iter().position(|node| node.id == first.0)
            {
                return Ok((at, first.1));
            }
            if Instant::now() > deadline {
                return Err(format!("the nodes agree on no leader: {views:?}").into());
            }
            pause(Duration::from_millis(10));
        }
    }
}
