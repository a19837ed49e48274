//! The nodes together: forming, settling, being asked, and taking one back.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::judge::Ledger;
use super::load::{self, Load};
use super::node::Node;
use super::{SERVES_WITHIN, eventually, http};

/// A new cluster on a busy machine forms within this.
const FORMS_WITHIN: Duration = Duration::from_secs(30);
/// A node that was wiped is a voter again within this.
const REJOINS_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Cluster {
    /// In the order of their ids.
    pub(super) nodes: Vec<Node>,
    pub(super) ledger: Arc<Ledger>,
    probes: u64,
    /// How often a node that joined had to be started again: see [`Node::start_if_busy`].
    pub(super) joins_repeated: u64,
}

impl Cluster {
    /// Starts founders, and waits until all serve.
    pub(super) fn form(mut nodes: Vec<Node>) -> io::Result<Self> {
        let peers: Vec<_> =
            nodes.iter().map(|node| format!("{}={}", node.id, node.raft())).collect();
        for node in &mut nodes {
            node.enter_by("--peers", peers.join(","));
            node.start()?;
        }
        let ledger = Arc::new(Ledger::default());
        let mut cluster = Self { nodes, ledger, probes: 0, joins_repeated: 0 };
        if cluster.all_serve(FORMS_WITHIN).is_none() {
            return Err(io::Error::other("the cluster did not form"));
        }
        load::create_shared(cluster.nodes[0].http(), &cluster.ledger);
        Ok(cluster)
    }

    pub(super) fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == id).expect("ids are those of the founders")
    }

    pub(super) fn load(&self) -> Load {
        let targets: Vec<_> = self.nodes.iter().map(|node| (node.id, node.http())).collect();
        Load::start(&targets, &self.ledger)
    }

    /// Waits until every node does all that it is for, and returns how long that took.
    pub(super) fn all_serve(&mut self, within: Duration) -> Option<Duration> {
        let began = Instant::now();
        for node in &mut self.nodes {
            let left = within.checked_sub(began.elapsed())?;
            let (id, at) = (node.id, node.http());
            eventually(left, || {
                self.joins_repeated += u64::from(node.start_if_busy().ok()?);
                self.probes += 1;
                load::serves(id, at, self.probes, &self.ledger).then_some(())
            })?;
        }
        Some(began.elapsed())
    }

    /// Holds what every given node lists against what was promised.
    pub(super) fn judge(&self, ids: &[u64]) {
        for node in self.nodes.iter().filter(|node| ids.contains(&node.id)) {
            let expected = self.ledger.expected();
            match eventually(SERVES_WITHIN, || list(node.http()).ok()) {
                Some(listed) => self.ledger.judge(node.id, &expected, &listed),
                None => self.ledger.violation(format!("node {} does not list its tags", node.id)),
            }
        }
    }

    /// Brings a node that refused to start back as its message says: removed, wiped, joined,
    /// promoted.
    ///
    /// # Errors
    /// The step that failed.
    pub(super) fn rejoin(&mut self, id: u64) -> Result<(), String> {
        let other = self.nodes.iter().find(|node| node.id != id && node.runs());
        let (through, seed) = match other {
            Some(node) => (node.http(), node.raft()),
            None => return Err("no other node runs".to_owned()),
        };
        let path = format!("/v1/cluster/nodes/{id}");
        let removed = || http::delete(through, &path).ok().filter(|a| a.status == 204).map(drop);
        eventually(REJOINS_WITHIN, removed).ok_or("it cannot be removed")?;
        let node = self.node(id);
        node.device().heal();
        node.wipe().map_err(|error| format!("it cannot be wiped: {error}"))?;
        node.enter_by("--join", seed.to_string());
        node.start().map_err(|error| format!("it cannot be started: {error}"))?;
        let mut repeated = 0;
        let promoted = promote(node, through, &mut repeated);
        self.joins_repeated += repeated;
        promoted
    }
}

/// Makes a voter of a node that joins.
fn promote(node: &mut Node, through: SocketAddr, joins_repeated: &mut u64) -> Result<(), String> {
    let body = json!({
        "id": node.id, "raft": node.raft().to_string(), "http": node.http().to_string(),
        "voter": true,
    });
    let mut said = String::new();
    let promoted = eventually(REJOINS_WITHIN, || {
        *joins_repeated += u64::from(node.start_if_busy().ok()?);
        let answer = http::post(through, "/v1/cluster/nodes", &body).ok()?;
        (answer.status == 200).then_some(()).or_else(|| {
            said = answer.body;
            None
        })
    });
    promoted.ok_or_else(|| format!("it is not promoted: {said}"))
}

/// Every tag and its mark, by a linearizable listing.
fn list(at: SocketAddr) -> io::Result<BTreeMap<String, u64>> {
    let mut listed = BTreeMap::new();
    let mut after = String::new();
    loop {
        let answer = http::get(at, &format!("/v1/tags?limit=1000{after}"))?;
        if answer.status != 200 {
            return Err(io::Error::other(answer.body));
        }
        let page = answer.json();
        for tag in page["tags"].as_array().into_iter().flatten() {
            let mark = tag["max_id"].as_str().and_then(|mark| mark.parse().ok());
            if let (Some(name), Some(mark)) = (tag["tag"].as_str(), mark) {
                listed.insert(name.to_owned(), mark);
            }
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(listed),
        }
    }
}
