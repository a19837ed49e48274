//! The internal listener.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::channel::{Channel, Greeting};
use super::wire::Door;
use super::{PROTOCOL, Request, Response};
use crate::guard::{Header, Identity, Refusal};

/// Peers are few and each keeps a handful of connections.
const CONNECTIONS_MAX: usize = 1024;
/// A connection on which nothing is said for this long is closed. Followers keep a silent one open to
/// notice the end of a leader, and make it anew.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the other end may take to read an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long who was refused is listened to, so that it reads why.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed accept, as when file descriptors ran out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// For whoever takes this port for the other one.
const TO_STRANGERS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nNodes speak with each other here; clients use the address of --http.\n";

/// What a node does with a request that arrived.
pub(crate) trait Inbox: Send + Sync + 'static {
    /// Who answers.
    fn identity(&self) -> Identity;

    /// What its clock shows.
    fn clock_ms(&self) -> u64;

    /// Judges and answers one request.
    fn handle(
        self: Arc<Self>,
        header: Option<Header>,
        request: Request,
    ) -> impl Future<Output = Result<Response, Refusal>> + Send;
}

/// A bound internal listener, not yet answering.
pub(crate) struct Listener(TcpListener);

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self(TcpListener::bind(address).await?))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until the task is aborted, which also ends its connections.
    pub(crate) async fn serve(self, door: Arc<dyn Door>, secret: Arc<[u8]>) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let (door, secret) = (Arc::clone(&door), Arc::clone(&secret));
                    connections.spawn(async move {
                        if let Err(error) = serve_connection(stream, &*door, &secret).await {
                            tracing::debug!(%error, "connection from a peer ended");
                        }
                        drop(permit);
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

async fn serve_connection(stream: TcpStream, door: &dyn Door, secret: &[u8]) -> io::Result<()> {
    // Without it, Nagle's algorithm holds back every second small answer.
    stream.set_nodelay(true)?;
    converse(Channel::new(stream), door, secret).await
}

/// Judges the greeting, then answers frame after frame until the other end hangs up.
pub(super) async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut channel: Channel<S>,
    door: &dyn Door,
    secret: &[u8],
) -> io::Result<()> {
    match within(IDLE_TIMEOUT, channel.receive_greeting()).await? {
        Greeting::Stranger => {
            within(ANSWER_TIMEOUT, channel.say_last(TO_STRANGERS)).await?;
            return within(DRAIN_TIMEOUT, channel.drain()).await;
        }
        Greeting::Node { protocol, secret: sent } => {
            if let Err(why) = judge(protocol, secret, &sent) {
                return refuse(channel, &why).await;
            }
        }
    }
    loop {
        let frame = within(IDLE_TIMEOUT, channel.receive_frame()).await?;
        let answer = tokio::select! {
            biased;
            answer = door.answer(&frame) => answer,
            // Nobody waits for the answer any more.
            () = channel.interrupted() => return Ok(()),
        };
        match answer {
            Ok(answer) => within(ANSWER_TIMEOUT, channel.send_answer(Ok(&answer))).await?,
            Err(why) => return refuse(channel, &why).await,
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
    mut channel: Channel<S>,
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
