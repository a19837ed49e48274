//! How this node opens connections. This is the only place where it does.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::channel::Channel;
use super::interface::Target;
use super::layer::{Layer, Opened, Proof};

/// Time to connect, including the layer's handshake, for all addresses of a name together: three round trips of half
/// a second, with a lost packet on the way. Callers may wait less, and leave the connection to the next caller.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Opens connections to other nodes' listeners.
pub(super) struct Connector<L> {
    layer: Arc<L>,
    /// The runtime that drives the connections. Callers may run on other, busy runtimes, which must not delay Raft's
    /// messages.
    runtime: Handle,
}

/// A connection that this node opened.
pub(super) struct Connection<S> {
    pub(super) channel: Channel<S>,
    pub(super) proof: Proof,
}

impl<L: Layer> Connector<L> {
    /// The connector's connections run on the current runtime.
    pub(super) fn new(layer: Arc<L>) -> Self {
        Self { layer, runtime: Handle::current() }
    }

    pub(super) fn layer(&self) -> &Arc<L> {
        &self.layer
    }

    /// Opens a connection to the node that the target names. If no process listens at the address, the kind of the
    /// error is [`ErrorKind::ConnectionRefused`].
    pub(super) async fn open(&self, target: Target<'_>) -> io::Result<Connection<L::Stream>> {
        self.open_or_leave(target, drop).await
    }

    /// Opens a connection as [`open`](Self::open) does. If the caller gives up before it is open, `leave` gets it.
    pub(super) async fn open_or_leave(
        &self,
        target: Target<'_>,
        leave: impl FnOnce(Connection<L::Stream>) + Send + 'static,
    ) -> io::Result<Connection<L::Stream>> {
        let (address, node_id) = (target.address.to_owned(), target.node_id);
        let connecting = connect(Arc::clone(&self.layer), address, node_id);
        let (give, opened) = oneshot::channel();
        self.runtime.spawn(async move {
            let opened = connecting.await.map(|Opened { stream, proof }| Connection {
                channel: Channel::new(stream),
                proof,
            });
            if let Err(Ok(unclaimed)) = give.send(opened) {
                leave(unclaimed);
            }
        });
        opened.await.map_err(io::Error::other)?
    }
}

/// Connects to the first address of a name where the node listens. The addresses share the time equally.
async fn connect<L: Layer>(
    layer: Arc<L>,
    address: String,
    node_id: Option<u64>,
) -> io::Result<Opened<L::Stream>> {
    let places: Vec<SocketAddr> = match address.parse() {
        Ok(place) => vec![place],
        Err(_) => lookup(&address).await?,
    };
    let share = CONNECT_TIMEOUT / u32::try_from(places.len().max(1)).unwrap_or(u32::MAX);
    let mut failed = io::Error::new(ErrorKind::NotFound, "its name has no address");
    for place in places {
        let target = Target { address: &address, node_id };
        match timeout(share, connect_to(&*layer, target, place)).await {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::new(ErrorKind::TimedOut, "connecting took too long"),
        }
    }
    Err(failed)
}

async fn connect_to<L: Layer>(
    layer: &L,
    target: Target<'_>,
    place: SocketAddr,
) -> io::Result<Opened<L::Stream>> {
    let tcp = TcpStream::connect(place).await?;
    // Without TCP_NODELAY, Nagle's algorithm delays every second small message.
    tcp.set_nodelay(true)?;
    layer.connect(target, tcp).await
}

async fn lookup(address: &str) -> io::Result<Vec<SocketAddr>> {
    let found = timeout(CONNECT_TIMEOUT, lookup_host(address)).await;
    let too_long = || io::Error::new(ErrorKind::TimedOut, "looking up its name took too long");
    Ok(found.map_err(|_| too_long())??.collect())
}
