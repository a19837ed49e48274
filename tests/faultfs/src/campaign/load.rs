//! The load: clients of every node that take ids and create tags, and record the outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mintleaf_harness::{Api, pause};
use serde_json::json;

use super::ledger::Ledger;

/// Pause between two turns of a client, so that the load leaves time for the nodes.
const PACE: Duration = Duration::from_millis(4);
/// Tags that all clients share.
const SHARED: u64 = 4;
/// The number of the first client that probes whether a node serves. The other probes have the numbers after it.
const PROBE_FIRST: u32 = 1_000;

/// A client of one node.
#[derive(Clone)]
pub(super) struct Client {
    /// Its number in the history.
    number: u32,
    node: u64,
    api: Api,
    ledger: Arc<Ledger>,
}

/// Clients at work. Dropping it ends them.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// One client that takes ids and one that creates tags, for every node.
    pub(super) fn start(nodes: &[(u64, Api)], ledger: &Arc<Ledger>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for &(node, api) in nodes {
            for turn in [Client::take_ids, Client::use_new_tag] {
                let (number, ledger) = (clients.len() as u32, Arc::clone(ledger));
                let client = Client { number, node, api, ledger };
                let stop = Arc::clone(&stop);
                clients.push(thread::spawn(move || {
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        turn(&client, n);
                        pause(PACE);
                    }
                }));
            }
        }
        Self { stop, clients }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // The thread of a client that panicked has reported it.
            let _ = client.join();
        }
    }
}

impl Client {
    /// A client that probes whether a node serves.
    pub(super) fn probe(node: u64, api: Api, ledger: &Arc<Ledger>) -> Self {
        Self { number: PROBE_FIRST + node as u32, node, api, ledger: Arc::clone(ledger) }
    }

    /// Creates the tags that all clients share.
    pub(super) fn create_shared(&self) {
        for n in 0..SHARED {
            // If one of them is missing, only its clients fail.
            self.create(&format!("shared-{n}"), 10);
        }
    }

    /// Whether the node serves every kind of request: a new tag, an id of it, a snowflake id.
    pub(super) fn is_served(&self, n: u64) -> bool {
        let tag = format!("probe-{}-{n}", self.node);
        self.create(&tag, 10) && self.take(Some(&tag), 1) && self.take(None, 1)
    }

    fn take_ids(&self, n: u64) {
        self.take(Some(&format!("shared-{}", n % SHARED)), 1 + n % 20);
        self.take(None, 1 + n % 20);
    }

    /// Creates a tag with a small step, and takes enough ids to need several grabs.
    fn use_new_tag(&self, n: u64) {
        // A later load counts from 0 again, so the number of tags so far makes the name unique.
        let tag = format!("new-{}-{}-{n}", self.node, self.ledger.counts().1);
        if self.create(&tag, 5) {
            self.take(Some(&tag), 12);
        }
    }

    fn create(&self, tag: &str, step: u32) -> bool {
        let asked = self.ledger.ask(self.number, self.node);
        let body = json!({ "tag": tag, "step": step, "description": tag });
        let answer = self.api.try_post("/v1/tags", &body);
        self.ledger.note_tag(&asked, tag, step, &answer)
    }

    /// Takes ids of a tag, or snowflake ids.
    fn take(&self, tag: Option<&str>, count: u64) -> bool {
        let path = tag.map_or_else(|| "snowflake".to_owned(), |tag| format!("segment/{tag}"));
        let asked = self.ledger.ask(self.number, self.node);
        let answer = self.api.try_get(&format!("/v1/{path}?count={count}&format=ranges"));
        self.ledger.note_ids(&asked, tag, &answer)
    }
}
