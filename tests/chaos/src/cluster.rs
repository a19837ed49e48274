//! The cluster as a whole: which node leads, whether all nodes serve, and how a wiped node comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use mintleaf_check::history::Outcome;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Client;
use crate::climate::Climate;
use crate::links::{Links, NodeId};
use crate::node::{Launch, Node, Surroundings};
use crate::session::{Form, Session, Sessions};

/// Pause between two polls of a node.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long it may take to bring a wiped node back, including its snapshot.
pub(crate) const REJOIN_MAX: Duration = Duration::from_secs(60);
/// Longer than a change of the membership may take.
const CHANGE_WITHIN: Duration = Duration::from_secs(12);
/// The tag that probes take ids from.
pub(crate) const PROBE_TAG: &str = "probe";
/// The number of the first client that probes. The other probes have the numbers after it.
const PROBE_FIRST: u32 = 1_000_000;

/// All nodes. Their ids start at 1.
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    /// The node with this id, which must exist.
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.0.iter().find(|node| node.id == id).expect("nodes are named by the ids there are")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.0.iter().map(|node| node.id).collect()
    }
}

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) links: Arc<dyn Links>,
    pub(crate) client: Client,
    climate: Climate,
}

impl Cluster {
    /// Starts founders as `launch` describes them.
    pub(crate) fn start(
        ids: &[NodeId],
        around: &Surroundings,
        climate: Climate,
        launch: impl Fn(NodeId) -> Launch,
    ) -> Self {
        let links = Arc::clone(&around.links);
        let peers = peers(ids, &*links);
        let start = |&id: &NodeId| {
            let mut launch = launch(id);
            launch.flags.extend(["--peers".to_owned(), peers.clone()]);
            Node::start(id, launch, around)
        };
        let nodes = Arc::new(Nodes(ids.iter().map(start).collect()));
        let client = Client::new(ids.iter().map(|&id| (id, links.addresses(id))).collect());
        Self { nodes, links, client, climate }
    }

    /// The leader that the nodes name. If they differ, the one of the latest term.
    pub(crate) async fn leader(&self) -> Option<NodeId> {
        let mut latest = None;
        for id in self.nodes.ids() {
            let Some(answer) = self.client.get(id, "/v1/cluster").await else { continue };
            let view = answer.try_json().unwrap_or_default();
            let claim = view["leader_id"].as_u64().map(|leader| (view["term"].as_u64(), leader));
            latest = latest.max(claim);
        }
        latest.map(|(_, leader)| leader)
    }

    /// Waits until every node is ready for the first time.
    ///
    /// # Errors
    /// When a node is late.
    pub(crate) async fn await_formed(&self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        for id in self.nodes.ids() {
            while self.client.get(id, "/readyz").await.is_none() {
                if Instant::now() > deadline {
                    let state = self.state_of(id).await;
                    return Err(format!("the cluster did not form within {within:?}: {state}"));
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Waits until every node serves every kind of request. Returns how long each took.
    ///
    /// # Errors
    /// Names the nodes that were late, with the state that they report.
    pub(crate) async fn await_serving(
        &self,
        sessions: &Sessions,
        within: Duration,
    ) -> Result<BTreeMap<NodeId, Duration>, String> {
        let began = Instant::now();
        let mut waiting = JoinSet::new();
        for id in self.nodes.ids() {
            let session = sessions.open(PROBE_FIRST + id as u32);
            let client = self.client.clone();
            waiting.spawn(async move {
                let served = timeout_at(began + within, serves(&session, &client, id)).await;
                (id, served.is_ok(), began.elapsed())
            });
        }
        let (mut took, mut late) = (BTreeMap::new(), Vec::new());
        while let Some(Ok((id, served, elapsed))) = waiting.join_next().await {
            took.insert(id, elapsed);
            if !served {
                late.push(format!("node {id}: {}", self.state_of(id).await));
            }
        }
        if late.is_empty() { Ok(took) } else { Err(late.join("; ")) }
    }

    async fn state_of(&self, id: NodeId) -> String {
        let within = Duration::from_secs(2);
        let life = self.nodes.get(id).life();
        let ready = self.client.ask(id, Method::GET, "/readyz", None, within).await;
        match ready {
            Ok(answer) => {
                format!("{life:?}, {} {}", answer.status, String::from_utf8_lossy(&answer.body))
            }
            Err(error) => format!("{life:?}, {error}"),
        }
    }

    /// Removes a node, wipes its data directory, and brings it back as a voter, as an operator does for a node
    /// that has lost its disk.
    ///
    /// # Errors
    /// The step that failed or took too long.
    pub(crate) async fn rejoin(&self, id: NodeId) -> Result<(), String> {
        let deadline = Instant::now() + self.climate.stretch(REJOIN_MAX);
        let node = self.nodes.get(id);
        node.want(false);
        node.kill().await;
        let path = format!("/v1/cluster/nodes/{id}");
        self.change(id, Method::DELETE, &path, None, deadline).await?;
        wipe(&node.data()).map_err(|error| format!("node {id} cannot be wiped: {error}"))?;
        let seed = self.others(id)[0];
        let seed = self.links.addresses(seed).advertised.to_string();
        node.relaunch(|launch| replace_flag(&mut launch.flags, seed));
        node.renew();
        node.want(true);
        let raft = self.links.addresses(id).advertised.to_string();
        let body = json!({ "id": id, "raft": raft, "voter": true });
        self.change(id, Method::POST, "/v1/cluster/nodes", Some(&body), deadline).await
    }

    /// Nodes that ended because they cannot trust their data directory.
    pub(crate) fn spoilt(&self) -> BTreeSet<NodeId> {
        self.nodes.iter().filter(|node| node.life().spoilt).map(|node| node.id).collect()
    }

    fn others(&self, id: NodeId) -> Vec<NodeId> {
        self.nodes.ids().into_iter().filter(|&other| other != id).collect()
    }

    /// Makes a change of the membership through any node but `id`, and repeats the request until the change is made.
    pub(crate) async fn change(
        &self,
        id: NodeId,
        method: Method,
        path: &str,
        body: Option<&Value>,
        deadline: Instant,
    ) -> Result<(), String> {
        let mut told = String::new();
        while Instant::now() < deadline {
            for through in self.others(id) {
                let method = method.clone();
                match self.client.ask(through, method, path, body, CHANGE_WITHIN).await {
                    Ok(answer) if answer.status < 300 => return Ok(()),
                    // An earlier attempt succeeded, but its answer was lost.
                    Ok(answer) if method_is_done(body, answer.status) => return Ok(()),
                    reply => told = format!("{reply:?}"),
                }
            }
            sleep(POLL_INTERVAL).await;
        }
        let within = self.climate.stretch(REJOIN_MAX);
        Err(format!("{path} for node {id} was not done within {within:?}: {told}"))
    }
}

/// Whether a removal was refused because the member is already gone.
fn method_is_done(body: Option<&Value>, status: u16) -> bool {
    body.is_none() && status == 404
}

fn peers(ids: &[NodeId], links: &dyn Links) -> String {
    let peer = |&id: &NodeId| format!("{id}={}", links.addresses(id).advertised);
    ids.iter().map(peer).collect::<Vec<_>>().join(",")
}

/// Replaces the flag for founders, so that the node joins through `seed`.
pub(crate) fn replace_flag(flags: &mut Vec<String>, seed: String) {
    if let Some(at) = flags.iter().position(|flag| flag == "--peers" || flag == "--join") {
        flags.drain(at..at + 2);
    }
    flags.extend(["--join".to_owned(), seed]);
}

/// Empties a directory. The directory itself may be a mount point, and stays.
pub(crate) fn wipe(dir: &std::path::Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Resolves once a node is ready, hands out ids of both kinds, reads linearizably and makes a change.
async fn serves(session: &Session, client: &Client, id: NodeId) {
    loop {
        if client.get(id, "/readyz").await.is_some()
            && session.ids(id, PROBE_TAG, Form::Ids(1)).await == Outcome::Ok
            && session.flakes(id, Form::Ids(1)).await == Outcome::Ok
            && session.read(id, PROBE_TAG, false).await == Outcome::Ok
            && session.mark(id).await == Outcome::Ok
        {
            return;
        }
        sleep(POLL_INTERVAL).await;
    }
}
