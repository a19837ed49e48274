//! Sockets and threads of the client side: an acceptor for each address, one worker per core.
//!
//! Each worker runs its own single-threaded runtime, so a request never moves between threads, and the Raft runtime
//! never competes with id traffic for a queue. Each acceptor deals its connections out in turn. HTTP and the Redis
//! protocol share the workers, but each has a separate limit of connections. (Several sockets on one port would spare
//! the acceptor, but would also let a second process share the port in silence.)
//!
//! ```text
//! listener     ports and workers
//!   acceptor   accepts, deals out, turns away
//!     places   which connections hold places, and which make room
//! ```

mod acceptor;
mod places;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};

use self::acceptor::{Accepted, Acceptor};
use self::places::ConnectionLimits;
pub(crate) use self::places::LEAVING_MAX;
use crate::access::{AccessPolicy, Tokens};
use crate::connection::drain::{self, Drain, DrainPhase, DrainSender};
use crate::connection::tls::{self, ClientStream, ClientTls, Handshake, Handshakes, Terms};
use crate::connection::watchdog::{CloseReason, Progress};
use crate::http::{self, Dispatch};
use crate::limits::{CONNECTIONS_MAX, DRAIN_MAX, UNSENT_BYTES_MAX};
use crate::metrics::Protocol;
use crate::resp;
use crate::service::Services;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Connections that may wait for one worker.
const HANDOVER_MAX: usize = 256;

/// How many clients a node serves, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct ClientCapacity {
    /// Threads that answer requests.
    pub workers: NonZeroUsize,
    /// Open connections of each protocol; one more gets an error and is closed.
    pub connections_max: usize,
}

impl Default for ClientCapacity {
    /// A worker for each core, and 10,000 connections of each protocol.
    fn default() -> Self {
        let workers = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { workers, connections_max: CONNECTIONS_MAX }
    }
}

/// A bound address that no connection is accepted on yet.
#[derive(Debug)]
pub struct ClientPort {
    listener: TcpListener,
    local_addr: SocketAddr,
}

impl ClientPort {
    /// Binds `addr`; port 0 takes a free one. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// The errors of binding: the port is taken, the address is not this machine's, or the like.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // The option only spares a restart the wait for old connections; it does not share a live port.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?.into_std()?;
        bound_kernel_buffers(&listener)?;
        let local_addr = listener.local_addr()?;
        Ok(Self { listener, local_addr })
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

/// Has the kernel buffer no more than [`UNSENT_BYTES_MAX`] of each accepted connection that it cannot send yet.
/// Otherwise it takes megabytes for a client that does not read, and the node cannot see how long they wait.
fn bound_kernel_buffers(listener: &TcpListener) -> io::Result<()> {
    // Other systems have no such bound.
    #[cfg(target_os = "linux")]
    SockRef::from(listener).set_tcp_notsent_lowat(UNSENT_BYTES_MAX as u32)?;
    let _ = listener;
    Ok(())
}

/// Where clients are served, and how.
#[derive(Debug)]
pub struct ClientPorts {
    /// Where HTTP is spoken.
    pub http: ClientPort,
    /// Where the Redis protocol is spoken, if anywhere.
    pub resp: Option<ClientPort>,
    /// The node's credentials, at any time; `None`: neither port speaks TLS.
    pub tls: Option<watch::Receiver<Arc<ClientTls>>>,
}

/// Starts to answer on the ports, on new threads, behind `doors`. Returns once every worker has read the clock.
///
/// # Errors
/// The errors of starting threads, and an error where the clock was set before 1970 in these moments.
pub async fn start(
    ports: ClientPorts,
    capacity: ClientCapacity,
    doors: AccessPolicy,
    services: &Services,
) -> io::Result<RunningServer> {
    let ClientPorts { http, resp, tls } = ports;
    let (drain_sender, drain) = drain::drain();
    let (running, stopped) = mpsc::channel(1);
    let tokens = doors.tokens.clone();
    let asks_for_tokens = tokens.is_some();
    let dispatch = Dispatch::new(services.clone(), doors);
    let handshakes = Arc::default();
    let served = Served { services: services.clone(), dispatch, tokens, tls, handshakes };
    let mut workers = Vec::with_capacity(capacity.workers.get());
    let mut readings = Vec::with_capacity(capacity.workers.get());
    for number in 0..capacity.workers.get() {
        let (handover, accepted) = mpsc::channel(HANDOVER_MAX);
        let served = Served { handshakes: Arc::default(), ..served.clone() };
        let (drain, running) = (drain.clone(), running.clone());
        let (read_clock, reading) = oneshot::channel();
        on_thread(&format!("{CLIENT_THREADS}{number}"), async move {
            // The clock that the node checked may be set to anything once clients are served.
            http::date_cache::fill().await;
            let _ = read_clock.send(());
            work(accepted, served, drain).await;
            drop(running);
        })?;
        workers.push(handover);
        readings.push(reading);
    }
    for reading in readings {
        // A worker that could not read the clock has panicked, and would leave its connections without an answer.
        reading
            .await
            .map_err(|_| io::Error::other("a worker could not read the machine's clock"))?;
    }
    let ports = [(Protocol::Http, Some(http)), (Protocol::Resp, resp)];
    for (protocol, port) in ports {
        let Some(ClientPort { listener, .. }) = port else { continue };
        listener.set_nonblocking(true)?;
        let places = ConnectionLimits::new(capacity.connections_max, asks_for_tokens);
        let acceptor = Acceptor::new(protocol, workers.clone(), places, services.clone());
        let (drain, running) = (drain.clone(), running.clone());
        on_thread(&format!("accept-{}", protocol.name()), async move {
            acceptor.run(listener, drain).await;
            drop(running);
        })?;
    }
    Ok(RunningServer { drain: drain_sender, stopped })
}

/// A server that answers. Dropping it stops it as [`RunningServer::shutdown`] does, without waiting for
/// the end.
#[derive(Debug)]
pub struct RunningServer {
    drain: DrainSender,
    stopped: mpsc::Receiver<Infallible>,
}

impl RunningServer {
    /// Goes on to a phase of the end; [`RunningServer::shutdown`] is the last one.
    pub(crate) fn enter(&self, phase: DrainPhase) {
        self.drain.enter(phase);
    }

    /// Accepts no more connections, lets requests in flight finish for up to five seconds, and returns
    /// when the last thread has ended.
    pub async fn shutdown(mut self) {
        drop(self.drain);
        // Nothing is ever sent: the channel closes when every thread has dropped its sender.
        let _ = self.stopped.recv().await;
    }
}

/// The prefix of the names of threads that serve clients.
pub(crate) const CLIENT_THREADS: &str = "clients-";

/// Runs `task` on a new thread, with a runtime for it alone.
fn on_thread<F>(name: &str, task: F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime: Runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(task))?;
    Ok(())
}

/// What connections are served from; cheap to clone.
#[derive(Clone)]
struct Served {
    services: Services,
    dispatch: Dispatch,
    /// The tokens that clients of the Redis protocol show; those of HTTP are the dispatch's matter.
    tokens: Option<Arc<Tokens>>,
    /// The node's credentials; `None`: clients speak without TLS.
    tls: Option<watch::Receiver<Arc<ClientTls>>>,
    /// The handshakes of this worker.
    handshakes: Arc<Handshakes>,
}

/// Serves the connections that the acceptors deal out until they stop, then lets connections finish.
async fn work(mut accepted: mpsc::Receiver<Accepted>, served: Served, drain: Drain) {
    let (open, mut drained) = mpsc::channel::<Infallible>(1);
    while let Some(connection) = accepted.recv().await {
        let served = served.clone();
        let (drain, open) = (drain.clone(), open.clone());
        tokio::spawn(async move {
            serve(connection, served, drain).await;
            drop(open);
        });
    }
    drop(open);
    // Connections that are still open after that are cut off with the runtime.
    let _ = tokio::time::timeout(DRAIN_MAX, drained.recv()).await;
}

async fn serve(connection: Accepted, served: Served, drain: Drain) {
    let Accepted { protocol, stream, place } = connection;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    // Small answers must not wait for an acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let services = served.services.clone();
    let metrics = services.ids.metrics();
    metrics.connection_opened(protocol);
    let progress = Arc::clone(&place.progress);
    let verdict = match served.tls.clone() {
        None => serve_stream(protocol, stream, served, progress, drain).await,
        Some(tls) => {
            let without_tls = match protocol {
                Protocol::Http => http::WITHOUT_TLS,
                Protocol::Resp => resp::WITHOUT_TLS,
            };
            let handshakes = &*served.handshakes;
            let terms = Terms { tls: &tls, handshakes, protocol, without_tls };
            match tls::begin(stream, terms, &progress, drain.clone()).await {
                Handshake::Done(stream, None) => {
                    serve_stream(protocol, *stream, served, progress, drain).await
                }
                Handshake::Done(stream, Some(proof)) => {
                    let serve = async |drain| {
                        serve_stream(protocol, *stream, served, progress, drain).await
                    };
                    // On the heap, so that connections without certificates do not grow by it.
                    Box::pin(proof.guard(drain, serve)).await
                }
                Handshake::Watchdog(verdict) => {
                    if verdict == CloseReason::Stalled {
                        metrics.handshake_failed(protocol);
                    }
                    Some(verdict)
                }
                Handshake::Gone => None,
                Handshake::Failed => {
                    metrics.handshake_failed(protocol);
                    None
                }
            }
        }
    };
    metrics.connection_closed(protocol);
    match verdict {
        Some(CloseReason::MakesRoom) => metrics.connection_evicted(protocol),
        Some(CloseReason::ReadsTooSlowly) => metrics.connection_too_slow(protocol),
        Some(CloseReason::Stalled) | None => {}
    }
    drop(place);
}

async fn serve_stream(
    protocol: Protocol,
    stream: impl ClientStream,
    served: Served,
    progress: Arc<Progress>,
    drain: Drain,
) -> Option<CloseReason> {
    let Served { services, dispatch, tokens, .. } = served;
    match protocol {
        Protocol::Http => http::serve(stream, dispatch, progress, drain).await,
        Protocol::Resp => resp::serve(stream, &services, tokens.as_deref(), progress, drain).await,
    }
}
