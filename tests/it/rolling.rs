//! Three nodes rolled one after another behind a load balancer that obeys `/readyz`: no request over HTTP fails, no
//! command of the Redis protocol is answered with an error, and no id is given twice.
//!
//! `MINTLEAF_ROLLS` is how often all three are rolled, `MINTLEAF_WRITE_MS_MAX` how long the slowest write may take;
//! `scripts/roll` sets both.

mod proxy;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::proxy::{Backend, Proxy};
use crate::harness::{Client, Cluster, Port, command, eventually, from_env, mintleaf, ms, secs};

const HTTP_CLIENTS: usize = 64;
const RESP_CLIENTS: usize = 16;
/// How long each node drains: half of it is five looks of the proxy.
const DRAIN: &str = "1s";
/// Between two requests of one client: the machine has other things to do.
const PAUSE: Duration = ms(10);
const ANSWER_MAX: Duration = secs(15);
/// The slowest write where nothing else is said: machines that build and test at the same time sync slowly.
const WRITE_MS_MAX: u64 = 5_000;

/// What clients have seen.
#[derive(Debug, Default)]
struct Seen {
    ids: Vec<u64>,
    answered: u64,
    /// Connections of the Redis protocol that were opened again.
    reconnected: u64,
    failures: Vec<String>,
    slowest_write: Duration,
}

struct Clients {
    runtime: Runtime,
    stopping: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    running: Vec<JoinHandle<Seen>>,
    proxy: Proxy,
}

impl Clients {
    fn start(backends: Vec<Backend>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let proxy = runtime.block_on(Proxy::start(backends));
        await_rotation(&proxy);
        let (stopping, answered) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicU64>::default());
        let turn = || Turn { stopping: Arc::clone(&stopping), answered: Arc::clone(&answered) };
        let (http, resp) = (proxy.http, proxy.resp);
        let mut running = Vec::new();
        running.extend((0..HTTP_CLIENTS).map(|n| runtime.spawn(ask_over_http(http, n, turn()))));
        running.extend((0..RESP_CLIENTS).map(|_| runtime.spawn(ask_over_resp(resp, turn()))));
        running.push(runtime.spawn(write(http, turn())));
        Self { runtime, stopping, answered, running, proxy }
    }

    /// Waits until so many more requests were answered.
    fn await_more(&self, requests: u64) {
        let goal = self.answered.load(Relaxed) + requests;
        eventually("clients to be answered", secs(60), || {
            (self.answered.load(Relaxed) >= goal).then_some(())
        });
    }

    /// Lets every client finish.
    fn stop(self) -> Seen {
        self.stopping.store(true, Relaxed);
        let mut all = Seen::default();
        for client in self.running {
            let seen = self.runtime.block_on(client).unwrap();
            all.ids.extend(seen.ids);
            all.answered += seen.answered;
            all.reconnected += seen.reconnected;
            all.failures.extend(seen.failures);
            all.slowest_write = all.slowest_write.max(seen.slowest_write);
        }
        all
    }
}

/// Waits until the proxy sends requests to every node.
fn await_rotation(proxy: &Proxy) {
    eventually("every node to be in rotation", secs(20), || proxy.finds_all_ready().then_some(()));
}

/// Whether a client goes on.
struct Turn {
    stopping: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Turn {
    async fn next(&self) -> bool {
        self.answered.fetch_add(1, Relaxed);
        sleep(PAUSE).await;
        !self.stopping.load(Relaxed)
    }
}

/// One client with one connection that it keeps: ids of a tag by turns from the fast path, from what is behind it, and
/// reads.
async fn ask_over_http(proxy: SocketAddr, number: usize, turn: Turn) -> Seen {
    let (client, mut seen) = (Client::default(), Seen::default());
    let paths = [
        "/api/segment/get/orders",
        "/v1/segment/orders?count=3",
        "/v1/tags/orders",
        "/v1/snowflake",
    ];
    let mut request = number;
    while turn.next().await {
        request += 1;
        let path = paths[request % paths.len()];
        match client.ask(proxy, Method::GET, path, None, ANSWER_MAX).await {
            Ok(answer) if answer.status == 200 => {
                seen.answered += 1;
                if path.contains("segment") {
                    let given = answer.intervals().unwrap();
                    seen.ids.extend(given.into_iter().flat_map(|(start, end)| start..end));
                }
            }
            Ok(answer) => seen.failures.push(format!("GET {path}: {answer:?}")),
            Err(error) => seen.failures.push(format!("GET {path}: {error}")),
        }
    }
    seen
}

/// One client of the Redis protocol, which connects again when its connection has ended.
async fn ask_over_resp(proxy: SocketAddr, turn: Turn) -> Seen {
    let (incr, mut seen) = (command("INCR orders"), Seen::default());
    let mut connection: Option<BufReader<TcpStream>> = None;
    while turn.next().await {
        let stream = match &mut connection {
            Some(stream) => stream,
            None => connection.insert(BufReader::new(TcpStream::connect(proxy).await.unwrap())),
        };
        let mut reply = String::new();
        let sent = stream.get_mut().write_all(&incr).await;
        let read = if sent.is_ok() { stream.read_line(&mut reply).await } else { Ok(0) };
        match (read, reply.strip_prefix(':').and_then(|rest| rest.strip_suffix("\r\n"))) {
            (Ok(_), Some(id)) => {
                seen.answered += 1;
                seen.ids.push(id.parse().unwrap());
            }
            // The connection has ended between two commands.
            _ if reply.is_empty() => {
                seen.reconnected += 1;
                connection = None;
            }
            _ => seen.failures.push(format!("INCR: {reply:?}")),
        }
    }
    seen
}

/// One client that creates a tag, and changes it, again and again.
async fn write(proxy: SocketAddr, turn: Turn) -> Seen {
    let (client, mut seen) = (Client::default(), Seen::default());
    let mut number = 0_u32;
    while turn.next().await {
        number += 1;
        let tag = format!("written-{number}");
        let (create, change) = (json!({ "tag": tag, "step": 7 }), json!({ "step": 8 }));
        let path = format!("/v1/tags/{tag}");
        for (method, path, body) in
            [(Method::POST, "/v1/tags", create), (Method::PATCH, path.as_str(), change)]
        {
            let began = Instant::now();
            match client.ask(proxy, method.clone(), path, Some(&body), ANSWER_MAX).await {
                Ok(answer) if answer.is_ok() => {
                    seen.answered += 1;
                    seen.slowest_write = seen.slowest_write.max(began.elapsed());
                }
                Ok(answer) => seen.failures.push(format!("{method} {path}: {answer:?}")),
                Err(error) => seen.failures.push(format!("{method} {path}: {error}")),
            }
        }
    }
    seen
}

fn rolling_cluster() -> (Cluster, Vec<Backend>, Vec<Port>) {
    let mut cluster = mintleaf().prepare(3, &["--drain", DRAIN]);
    let ports: Vec<Port> = (1..=3).map(|_| Port::claim()).collect();
    for (id, port) in (1..).zip(&ports) {
        cluster.add_flag(id, "--resp", port.addr().to_string());
    }
    cluster.start_all();
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 100 })).ok();
    let backends = cluster.targets().into_iter().zip(&ports);
    let backends = backends.map(|((_, http), port)| Backend { http, resp: port.addr() }).collect();
    (cluster, backends, ports)
}

#[test]
fn nodes_that_are_rolled_behind_a_load_balancer_fail_nobody() {
    let (mut cluster, backends, _ports) = rolling_cluster();
    let clients = Clients::start(backends);
    clients.await_more(500);
    for _ in 0..from_env("MINTLEAF_ROLLS", 1) {
        for id in cluster.ids() {
            cluster.stop(id);
            cluster.start_node(id);
            cluster.await_ready();
            await_rotation(&clients.proxy);
            clients.await_more(200);
        }
    }
    let seen = clients.stop();
    let (answered, reconnected, slowest) = (seen.answered, seen.reconnected, seen.slowest_write);
    println!("{answered} answers, {reconnected} new connections, slowest write {slowest:?}");
    assert!(seen.failures.is_empty(), "{} failures: {:#?}", seen.failures.len(), seen.failures);
    let distinct: BTreeSet<u64> = seen.ids.iter().copied().collect();
    assert_eq!(distinct.len(), seen.ids.len(), "an id was given twice");
    let write_max = ms(from_env("MINTLEAF_WRITE_MS_MAX", WRITE_MS_MAX));
    assert!(slowest <= write_max, "the slowest write took {slowest:?}");
}
