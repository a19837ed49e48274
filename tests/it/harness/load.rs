//! Clients that never rest, and remember everything.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::history::{History, Op, Outcome};
use super::http::{Connection, runtime};
use super::{Answer, eventually, secs};

/// Between two requests of one client: the machine has other things to do.
const PAUSE: Duration = Duration::from_millis(2);
/// After a request that found nobody.
const PAUSE_WHEN_LOST: Duration = Duration::from_millis(20);

/// Clients that take ids of all `tags` from all nodes until they are stopped.
pub(crate) struct Load {
    stopping: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<Op>>>,
}

impl Load {
    /// Starts `clients` clients on each of `nodes`.
    pub(crate) fn start(nodes: &[(u64, SocketAddr)], tags: &[String], clients: usize) -> Self {
        Self::of(nodes, tags, clients, path)
    }

    /// The same, of snowflake ids, as if they were one tag's.
    pub(crate) fn of_snowflakes(nodes: &[(u64, SocketAddr)], clients: usize) -> Self {
        Self::of(nodes, &["snowflake".to_owned()], clients, snowflake_path)
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
                let client = Client {
                    node,
                    connection: Connection::new(address),
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

    /// Waits until so many more requests were granted.
    pub(crate) fn await_more(&self, requests: u64) {
        let goal = self.taken.load(Ordering::Relaxed) + requests;
        eventually("the load to go on", secs(30), || {
            (self.taken.load(Ordering::Relaxed) >= goal).then_some(())
        });
    }

    /// Lets every client finish its last request.
    pub(crate) fn stop(self) -> History {
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

struct Client {
    node: u64,
    connection: Connection,
    tags: Arc<[String]>,
    /// What is asked of a tag in this turn.
    path: fn(&str, usize) -> String,
    turn: usize,
    stopping: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
}

impl Client {
    async fn run(mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        while !self.stopping.load(Ordering::Relaxed) {
            let tag = self.turn % self.tags.len();
            let path = (self.path)(&self.tags[tag], self.turn);
            self.turn += 1;
            let began = Instant::now();
            let outcome = match self.connection.get(&path).await {
                Ok(answer) if answer.status == 200 => Outcome::Ids(ranges(&answer)),
                Ok(answer) => Outcome::Refused(answer.status),
                Err(_) => Outcome::Lost,
            };
            let pause = match outcome {
                Outcome::Ids(_) => PAUSE,
                Outcome::Refused(_) | Outcome::Lost => PAUSE_WHEN_LOST,
            };
            self.taken.fetch_add(u64::from(pause == PAUSE), Ordering::Relaxed);
            ops.push(Op { tag, node: self.node, began, ended: Instant::now(), outcome });
            tokio::time::sleep(pause).await;
        }
        ops
    }
}

/// Single ids on both interfaces, now and then a few, seldom many.
fn path(tag: &str, turn: usize) -> String {
    match turn % 31 {
        7 => format!("/v1/segment/{tag}?count=9"),
        19 => format!("/v1/segment/{tag}?count=70&format=ranges"),
        odd if odd % 2 == 1 => format!("/v1/segment/{tag}"),
        _ => format!("/api/segment/get/{tag}"),
    }
}

/// The same of snowflake ids; many are more than one millisecond has.
fn snowflake_path(key: &str, turn: usize) -> String {
    match turn % 31 {
        7 => "/v1/snowflake?count=30".to_owned(),
        19 => "/v1/snowflake?count=9000&format=ranges".to_owned(),
        odd if odd % 2 == 1 => "/v1/snowflake".to_owned(),
        _ => format!("/api/snowflake/get/{key}"),
    }
}

fn ranges(answer: &Answer) -> Vec<Range<u64>> {
    let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    if answer.header("content-type").starts_with("text/plain") {
        let id: u64 = answer.text().parse().unwrap();
        return std::iter::once(id..id + 1).collect();
    }
    let body = answer.json();
    if let Some(ranges) = body["ranges"].as_array() {
        return ranges.iter().map(|r| number(&r["start"])..number(&r["end"])).collect();
    }
    let ids = body["ids"].as_array().unwrap().iter().map(number);
    ids.map(|id| id..id + 1).collect()
}

/// A client that creates one tag after another, each on the next node, and rests in between.
pub(crate) struct TagWriter {
    stopping: Arc<AtomicBool>,
    task: JoinHandle<Vec<String>>,
}

impl TagWriter {
    pub(crate) fn start(nodes: &[(u64, SocketAddr)], pause: Duration) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopping);
        let mut connections: Vec<_> =
            nodes.iter().map(|&(_, address)| Connection::new(address)).collect();
        let task = runtime().spawn(async move {
            let mut acknowledged = Vec::new();
            let mut number = 0;
            while !seen.load(Ordering::Relaxed) {
                let tag = format!("written-{number}");
                let turn = number % connections.len();
                number += 1;
                let body = json!({ "tag": tag, "step": 7 });
                if let Ok(Answer { status: 201, .. }) =
                    connections[turn].post("/v1/tags", &body).await
                {
                    acknowledged.push(tag);
                }
                tokio::time::sleep(pause).await;
            }
            acknowledged
        });
        Self { stopping, task }
    }

    /// Stops, and returns the tags whose creation was acknowledged.
    pub(crate) fn stop(self) -> Vec<String> {
        self.stopping.store(true, Ordering::Relaxed);
        runtime().block_on(self.task).unwrap()
    }
}
