//! The cluster as a whole: its bootstrap, waiting until it serves, listing its tags, and bringing a node back.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mintleaf_harness::{Api, NoAnswer, await_some};
use serde_json::{Value, json};

use super::SERVES_WITHIN;
use super::ledger::{Ledger, Listed};
use super::load::{Client, Load};
use super::node::Node;

/// How long the bootstrap may take on a busy machine.
const FORMS_WITHIN: Duration = Duration::from_secs(30);
/// How long a wiped node may take to become a voter again.
const REJOINS_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Cluster {
    /// In the order of their ids.
    pub(super) nodes: Vec<Node>,
    pub(super) ledger: Arc<Ledger>,
    probes: u64,
    /// How often a node that joined had to be started again; see [`Node::start_if_busy`].
    pub(super) joins_repeated: u64,
}

impl Cluster {
    /// Starts founders, and waits until all serve. The history is written to this directory.
    pub(super) fn form(mut nodes: Vec<Node>, directory: &Path) -> io::Result<Self> {
        let peers: Vec<_> =
            nodes.iter().map(|node| format!("{}={}", node.id, node.raft())).collect();
        for node in &mut nodes {
            node.enter_by("--peers", &peers.join(","));
            node.start()?;
        }
        let ledger = Arc::new(Ledger::create(directory)?);
        let mut cluster = Self { nodes, ledger, probes: 0, joins_repeated: 0 };
        if cluster.all_serve(FORMS_WITHIN).is_none() {
            return Err(io::Error::other("the cluster did not form"));
        }
        let first = &cluster.nodes[0];
        Client::probe(first.id, first.api(), &cluster.ledger).create_shared();
        Ok(cluster)
    }

    pub(super) fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == id).expect("ids are those of the founders")
    }

    pub(super) fn load(&self) -> Load {
        let targets: Vec<_> = self.nodes.iter().map(|node| (node.id, node.api())).collect();
        Load::start(&targets, &self.ledger)
    }

    /// Waits until every node serves every kind of request. Returns how long that took.
    pub(super) fn all_serve(&mut self, within: Duration) -> Option<Duration> {
        let began = Instant::now();
        for node in &mut self.nodes {
            let left = within.checked_sub(began.elapsed())?;
            let client = Client::probe(node.id, node.api(), &self.ledger);
            await_some(left, || {
                self.joins_repeated += u64::from(node.start_if_busy().ok()?);
                self.probes += 1;
                client.is_served(self.probes).then_some(())
            })?;
        }
        Some(began.elapsed())
    }

    /// Lets the judge check the history, together with the listing of each given node.
    ///
    /// # Errors
    /// When the history has gaps.
    pub(super) fn judge(&self, ids: &[u64]) -> io::Result<()> {
        for node in self.nodes.iter().filter(|node| ids.contains(&node.id)) {
            let (id, api) = (node.id, node.api());
            let listed = await_some(SERVES_WITHIN, || {
                let (asked, expected) = (self.ledger.ask(0, id), self.ledger.acknowledged());
                list(api).ok().map(|listed| (asked, expected, listed))
            });
            match listed {
                Some((asked, expected, listed)) => self.ledger.judge(&asked, &expected, &listed)?,
                None => self.ledger.violation(format!("node {id} does not list its tags")),
            }
        }
        Ok(())
    }

    /// Brings back a node that refused to start, as its message says: it is removed, wiped, joined and promoted.
    ///
    /// # Errors
    /// The step that failed.
    pub(super) fn rejoin(&mut self, id: u64) -> Result<(), String> {
        let other = self.nodes.iter().find(|node| node.id != id && node.runs());
        let (through, seed) = match other {
            Some(node) => (node.api(), node.raft()),
            None => return Err("no other node runs".to_owned()),
        };
        let path = format!("/v1/cluster/nodes/{id}");
        let removed = || through.try_delete(&path).ok().filter(|a| a.status == 204).map(drop);
        await_some(REJOINS_WITHIN, removed).ok_or("it cannot be removed")?;
        let node = self.node(id);
        node.device().heal();
        node.wipe().map_err(|error| format!("it cannot be wiped: {error}"))?;
        node.enter_by("--join", &seed.to_string());
        node.start().map_err(|error| format!("it cannot be started: {error}"))?;
        let mut repeated = 0;
        let promoted = promote(node, through, &mut repeated);
        self.joins_repeated += repeated;
        promoted
    }
}

/// Makes a joining node a voter.
fn promote(node: &mut Node, through: Api, joins_repeated: &mut u64) -> Result<(), String> {
    let body = json!({
        "id": node.id, "raft": node.raft().to_string(), "http": node.api().0.to_string(),
        "voter": true,
    });
    let mut said = String::new();
    let promoted = await_some(REJOINS_WITHIN, || {
        *joins_repeated += u64::from(node.start_if_busy().ok()?);
        let answer = through.try_post("/v1/cluster/nodes", &body).ok()?;
        (answer.status == 200).then_some(()).or_else(|| {
            said = String::from_utf8_lossy(&answer.body).into_owned();
            None
        })
    });
    promoted.ok_or_else(|| format!("it is not promoted: {said}"))
}

/// Every tag, by a linearizable listing.
fn list(api: Api) -> Result<BTreeMap<String, Listed>, NoAnswer> {
    let mut all = BTreeMap::new();
    let mut after = String::new();
    loop {
        let answer = api.try_get(&format!("/v1/tags?limit=1000{after}"))?;
        let no_page = || NoAnswer::Lost(format!("no page: {answer:?}"));
        let page = answer.try_json().filter(|_| answer.is_ok()).ok_or_else(no_page)?;
        for tag in page["tags"].as_array().ok_or_else(no_page)? {
            let (name, tag) = listed(tag).ok_or_else(no_page)?;
            all.insert(name, tag);
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(all),
        }
    }
}

fn listed(tag: &Value) -> Option<(String, Listed)> {
    let step = u32::try_from(tag["step"].as_u64()?).ok()?;
    let text = |field: &str| tag[field].as_str().map(str::to_owned);
    Some((text("tag")?, (step, text("description")?, text("max_id")?.parse().ok()?)))
}
