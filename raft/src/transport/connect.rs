//! How this node opens connections: the only place where it does.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::channel::{Channel, greeting};
use super::layer::Layer;

/// Time to connect, for all the addresses of a name together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens connections to other nodes' listeners.
pub(super) struct Connector<L> {
    layer: Arc<L>,
    secret: Vec<u8>,
    /// The runtime that drives the connections. Callers may run on other, busy runtimes, which must not
    /// delay Raft's messages.
    runtime: Handle,
}

impl<L: Layer> Connector<L> {
    /// The current runtime will drive the connections.
    pub(super) fn new(layer: Arc<L>, secret: Vec<u8>) -> Self {
        Self { layer, secret, runtime: Handle::current() }
    }

    pub(super) fn layer(&self) -> &Arc<L> {
        &self.layer
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Opens a connection, whose greeting is still to be sent. If nobody listens at the address, the kind of
    /// the error is [`ErrorKind::ConnectionRefused`].
    pub(super) async fn open(&self, address: &str) -> io::Result<Channel<L::Stream>> {
        let connecting = connect(Arc::clone(&self.layer), address.to_owned());
        let stream = self.runtime.spawn(connecting).await.map_err(io::Error::other)??;
        Ok(Channel::opened(stream, greeting(&self.secret)))
    }
}

/// Connects to the first address of a name that accepts; each address has its share of the time.
async fn connect<L: Layer>(layer: Arc<L>, address: String) -> io::Result<L::Stream> {
    let targets: Vec<SocketAddr> = match address.parse() {
        Ok(target) => vec![target],
        Err(_) => lookup(&address).await?,
    };
    let share = CONNECT_TIMEOUT / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut failed = io::Error::new(ErrorKind::NotFound, "its name has no address");
    for target in targets {
        match timeout(share, connect_to(&*layer, &address, target)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::new(ErrorKind::TimedOut, "connecting took too long"),
        }
    }
    Err(failed)
}

async fn connect_to<L: Layer>(
    layer: &L,
    address: &str,
    target: SocketAddr,
) -> io::Result<L::Stream> {
    let tcp = TcpStream::connect(target).await?;
    // Without TCP_NODELAY, Nagle's algorithm delays every second small message.
    tcp.set_nodelay(true)?;
    layer.connect(address, tcp).await
}

async fn lookup(address: &str) -> io::Result<Vec<SocketAddr>> {
    let found = timeout(CONNECT_TIMEOUT, lookup_host(address)).await;
    let too_long = || io::Error::new(ErrorKind::TimedOut, "looking up its name took too long");
    Ok(found.map_err(|_| too_long())??.collect())
}
