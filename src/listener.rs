//! Sockets and threads of the client side: an acceptor for each address, one worker per core.
//!
//! Each worker runs a single-threaded runtime of its own, so a request never moves between
//! threads, and the Raft runtime never competes with id traffic for a queue. Acceptors deal their
//! connections out in turn; HTTP and the Redis protocol share the workers, not the limits. (Several
//! sockets on one port would spare the acceptor, but would also let a second process share the port
//! in silence.)

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tracing::warn;

use crate::http::{self, FrontDoor};
use crate::metrics::Protocol;
use crate::resp;
use crate::service::IdService;

/// Longest time from a request to its answer. A guard against waits that nobody bounded: those for
/// a segment or a quorum end sooner, with a better reason.
pub(crate) const REQUEST_MS_MAX: u64 = 10_000;
/// Time that a stop leaves to requests in flight, and a closing connection to its last answers.
pub(crate) const DRAIN_MS_MAX: u64 = 5_000;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Connections that may wait for one worker to take them over.
const HANDOVER_MAX: usize = 256;
/// Pause after the kernel could not give a connection, most likely for want of descriptors.
const ACCEPT_PAUSE_MS: u64 = 50;

/// How much the client side takes on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Threads that answer requests.
    pub workers: NonZeroUsize,
    /// Open connections of each protocol; one more is told so and closed.
    pub connections_max: usize,
}

impl Default for Limits {
    /// A worker for each core, and 10,000 connections of each protocol.
    fn default() -> Self {
        let workers = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { workers, connections_max: 10_000 }
    }
}

/// A bound address that answers nobody yet.
#[derive(Debug)]
pub struct ClientPort {
    listener: TcpListener,
    local_addr: SocketAddr,
}

impl ClientPort {
    /// Binds `addr`; port 0 takes a free one. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Those of binding: the port is taken, the address is not this machine's, or the like.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Only spares a restart the wait for old connections; it does not share a live port.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?.into_std()?;
        let local_addr = listener.local_addr()?;
        Ok(Self { listener, local_addr })
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

/// Starts to answer on `http`, and on `resp` if there is one, on threads of its own.
///
/// # Errors
/// Those of starting threads.
pub fn start(
    http: ClientPort,
    resp: Option<ClientPort>,
    limits: Limits,
    service: &Arc<IdService>,
) -> io::Result<RunningServer> {
    let (stop, stopping) = watch::channel(());
    let (running, stopped) = mpsc::channel(1);
    let front = FrontDoor::new(Arc::clone(service));
    let mut workers = Vec::with_capacity(limits.workers.get());
    for number in 0..limits.workers.get() {
        let (handover, accepted) = mpsc::channel(HANDOVER_MAX);
        let (front, stopping, running) = (front.clone(), stopping.clone(), running.clone());
        on_thread(&format!("clients-{number}"), async move {
            work(accepted, front, stopping).await;
            drop(running);
        })?;
        workers.push(handover);
    }
    let ports = [(Protocol::Http, Some(http)), (Protocol::Resp, resp)];
    for (protocol, port) in ports {
        let Some(ClientPort { listener, .. }) = port else { continue };
        listener.set_nonblocking(true)?;
        let acceptor = Acceptor {
            protocol,
            workers: workers.clone(),
            next: 0,
            permits: Arc::new(Semaphore::new(limits.connections_max)),
            service: Arc::clone(service),
        };
        let (stopping, running) = (stopping.clone(), running.clone());
        on_thread(&format!("accept-{}", protocol.name()), async move {
            acceptor.run(listener, stopping).await;
            drop(running);
        })?;
    }
    Ok(RunningServer { stop, stopped })
}

/// A server that answers. Dropping it stops it as [`RunningServer::shutdown`] does, unwatched.
#[derive(Debug)]
pub struct RunningServer {
    stop: watch::Sender<()>,
    stopped: mpsc::Receiver<Infallible>,
}

impl RunningServer {
    /// Accepts no more, lets requests in flight finish for up to five seconds, and returns when
    /// the last thread has left off.
    pub async fn shutdown(mut self) {
        drop(self.stop);
        // Nothing is ever sent: it ends when every thread has let go of its end.
        let _ = self.stopped.recv().await;
    }
}

/// Runs `task` on a new thread with a runtime of its own.
fn on_thread<F>(name: &str, task: F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime: Runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(task))?;
    Ok(())
}

/// A connection, and its share of the limit until it closes.
struct Accepted {
    protocol: Protocol,
    stream: std::net::TcpStream,
    permit: OwnedSemaphorePermit,
}

struct Acceptor {
    protocol: Protocol,
    workers: Vec<mpsc::Sender<Accepted>>,
    next: usize,
    permits: Arc<Semaphore>,
    service: Arc<IdService>,
}

impl Acceptor {
    async fn run(mut self, listener: TcpListener, mut stopping: watch::Receiver<()>) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return warn!(%error, "cannot listen for clients"),
        };
        // One line for a streak of failures, however long it lasts.
        let mut failing = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopping.changed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    failing = false;
                    self.deal(stream).await;
                }
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    if !failing {
                        warn!(%error, "cannot accept client connections for now");
                    }
                    failing = true;
                    tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                }
            }
        }
    }

    /// Hands a connection to the next worker in turn, or turns it away.
    async fn deal(&mut self, stream: TcpStream) {
        let Ok(stream) = stream.into_std() else { return };
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.service.metrics().connection_refused(self.protocol);
            return turn_away(self.protocol, &stream);
        };
        self.next = (self.next + 1) % self.workers.len();
        // A worker that is gone is one that stops, as this thread is about to.
        let _ = self.workers[self.next]
            .send(Accepted { protocol: self.protocol, stream, permit })
            .await;
    }
}

/// Says why and closes, without waiting: the socket does not block, its send buffer is empty, and
/// a client that is gone already need not be told.
fn turn_away(protocol: Protocol, mut stream: &std::net::TcpStream) {
    let told = match protocol {
        Protocol::Http => http::TURNED_AWAY,
        Protocol::Resp => resp::TURNED_AWAY,
    };
    let _ = stream.write(told);
    let _ = stream.shutdown(Shutdown::Write);
    // Closing on unread input would reset the connection, answer and all.
    let _ = stream.read(&mut [0; 4096]);
}

/// Whether the error belongs to one connection, which its peer gave up before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Serves what it is dealt until the acceptors stop, then lets connections finish.
async fn work(
    mut accepted: mpsc::Receiver<Accepted>,
    front: FrontDoor,
    stopping: watch::Receiver<()>,
) {
    let (open, mut drained) = mpsc::channel::<Infallible>(1);
    while let Some(connection) = accepted.recv().await {
        let (front, stopping, open) = (front.clone(), stopping.clone(), open.clone());
        tokio::spawn(async move {
            serve(connection, front, stopping).await;
            drop(open);
        });
    }
    drop(open);
    // What is still open after that is cut off with the runtime.
    let _ = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), drained.recv()).await;
}

async fn serve(connection: Accepted, front: FrontDoor, stopping: watch::Receiver<()>) {
    let Accepted { protocol, stream, permit } = connection;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    // Small answers must not wait for an acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let service = Arc::clone(front.service());
    service.metrics().connection_opened(protocol);
    match protocol {
        Protocol::Http => http::serve(stream, front, stopping).await,
        Protocol::Resp => resp::serve(stream, &service, stopping).await,
    }
    service.metrics().connection_closed(protocol);
    drop(permit);
}
