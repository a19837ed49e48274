//! Which node leads, as seen from outside.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::links::NodeId;

/// Pause between two polls of a node.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Every leadership that any node reported, in the order of terms.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<(u64, NodeId)>>>,
    task: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn start(client: Client, nodes: Vec<NodeId>) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                for &node in &nodes {
                    if let Some(new) = leadership(&client, node).await {
                        note(&mut noted.lock(), new);
                    }
                }
                sleep(POLL_INTERVAL).await;
            }
        });
        Self { seen, task }
    }

    /// The latest leadership: its term and its leader.
    pub(crate) fn last(&self) -> Option<(u64, NodeId)> {
        self.seen.lock().last().copied()
    }

    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.last().map(|(_, leader)| leader)
    }

    /// How many leaderships have a later term.
    pub(crate) fn changes_since(&self, term: u64) -> usize {
        self.seen.lock().iter().filter(|(later, _)| *later > term).count()
    }

    /// How long it takes until a node leads that `good` accepts; `None` when that takes longer than `within`.
    pub(crate) async fn led_by(
        &self,
        good: impl Fn(NodeId) -> bool,
        within: Duration,
    ) -> Option<Duration> {
        let began = Instant::now();
        let led = async {
            while !self.leader().is_some_and(&good) {
                sleep(POLL_INTERVAL / 2).await;
            }
        };
        timeout(within, led).await.ok().map(|()| began.elapsed())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn leadership(client: &Client, node: NodeId) -> Option<(u64, NodeId)> {
    let view = client.get(node, "/v1/cluster").await?.try_json()?;
    Some((view["term"].as_u64()?, view["leader_id"].as_u64()?))
}

fn note(seen: &mut Vec<(u64, NodeId)>, new: (u64, NodeId)) {
    if let Err(place) = seen.binary_search_by_key(&new.0, |(term, _)| *term) {
        seen.insert(place, new);
    }
}
