//! A load balancer that obeys `/readyz`. It checks every 100 ms, sends a request once, and tries another node
//! only if it could not reach the first at all.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::harness::{Client, NoAnswer, secs};

/// Time between two checks of a node.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A node that does not answer a check within this time is not ready.
const CHECK_MAX: Duration = secs(3);
/// Longer than a node may take to answer.
const ANSWER_MAX: Duration = secs(12);

/// One node behind the proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backend {
    pub(super) http: SocketAddr,
    pub(super) resp: SocketAddr,
}

/// The proxy. Dropping this ends it.
pub(super) struct Proxy {
    pub(super) http: SocketAddr,
    pub(super) resp: SocketAddr,
    rotation: Arc<Rotation>,
    _tasks: JoinSet<()>,
}

/// Which nodes are ready, and which is next.
struct Rotation {
    backends: Vec<Backend>,
    ready: Mutex<Vec<bool>>,
    turn: AtomicUsize,
}

impl Rotation {
    /// The ready nodes, starting with the one whose turn it is.
    fn ready(&self) -> Vec<Backend> {
        let ready = self.ready.lock().clone();
        let turn = self.turn.fetch_add(1, Relaxed);
        let count = self.backends.len();
        (0..count)
            .map(|n| (n + turn) % count)
            .filter(|&n| ready[n])
            .map(|n| self.backends[n])
            .collect()
    }

    /// Checks one node for ever.
    async fn watch(self: Arc<Self>, number: usize) {
        let (client, mut looks) = (Client::default(), interval(CHECK_INTERVAL));
        let node = self.backends[number].http;
        loop {
            looks.tick().await;
            let asked = client.ask(node, Method::GET, "/readyz", None, CHECK_MAX).await;
            self.ready.lock()[number] = asked.is_ok_and(|answer| answer.status == 200);
        }
    }
}

impl Proxy {
    /// Starts it in front of these nodes.
    pub(super) async fn start(backends: Vec<Backend>) -> Self {
        let ready = Mutex::new(vec![false; backends.len()]);
        let rotation = Arc::new(Rotation { backends, ready, turn: AtomicUsize::new(0) });
        let mut tasks = JoinSet::new();
        for number in 0..rotation.backends.len() {
            tasks.spawn(Arc::clone(&rotation).watch(number));
        }
        let [http, resp] = [listen().await, listen().await];
        let addresses = [&http, &resp].map(|listener| listener.local_addr().unwrap());
        tasks.spawn(serve_http(http, Arc::clone(&rotation)));
        tasks.spawn(serve_resp(resp, Arc::clone(&rotation)));
        Self { http: addresses[0], resp: addresses[1], rotation, _tasks: tasks }
    }

    /// Whether it found every node ready at its last check.
    pub(super) fn finds_all_ready(&self) -> bool {
        self.rotation.ready.lock().iter().all(|&ready| ready)
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Keeps the connections of clients, and sends each request to a node that is ready.
async fn serve_http(listener: TcpListener, rotation: Arc<Rotation>) {
    let (client, mut connections) = (Client::default(), JoinSet::new());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (client, rotation) = (client.clone(), Arc::clone(&rotation));
        connections.spawn(async move {
            let answer = service_fn(|request| pass_on(request, &client, &rotation));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn pass_on(
    request: Request<Incoming>,
    client: &Client,
    rotation: &Rotation,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut failure = "no node is ready".to_owned();
    for node in rotation.ready() {
        let mut request = Request::new(Full::new(body.clone()));
        (*request.method_mut(), *request.uri_mut()) = (head.method.clone(), head.uri.clone());
        *request.headers_mut() = head.headers.clone();
        match client.send(node.http, request, ANSWER_MAX).await {
            Ok(answer) => {
                let mut passed = Response::new(Full::new(answer.body));
                *passed.status_mut() = answer.status.try_into().unwrap();
                return Ok(passed);
            }
            Err(NoAnswer::Unreached(why)) => failure = format!("{}: {why}", node.http),
            Err(NoAnswer::Lost(why)) => {
                failure = format!("{}: {why}", node.http);
                break;
            }
        }
    }
    let mut failed = Response::new(Full::new(Bytes::from(failure)));
    *failed.status_mut() = hyper::StatusCode::BAD_GATEWAY;
    Ok(failed)
}

/// Joins each connection of a client with one to a node that is ready.
async fn serve_resp(listener: TcpListener, rotation: Arc<Rotation>) {
    let mut connections = JoinSet::new();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        client.set_nodelay(true).unwrap();
        let rotation = Arc::clone(&rotation);
        connections.spawn(async move {
            for node in rotation.ready() {
                let Ok(Ok(mut node)) = timeout(secs(1), TcpStream::connect(node.resp)).await else {
                    continue;
                };
                node.set_nodelay(true).unwrap();
                let _ = copy_bidirectional(&mut client, &mut node).await;
                return;
            }
        });
    }
}
