//! The internal listener, which accepts connections from other nodes.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::channel::Channel;
use super::interface::{FrameHandler, Peer};
use super::layer::{Layer, Opened, Proof};
use super::pace::Pace;
use super::places::{Place, Places, counted};
use crate::runtime::SparseLines;

/// A connection gets this long to prove itself.
pub(super) const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// The listener closes a connection on which no frame was completed for this long. Followers keep a silent connection
/// open to notice the end of a leader's process, and open it again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection of a node that is not a member, or that proved nothing, ends with the first answer after this long:
/// it holds a place that a member may need. A joiner opens another one, and none of its calls fail.
const STRANGER_MAX: Duration = Duration::from_secs(30);
/// How long the other end may take to read an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the listener keeps reading from a refused connection, so that the other end gets to read the reason.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection whose proof no longer counts still gets one frame answered within this time. The caller may have sent
/// it before it could know.
const DISTRUST_GRACE: Duration = Duration::from_secs(1);
/// Pause after a failed accept, for example when file descriptors ran out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Number of connections that may wait to be accepted. The kernel drops further ones, and a caller tries again only
/// after a second. At the accepting pace a full queue is a wait of 0.4 s, less than half of the time that a node
/// takes to connect.
const BACKLOG: u32 = 2048;
/// Connections that failed to prove themselves are logged at most this often.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A bound internal address. Connections to it are refused until it listens, so that a peer that starts at the same
/// time does not wait for an answer.
pub(super) struct BoundAddress {
    socket: TcpSocket,
    connections_max: usize,
}

/// An internal listener.
pub(super) struct Listener {
    tcp: TcpListener,
    /// Maximum number of connections kept open at a time. A third of the places is for those that have not proved
    /// themselves yet, and one address or node holds at most half of the places of either kind. The oldest unproven
    /// connection makes room for a newer one, so connections that send nothing cannot shut a node out. There are few
    /// peers, and each keeps a handful of connections.
    connections_max: usize,
}

/// The owner of a place among the proven connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Node(u64),
    Address(IpAddr),
}

impl BoundAddress {
    pub(super) fn bind(address: SocketAddr, connections_max: usize) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarting process takes over its port, even if old connections are still ending.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { socket, connections_max })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts connections from here on, as soon as the listener is served.
    ///
    /// # Errors
    /// When another process listens at this address by now.
    pub(super) fn listen(self) -> io::Result<Listener> {
        let Self { socket, connections_max } = self;
        Ok(Listener { tcp: socket.listen(BACKLOG)?, connections_max })
    }
}

impl Listener {
    /// Serves until the task is aborted, which also ends its connections.
    pub(super) async fn serve<L: Layer>(self, layer: Arc<L>, handler: Arc<dyn FrameHandler>) {
        let unproven_max = self.connections_max / 3;
        let proven_max = self.connections_max - unproven_max;
        let unproven = Places::new(unproven_max, unproven_max / 2);
        let proven = Places::new(proven_max, proven_max / 2);
        let (mut pace, lines) = (Pace::of_connections(), SparseLines::each(REPORT_INTERVAL));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    report(&lines, ended);
                    continue;
                }
            };
            sleep_until(pace.turn()).await;
            match accepted {
                Ok((tcp, from)) => {
                    let place = unproven.take(counted(from.ip()));
                    let (layer, handler) = (Arc::clone(&layer), Arc::clone(&handler));
                    let proven = Arc::clone(&proven);
                    connections.spawn(async move {
                        let proved = prove(&*layer, tcp, place).await;
                        let opened = proved.map_err(|error| (from, error))?;
                        if let Err(error) =
                            serve_node(&*layer, opened, from, &proven, &*handler).await
                        {
                            tracing::debug!(%error, %from, "connection from a peer ended");
                        }
                        Ok(())
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection from a peer");
                    sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

/// Makes the other end prove itself while it holds its place.
async fn prove<L: Layer>(
    layer: &L,
    tcp: TcpStream,
    mut place: Place<IpAddr>,
) -> io::Result<Opened<L::Stream>> {
    // Without TCP_NODELAY, Nagle's algorithm delays every second small answer.
    tcp.set_nodelay(true)?;
    tokio::select! {
        opened = within(PROOF_TIMEOUT, layer.accept(tcp)) => opened,
        () = place.lost() => Err(io::Error::other("newer connections took its place")),
    }
}

/// Answers the frames of a connection that has proved itself.
async fn serve_node<L: Layer>(
    layer: &L,
    opened: Opened<L::Stream>,
    from: SocketAddr,
    proven: &Arc<Places<Caller>>,
    handler: &dyn FrameHandler,
) -> io::Result<()> {
    let Opened { stream, proof } = opened;
    let caller = match proof.peer {
        Peer::Proven { node_id, .. } => Caller::Node(node_id),
        Peer::Unproven => Caller::Address(counted(from.ip())),
    };
    let mut channel = Channel::new(stream);
    let Some(_place) = proven.try_take(caller) else {
        return refuse(&mut channel, "too many connections").await;
    };
    answer_frames(layer, channel, proof, handler).await
}

/// Answers frame after frame until the other end hangs up, until this node's credentials change, or until a
/// stranger's time is over. In the last two cases the next answer is the last, and the other end opens another
/// connection.
pub(super) async fn answer_frames<L: Layer, S: AsyncRead + AsyncWrite + Unpin>(
    layer: &L,
    mut channel: Channel<S>,
    mut proof: Proof,
    handler: &dyn FrameHandler,
) -> io::Result<()> {
    let (mut is_outdated, mut distrusted_until) = (false, None);
    let mut stranger_until = Instant::now() + STRANGER_MAX;
    loop {
        let frame = tokio::select! {
            frame = within(IDLE_TIMEOUT, channel.receive_frame()) => frame?,
            () = proof.changed() => {
                is_outdated = true;
                if !layer.trusts(&proof) {
                    distrusted_until.get_or_insert_with(|| Instant::now() + DISTRUST_GRACE);
                }
                continue;
            }
            () = until(distrusted_until) => return channel.close().await,
        };
        let answer = tokio::select! {
            biased;
            answer = handler.handle(proof.peer, &frame) => answer,
            // The caller has hung up, so the answer is not needed.
            () = channel.interrupted() => return Ok(()),
        };
        if stranger_until <= Instant::now() {
            match handler.is_member(proof.peer, &frame) {
                true => stranger_until = Instant::now() + STRANGER_MAX,
                false => is_outdated = true,
            }
        }
        match answer {
            Ok(answer) if is_outdated => {
                return within(ANSWER_TIMEOUT, channel.send_last_answer(&answer)).await;
            }
            Ok(answer) => within(ANSWER_TIMEOUT, channel.send_answer(Ok(&answer))).await?,
            Err(why) => return refuse(&mut channel, &why).await,
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    why: &str,
) -> io::Result<()> {
    within(ANSWER_TIMEOUT, async {
        channel.send_answer(Err(why)).await?;
        channel.close().await
    })
    .await?;
    within(DRAIN_TIMEOUT, channel.drain()).await
}

pub(super) async fn within<T>(
    time: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout(time, work).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}

/// Logs a connection that did not prove itself. One that the other end closed before it was judged claims nothing: it
/// is a node that stops while it connects, or a check that the port is open, and no reason to warn.
fn report(
    lines: &SparseLines,
    ended: Result<Result<(), (SocketAddr, io::Error)>, tokio::task::JoinError>,
) {
    let Ok(Err((from, error))) = ended else { return };
    if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) {
        tracing::debug!(%from, %error, "a connection to the internal port ended before its proof");
        return;
    }
    if let Some(others) = lines.take() {
        tracing::warn!(%from, %error, others, "a connection to the internal port proved nothing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Pending;
    use crate::transport::Plain;

    /// Answers every frame with its own bytes, to members or to strangers.
    struct Echo {
        to_members: bool,
    }

    impl FrameHandler for Echo {
        fn is_member(&self, _: Peer, _: &[u8]) -> bool {
            self.to_members
        }

        fn handle<'a>(&'a self, _: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
            Box::pin(std::future::ready(Ok(frame.to_vec())))
        }
    }

    /// For how many seconds, out of two minutes, a caller that asks once a second keeps its connection.
    async fn seconds_kept(to_members: bool) -> u32 {
        let (near, far) = tokio::io::duplex(64);
        let (channel, handler) = (Channel::new(far), Echo { to_members });
        let serving =
            tokio::spawn(
                async move { answer_frames(&Plain, channel, Proof::none(), &handler).await },
            );
        let mut channel = Channel::new(near);
        for second in 1..=120 {
            sleep(Duration::from_secs(1)).await;
            channel.send_frame(b"again").await.unwrap();
            let answer = channel.receive_answer().await.unwrap().unwrap();
            assert_eq!(&answer.bytes[..], b"again");
            if answer.is_last {
                serving.await.unwrap().unwrap();
                return second;
            }
        }
        serving.abort();
        120
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_that_keeps_asking_loses_its_place_and_a_member_keeps_its() {
        assert_eq!((seconds_kept(false).await, seconds_kept(true).await), (30, 120));
    }
}
