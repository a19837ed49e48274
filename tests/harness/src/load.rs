//! Clients that never rest, and record everything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::http::runtime;
use crate::{Answer, Client, History, Op, Outcome, eventually, secs};

/// Longer than a node may take to answer.
const ANSWER_MAX: Duration = secs(12);

/// The pause between two requests of one client. The machine has other work, too.
const PAUSE: Duration = Duration::from_millis(6);
/// The pause after a request that reached no node.
const PAUSE_WHEN_LOST: Duration = Duration::from_millis(20);

/// Clients that take ids of all `tags` from all nodes until they are stopped.
#[derive(Debug)]
pub struct Load {
    stopping: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<Op>>>,
}

impl Load {
    /// Starts `clients` clients on each of `nodes`.
    pub fn start(nodes: &[(u64, SocketAddr)], tags: &[String], clients: usize) -> Self {
        Self::of(nodes, tags, clients, path)
    }

    /// The same for snowflake ids.
    pub fn of_snowflakes(nodes: &[(u64, SocketAddr)], clients: usize) -> Self {
        Self::of(nodes, &[], clients, snowflake_path)
    }

    fn of(
        nodes: &[(u64, SocketAddr)],
        tags: &[String],
        clients: usize,
        path: fn(&str, usize) -> String,
    ) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let taken = Arc::new(AtomicU64::new(0));
        let tags: Arc<[String]> = tags.into();
        let mut running = Vec::new();
        for &(node, address) in nodes {
            for number in 0..clients {
                let client = Taker {
                    number: running.len() as u32,
                    node,
                    address,
                    client: Client::default(),
                    tags: Arc::clone(&tags),
                    path,
                    turn: number * tags.len() / clients,
                    stopping: Arc::clone(&stopping),
                    taken: Arc::clone(&taken),
                };
                running.push(runtime().spawn(client.run()));
            }
        }
        Self { stopping, taken, clients: running }
    }

    /// Waits until this many more requests have received ids.
    pub fn await_more(&self, requests: u64) {
        let goal = self.taken.load(Ordering::Relaxed) + requests;
        eventually("the load to go on", secs(30), || {
            (self.taken.load(Ordering::Relaxed) >= goal).then_some(())
        });
    }

    /// Lets every client finish its last request.
    pub fn stop(self) -> History {
        self.stopping.store(true, Ordering::Relaxed);
        runtime().block_on(async {
            let mut ops = Vec::new();
            for client in self.clients {
                ops.extend(client.await.unwrap());
            }
            History(ops)
        })
    }
}

/// One client of one node.
struct Taker {
    number: u32,
    node: u64,
    address: SocketAddr,
    client: Client,
    tags: Arc<[String]>,
    /// The path of the request for a tag in this turn.
    path: fn(&str, usize) -> String,
    turn: usize,
    stopping: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
}

impl Taker {
    async fn run(mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        while !self.stopping.load(Ordering::Relaxed) {
            let tag = self.turn.checked_rem(self.tags.len());
            let path = (self.path)(tag.map_or("any", |tag| &self.tags[tag]), self.turn);
            self.turn += 1;
            let began = Instant::now();
            let asked = self.client.ask(self.address, Method::GET, &path, None, ANSWER_MAX);
            let outcome = match asked.await {
                Ok(answer) if answer.status == 200 => {
                    let given = answer.intervals();
                    Outcome::Ids(given.unwrap_or_else(|| panic!("no ids: {answer:?}")))
                }
                Ok(answer) => Outcome::Refused(answer.status),
                Err(_) => Outcome::Lost,
            };
            let pause = match outcome {
                Outcome::Ids(_) => PAUSE,
                Outcome::Refused(_) | Outcome::Lost => PAUSE_WHEN_LOST,
            };
            self.taken.fetch_add(u64::from(pause == PAUSE), Ordering::Relaxed);
            let (client, node, ended) = (self.number, self.node, Instant::now());
            ops.push(Op { client, tag, node, boot: None, began, ended, outcome });
            tokio::time::sleep(pause).await;
        }
        ops
    }
}

/// Single ids on both interfaces, sometimes a few, rarely many.
fn path(tag: &str, turn: usize) -> String {
    match turn % 31 {
        7 => format!("/v1/segment/{tag}?count=9"),
        19 => format!("/v1/segment/{tag}?count=70&format=ranges"),
        odd if odd % 2 == 1 => format!("/v1/segment/{tag}"),
        _ => format!("/api/segment/get/{tag}"),
    }
}

/// The same for snowflake ids. Many are more than one millisecond has.
fn snowflake_path(key: &str, turn: usize) -> String {
    match turn % 31 {
        7 => "/v1/snowflake?count=30".to_owned(),
        19 => "/v1/snowflake?count=9000&format=ranges".to_owned(),
        odd if odd % 2 == 1 => "/v1/snowflake".to_owned(),
        _ => format!("/api/snowflake/get/{key}"),
    }
}

/// A client that creates one tag after another, each at the next node, and rests in between.
#[derive(Debug)]
pub struct TagWriter {
    stopping: Arc<AtomicBool>,
    task: JoinHandle<Vec<String>>,
}

impl TagWriter {
    /// Starts it. It rests for `pause` between two tags.
    pub fn start(nodes: &[(u64, SocketAddr)], pause: Duration) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopping);
        let addresses: Vec<_> = nodes.iter().map(|&(_, address)| address).collect();
        let client = Client::default();
        let task = runtime().spawn(async move {
            let mut acknowledged = Vec::new();
            let mut number = 0;
            while !seen.load(Ordering::Relaxed) {
                let tag = format!("written-{number}");
                let turn = number % addresses.len();
                number += 1;
                let body = json!({ "tag": tag, "step": 7 });
                let create =
                    client.ask(addresses[turn], Method::POST, "/v1/tags", Some(&body), ANSWER_MAX);
                if let Ok(Answer { status: 201, .. }) = create.await {
                    acknowledged.push(tag);
                }
                tokio::time::sleep(pause).await;
            }
            acknowledged
        });
        Self { stopping, task }
    }

    /// Stops, and returns the tags whose creation was acknowledged.
    pub fn stop(self) -> Vec<String> {
        self.stopping.store(true, Ordering::Relaxed);
        runtime().block_on(self.task).unwrap()
    }
}
