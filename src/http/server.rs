//! Sockets and threads: one acceptor, one worker per core, and the bounds of a connection.
//!
//! Each worker runs a single-threaded runtime of its own, so a request never moves between
//! threads, and the Raft runtime never competes with id traffic for a queue. One acceptor deals
//! the connections out in turn. (Several sockets on one port would spare it, but would also let
//! a second process share the port in silence.)

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tracing::warn;

use super::front::FrontDoor;
use super::outbox::Outbox;
use super::watchdog::Watched;
use crate::service::IdService;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Connections that may wait for one worker to take them over.
const HANDOVER_MAX: usize = 256;
const HEADERS_MAX: usize = 64;
/// Longest head of a request; a longer one is answered 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time that a stop leaves to requests in flight.
const DRAIN_MS_MAX: u64 = 5_000;
/// Pause after the kernel could not give a connection, most likely for want of descriptors.
const ACCEPT_PAUSE_MS: u64 = 50;

/// What a connection above the limit is told.
const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\ncache-control: no-store\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 131\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
    \"code\":\"unavailable\",\"detail\":\"too many connections to this node\"}";

/// How much a server takes on.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Threads that answer requests.
    pub workers: NonZeroUsize,
    /// Open connections; one more is answered 503 and closed.
    pub connections_max: usize,
}

impl Default for HttpLimits {
    /// A worker for each core, and 10,000 connections.
    fn default() -> Self {
        let workers = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { workers, connections_max: 10_000 }
    }
}

/// A bound address that answers nobody yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    local_addr: SocketAddr,
    limits: HttpLimits,
}

impl HttpServer {
    /// Binds `addr`; port 0 takes a free one. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Those of binding: the port is taken, the address is not this machine's, or the like.
    pub fn bind(addr: SocketAddr, limits: HttpLimits) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Only spares a restart the wait for old connections; it does not share a live port.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?.into_std()?;
        let local_addr = listener.local_addr()?;
        Ok(Self { listener, local_addr, limits })
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Starts to answer, on threads of its own.
    ///
    /// # Errors
    /// Those of starting threads.
    pub fn start(self, service: Arc<IdService>) -> io::Result<RunningServer> {
        let (stop, stopping) = watch::channel(());
        let (running, stopped) = mpsc::channel(1);
        let front = FrontDoor::new(Arc::clone(&service));
        let mut workers = Vec::with_capacity(self.limits.workers.get());
        for number in 0..self.limits.workers.get() {
            let (handover, accepted) = mpsc::channel(HANDOVER_MAX);
            let (front, stopping, running) = (front.clone(), stopping.clone(), running.clone());
            on_thread(&format!("http-{number}"), async move {
                work(accepted, front, stopping).await;
                drop(running);
            })?;
            workers.push(handover);
        }
        let acceptor = Acceptor {
            workers,
            next: 0,
            permits: Arc::new(Semaphore::new(self.limits.connections_max)),
            service,
        };
        self.listener.set_nonblocking(true)?;
        on_thread("http-accept", async move {
            acceptor.run(self.listener, stopping).await;
            drop(running);
        })?;
        Ok(RunningServer { stop, stopped })
    }
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
    stream: std::net::TcpStream,
    permit: OwnedSemaphorePermit,
}

struct Acceptor {
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
            self.service.metrics().connection_refused();
            return turn_away(&stream);
        };
        self.next = (self.next + 1) % self.workers.len();
        // A worker that is gone is one that stops, as this thread is about to.
        let _ = self.workers[self.next].send(Accepted { stream, permit }).await;
    }
}

/// Says why and closes, without waiting: the socket does not block, its send buffer is empty, and
/// a client that is gone already need not be told.
fn turn_away(mut stream: &std::net::TcpStream) {
    let _ = stream.write(TURNED_AWAY);
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

/// Serves what it is dealt until the acceptor stops, then lets connections finish.
async fn work(
    mut accepted: mpsc::Receiver<Accepted>,
    front: FrontDoor,
    stopping: watch::Receiver<()>,
) {
    let (open, mut drained) = mpsc::channel::<Infallible>(1);
    while let Some(connection) = accepted.recv().await {
        let (front, stopping, open) = (front.clone(), stopping.clone(), open.clone());
        tokio::spawn(async move {
            let metrics_of = Arc::clone(front.service());
            metrics_of.metrics().connection_opened();
            serve(connection, front, stopping).await;
            metrics_of.metrics().connection_closed();
            drop(open);
        });
    }
    drop(open);
    // What is still open after that is cut off with the runtime.
    let _ = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), drained.recv()).await;
}

async fn serve(connection: Accepted, front: FrontDoor, stopping: watch::Receiver<()>) {
    let Accepted { stream, permit } = connection;
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    // Small answers must not wait for an acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let (read, write) = stream.split();
    converse(read, write, front, stopping).await;
    drop(permit);
}

/// Serves one connection to its end.
pub(super) async fn converse<R, W>(
    read: R,
    mut write: W,
    front: FrontDoor,
    mut stopping: watch::Receiver<()>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let outbox = Outbox::default();
    let progress = Arc::clone(outbox.progress());
    let watched = Watched { inner: front, progress: Arc::clone(&progress) };
    let mut connection = pin!(
        http1::Builder::new()
            // The watchdog bounds heads and idle time, each by its own measure.
            .header_read_timeout(None)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(outbox.attach(read)), watched)
    );
    tokio::select! {
        biased;
        () = outbox.drive(connection.as_mut(), &mut write) => {}
        () = progress.stalled(|| outbox.has_unsent()) => {}
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            outbox.drive(connection.as_mut(), &mut write).await;
        }
    }
    let farewell = async {
        outbox.send(&mut write).await?;
        write.shutdown().await
    };
    // A client that does not read its last answers, or is gone, does without them.
    let _ = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), farewell).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_away_answer_has_its_own_length() {
        let text = std::str::from_utf8(TURNED_AWAY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
