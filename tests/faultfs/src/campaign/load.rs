//! Clients of every node: they take ids and create tags, and write down what they were promised.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::judge::Ledger;
use super::{http, pause};

/// Between two requests of one client: the machine is not to be busy with the load alone.
const PACE: Duration = Duration::from_millis(4);
/// Tags that all clients share.
const SHARED: u64 = 4;
/// Name of the line of snowflake ids in the ledger; no tag is called so.
const SNOWFLAKES: &str = "(snowflake)";

/// Clients at work. Dropping it ends them.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// One client that takes ids and one that creates tags, for every node.
    pub(super) fn start(nodes: &[(u64, SocketAddr)], ledger: &Arc<Ledger>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for &(node, at) in nodes {
            for turn in [take_ids, use_new_tag] {
                let (stop, ledger) = (Arc::clone(&stop), Arc::clone(ledger));
                clients.push(thread::spawn(move || {
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        turn(node, at, n, &ledger);
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
            // A client that panicked was reported by its thread.
            let _ = client.join();
        }
    }
}

/// Makes the tags that all clients share.
pub(super) fn create_shared(at: SocketAddr, ledger: &Ledger) {
    for n in 0..SHARED {
        // One that fails is missed by its clients only.
        create(at, format!("shared-{n}"), 10, ledger);
    }
}

/// Whether a node does all that it is for: a new tag, an id of it, a snowflake id.
pub(super) fn serves(node: u64, at: SocketAddr, n: u64, ledger: &Ledger) -> bool {
    let tag = format!("probe-{node}-{n}");
    create(at, tag.clone(), 10, ledger)
        && take(node, at, &tag, 1, ledger)
        && take(node, at, SNOWFLAKES, 1, ledger)
}

fn take_ids(node: u64, at: SocketAddr, n: u64, ledger: &Ledger) {
    let tag = format!("shared-{}", n % SHARED);
    take(node, at, &tag, 1 + n % 20, ledger);
    take(node, at, SNOWFLAKES, 1 + n % 20, ledger);
}

/// A new tag with a small step, and so many ids that it takes several grabs.
fn use_new_tag(node: u64, at: SocketAddr, n: u64, ledger: &Ledger) {
    // A later load begins with 0 again; the clock of tags is the ledger.
    let tag = format!("new-{node}-{}-{n}", ledger.counts().1);
    if create(at, tag.clone(), 5, ledger) {
        take(node, at, &tag, 12, ledger);
    }
}

fn create(at: SocketAddr, tag: String, step: u64, ledger: &Ledger) -> bool {
    let answer = http::post(at, "/v1/tags", &json!({ "tag": tag, "step": step }));
    let created = answer.is_ok_and(|answer| answer.status == 201);
    if created {
        ledger.note_tag(tag);
    }
    created
}

fn take(node: u64, at: SocketAddr, tag: &str, count: u64, ledger: &Ledger) -> bool {
    let path = if tag == SNOWFLAKES { "snowflake".to_owned() } else { format!("segment/{tag}") };
    let answer = http::get(at, &format!("/v1/{path}?count={count}&format=ranges"));
    let Ok(answer) = answer else { return false };
    if answer.status != 200 {
        return false;
    }
    let answer = answer.json();
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let ranges = answer["ranges"].as_array().into_iter().flatten();
    let ranges: Vec<_> =
        ranges.map(|range| (number(&range["start"]), number(&range["end"]))).collect();
    for range in &ranges {
        match *range {
            (Some(start), Some(end)) if start < end => ledger.note_ids(tag, start, end, node),
            _ => ledger.violation(format!("node {node} answered no ranges: {answer}")),
        }
    }
    !ranges.is_empty()
}
