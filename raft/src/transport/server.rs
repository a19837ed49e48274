//! The internal listener, which accepts connections from other nodes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::channel::{Channel, Greeting};
use super::interface::{FrameHandler, PROTOCOL, Peer};
use super::layer::Layer;

/// Connections at a time that have not greeted yet. Connections that send nothing therefore cannot shut
/// nodes out for longer than two [`GREETING_TIMEOUT`]s.
const STRANGERS_MAX: usize = 256;
/// Connections at a time that have greeted. Peers are few, and each keeps a handful.
const CONNECTIONS_MAX: usize = 1024;
/// A connection gets this long for its layer's handshake, and this long for its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// The listener closes a connection on which no frame was completed for this long. Followers keep a silent
/// connection open to notice the end of a leader's process, and open it again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The other end may take this long to read an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The listener keeps reading from a refused connection for this long, so that the other end gets to read
/// the reason.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed accept, as when file descriptors ran out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// The answer to a client that took this port for the one of `--http`.
const TO_STRANGERS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nNodes speak with each other here; clients use the address of --http.\n";

/// A bound internal listener, not yet answering.
pub(super) struct Listener(TcpListener);

impl Listener {
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self(TcpListener::bind(address).await?))
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until the task is aborted, which also ends its connections.
    pub(super) async fn serve<L: Layer>(
        self,
        layer: Arc<L>,
        handler: Arc<dyn FrameHandler>,
        secret: Arc<[u8]>,
    ) {
        let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
        let known = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(stranger) = Arc::clone(&strangers).acquire_owned().await else { return };
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let (handler, secret) = (Arc::clone(&handler), Arc::clone(&secret));
                    let (layer, known) = (Arc::clone(&layer), Arc::clone(&known));
                    connections.spawn(async move {
                        let permits = (stranger, &*known);
                        let served = serve_connection(&*layer, stream, permits, &*handler, &secret);
                        if let Err(error) = served.await {
                            tracing::debug!(%error, "connection from a peer ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection from a peer");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

async fn serve_connection<L: Layer>(
    layer: &L,
    tcp: TcpStream,
    (stranger, known): (OwnedSemaphorePermit, &Semaphore),
    handler: &dyn FrameHandler,
    secret: &[u8],
) -> io::Result<()> {
    // Without TCP_NODELAY, Nagle's algorithm delays every second small answer.
    tcp.set_nodelay(true)?;
    let stream = within(GREETING_TIMEOUT, layer.accept(tcp)).await?;
    let mut channel = Channel::accepted(stream);
    if !is_admitted(&mut channel, secret).await? {
        return Ok(());
    }
    let Ok(_permit) = known.try_acquire() else {
        return refuse(&mut channel, "too many connections").await;
    };
    drop(stranger);
    answer_frames(channel, handler).await
}

/// Reads and judges the greeting, and tells a refused peer the reason.
pub(super) async fn is_admitted<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    secret: &[u8],
) -> io::Result<bool> {
    match within(GREETING_TIMEOUT, channel.receive_greeting()).await? {
        Greeting::Node { protocol, secret: sent } => match judge(protocol, secret, &sent) {
            Ok(()) => Ok(true),
            Err(why) => refuse(channel, &why).await.map(|()| false),
        },
        Greeting::Stranger => {
            within(ANSWER_TIMEOUT, channel.say_last(TO_STRANGERS)).await?;
            within(DRAIN_TIMEOUT, channel.drain()).await.map(|()| false)
        }
    }
}

/// Answers frame after frame until the other end hangs up.
pub(super) async fn answer_frames<S: AsyncRead + AsyncWrite + Unpin>(
    mut channel: Channel<S>,
    handler: &dyn FrameHandler,
) -> io::Result<()> {
    loop {
        let frame = within(IDLE_TIMEOUT, channel.receive_frame()).await?;
        let answer = tokio::select! {
            biased;
            answer = handler.handle(Peer::Unproven, &frame) => answer,
            // The caller has hung up, so nobody waits for the answer.
            () = channel.interrupted() => return Ok(()),
        };
        match answer {
            Ok(answer) => within(ANSWER_TIMEOUT, channel.send_answer(Ok(&answer))).await?,
            Err(why) => return refuse(&mut channel, &why).await,
        }
    }
}

fn judge(protocol: u8, ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if protocol != PROTOCOL {
        return Err(format!(
            "this node speaks protocol {PROTOCOL}, the peer {protocol}: upgrade the older"
        ));
    }
    let same: bool = ours.ct_eq(theirs).into();
    let why = "the cluster secret does not match: give every node the same --cluster-secret-file";
    if same { Ok(()) } else { Err(why.to_owned()) }
}

async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    why: &str,
) -> io::Result<()> {
    within(ANSWER_TIMEOUT, async {
        channel.send_answer(Err(why)).await?;
        channel.say_last(&[]).await
    })
    .await?;
    within(DRAIN_TIMEOUT, channel.drain()).await
}

async fn within<T>(time: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(time, work).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
