//! Clients of the load balancer: they use HTTP and the Redis protocol, they change tags, and they record what
//! they receive.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::proxy::{Backend, Proxy};
use crate::harness::{Answer, Client, command, eventually, ms, secs};

/// The pause between two requests of one client. The machine has other work, too.
const PAUSE: Duration = ms(10);
/// The pause between two changes. Most answers of a cluster are ids.
const WRITE_PAUSE: Duration = ms(30);
/// The highest load of a machine where nodes reliably hear each other in time. Three nodes and their clients
/// cause less.
const PROCESSES_PER_CORE_MAX: f64 = 4.0;
const ANSWER_MAX: Duration = secs(15);
/// The paths of a client, in turn: ids of a tag from the fast path and from the code behind it; a tag; snowflakes.
const PATHS: [&str; 4] =
    ["/api/segment/get/orders", "/v1/segment/orders?count=3", "/v1/tags/orders", "/v1/snowflake"];

/// How many clients there are of each protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) http: usize,
    pub(crate) resp: usize,
}

/// What clients have observed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    ids: Vec<u64>,
    snowflakes: Vec<u64>,
    /// Connections of the Redis protocol that were opened again.
    pub(crate) reconnected: u64,
    failures: Vec<String>,
    /// Requests that were refused in time because there was no quorum.
    unavailable: Vec<String>,
}

impl Seen {
    /// Fails unless every request was answered, and no id was given twice. If other processes overload the
    /// machine, nodes may not hear each other within the time of an election, and lose their quorum. Then a
    /// message is printed.
    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(self.failures.is_empty(), "{} failures: {:#?}", self.failures.len(), self.failures);
        let count = self.unavailable.len();
        if let Some(overload) = overload().filter(|_| count > 0) {
            let line =
                format!("SKIPPED: {count} requests found no quorum on a machine of {overload}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        } else {
            assert!(count == 0, "{count} found no quorum: {:#?}", self.unavailable);
        }
        for (kind, ids) in [("tag", &self.ids), ("snowflake", &self.snowflakes)] {
            let distinct: BTreeSet<u64> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len(), "a {kind} id was given twice");
            assert!(!ids.is_empty(), "no {kind} id was given");
        }
    }

    fn add(&mut self, other: Self) {
        self.ids.extend(other.ids);
        self.snowflakes.extend(other.snowflakes);
        self.reconnected += other.reconnected;
        self.failures.extend(other.failures);
        self.unavailable.extend(other.unavailable);
    }

    /// Records an answer that lacks what was asked for.
    fn refuse(&mut self, turn: &Turn, request: &str, answer: &Answer) {
        let told = format!("{request}: {answer:?}");
        let code = answer.try_json().map(|problem| problem["code"].clone());
        if code.is_some_and(|code| code == "unavailable") {
            turn.counts.failed.fetch_add(1, Relaxed);
            self.unavailable.push(told);
        } else {
            self.fail(turn, told);
        }
    }

    /// Records the ids in the answer to a path.
    fn note(&mut self, path: &str, answer: &Answer) {
        let kind = match path {
            "/v1/snowflake" => &mut self.snowflakes,
            path if path.contains("segment") => &mut self.ids,
            _ => return,
        };
        let given = answer.intervals().unwrap();
        kind.extend(given.into_iter().flat_map(|(start, end)| start..end));
    }

    fn fail(&mut self, turn: &Turn, failure: String) {
        turn.counts.failed.fetch_add(1, Relaxed);
        self.failures.push(failure);
    }
}

/// The load of the machine, if too many processes want to run on each core.
pub(crate) fn overload() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = thread::available_parallelism().ok()?.get();
    let too_many = load > PROCESSES_PER_CORE_MAX * cores as f64;
    too_many.then(|| format!("{cores} cores, with a load of {load}"))
}

/// The sums over all clients since the last query.
#[derive(Debug, Default)]
pub(super) struct Tally {
    answered: u64,
    failed: u64,
    pub(super) slowest_write: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.slowest_write = self.slowest_write.max(other.slowest_write);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, failed, slowest_write } = self;
        let ms = slowest_write.as_millis();
        write!(f, "{answered} answers, {failed} failed, slowest write {ms} ms")
    }
}

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
    slowest_write_us: AtomicU64,
}

/// The clients, and the load balancer in front of them.
pub(crate) struct Clients {
    runtime: Runtime,
    stopping: Arc<AtomicBool>,
    counts: Arc<Counts>,
    running: Vec<JoinHandle<Seen>>,
    proxy: Proxy,
}

impl Clients {
    /// Starts them, once the load balancer sends requests to every node.
    pub(super) fn start(backends: Vec<Backend>, crowd: Crowd) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let proxy = runtime.block_on(Proxy::start(backends));
        let (http, resp) = (proxy.http, proxy.resp);
        let (stopping, counts) = (Arc::default(), Arc::default());
        let mut clients = Self { runtime, stopping, counts, running: Vec::new(), proxy };
        clients.await_rotation();
        for number in 0..crowd.http {
            clients.spawn(|turn| ask_over_http(http, number, turn));
        }
        for _ in 0..crowd.resp {
            clients.spawn(|turn| ask_over_resp(resp, turn));
        }
        clients.spawn(|turn| write(http, turn));
        clients
    }

    fn spawn<F: Future<Output = Seen> + Send + 'static>(&mut self, client: impl Fn(Turn) -> F) {
        let turn = Turn { stopping: Arc::clone(&self.stopping), counts: Arc::clone(&self.counts) };
        self.running.push(self.runtime.spawn(client(turn)));
    }

    /// Waits until the load balancer sends requests to every node.
    pub(crate) fn await_rotation(&self) {
        eventually("every node to be in rotation", secs(20), || {
            self.proxy.finds_all_ready().then_some(())
        });
    }

    /// Waits until this many more requests were answered.
    pub(crate) fn await_more(&self, requests: u64) {
        let answered = || self.counts.answered.load(Relaxed);
        let goal = answered() + requests;
        eventually("clients to be answered", secs(60), || (answered() >= goal).then_some(()));
    }

    /// The sums since the last query.
    pub(super) fn tally(&self) -> Tally {
        let Counts { answered, failed, slowest_write_us } = &*self.counts;
        Tally {
            answered: answered.swap(0, Relaxed),
            failed: failed.swap(0, Relaxed),
            slowest_write: Duration::from_micros(slowest_write_us.swap(0, Relaxed)),
        }
    }

    /// Lets every client finish.
    pub(crate) fn stop(self) -> Seen {
        self.stopping.store(true, Relaxed);
        let mut all = Seen::default();
        for client in self.running {
            all.add(self.runtime.block_on(client).unwrap());
        }
        all
    }
}

/// Whether a client goes on, and where it counts.
struct Turn {
    stopping: Arc<AtomicBool>,
    counts: Arc<Counts>,
}

impl Turn {
    /// Rests, and returns whether to go on.
    async fn after(&self, pause: Duration) -> bool {
        sleep(pause).await;
        !self.stopping.load(Relaxed)
    }

    fn answered(&self) {
        self.counts.answered.fetch_add(1, Relaxed);
    }
}

/// One client with one connection that it keeps.
async fn ask_over_http(proxy: SocketAddr, number: usize, turn: Turn) -> Seen {
    let (client, mut seen) = (Client::default(), Seen::default());
    let mut request = number;
    while turn.after(PAUSE).await {
        request += 1;
        let path = PATHS[request % PATHS.len()];
        match client.ask(proxy, Method::GET, path, None, ANSWER_MAX).await {
            Ok(answer) if answer.status == 200 => {
                turn.answered();
                seen.note(path, &answer);
            }
            Ok(answer) => seen.refuse(&turn, &format!("GET {path}"), &answer),
            Err(error) => seen.fail(&turn, format!("GET {path}: {error}")),
        }
    }
    seen
}

/// One client of the Redis protocol, which connects again when its connection has ended.
async fn ask_over_resp(proxy: SocketAddr, turn: Turn) -> Seen {
    let (incr, mut seen) = (command("INCR orders"), Seen::default());
    let mut connection: Option<BufReader<TcpStream>> = None;
    while turn.after(PAUSE).await {
        let stream = match &mut connection {
            Some(stream) => stream,
            None => connection.insert(BufReader::new(TcpStream::connect(proxy).await.unwrap())),
        };
        let mut reply = String::new();
        let sent = stream.get_mut().write_all(&incr).await;
        let read = if sent.is_ok() { stream.read_line(&mut reply).await } else { Ok(0) };
        match (read, reply.strip_prefix(':').and_then(|rest| rest.strip_suffix("\r\n"))) {
            (Ok(_), Some(id)) => {
                turn.answered();
                seen.ids.push(id.parse().unwrap());
            }
            // The connection ended between two commands.
            _ if reply.is_empty() => {
                seen.reconnected += 1;
                connection = None;
            }
            _ => seen.fail(&turn, format!("INCR: {reply:?}")),
        }
    }
    seen
}

/// One client that repeatedly creates a tag and changes it.
async fn write(proxy: SocketAddr, turn: Turn) -> Seen {
    let (client, mut seen) = (Client::default(), Seen::default());
    let mut number = 0_u32;
    while turn.after(WRITE_PAUSE).await {
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
                    turn.answered();
                    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    turn.counts.slowest_write_us.fetch_max(took, Relaxed);
                }
                Ok(answer) => {
                    seen.refuse(&turn, &format!("{method} {path}"), &answer);
                    break; // There may be no tag to change.
                }
                Err(error) => {
                    seen.fail(&turn, format!("{method} {path}: {error}"));
                    break;
                }
            }
        }
    }
    seen
}
