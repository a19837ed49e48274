//! The transport of real nodes: TCP connections that are kept, with one call at a time on each.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::channel::{Channel, greeting};
use super::interface::{Door, FRAME_BYTES_MAX, Wire, WireError};
use super::server::Listener;
use crate::error::NodeError;
use crate::runtime::Pending;

/// Time to connect, for all the addresses of a name together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection that was not used for this long is not used again. The listener waits longer than that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Unused connections to one peer that are kept at most.
const KEPT_MAX: usize = 16;
/// Pause before a broken connection is opened again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// Connects to the peers' listeners and, unless this node is a cluster of one, has a listener itself.
pub(crate) struct TcpWire {
    secret: Vec<u8>,
    listens_on: Option<SocketAddr>,
    /// The listener, until it is served.
    listener: Mutex<Option<Listener>>,
    /// Connections that are not in use, by the address they were opened to; the most recently used one
    /// comes last.
    kept: Mutex<BTreeMap<String, Vec<Kept>>>,
    /// The runtime that drives the connections. Callers may run on other, busy runtimes, which must not
    /// delay Raft's messages.
    runtime: Handle,
}

struct Kept {
    channel: Channel<TcpStream>,
    since: Instant,
}

impl TcpWire {
    /// Binds the listener. Members prove the secret to each other; it may be empty.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(
        address: Option<SocketAddr>,
        secret: Option<&[u8]>,
    ) -> Result<Self, NodeError> {
        let listener = match address {
            None => None,
            Some(address) => {
                let bound = Listener::bind(address).await;
                Some(bound.map_err(|source| NodeError::Listen { address, source })?)
            }
        };
        Ok(Self {
            secret: secret.unwrap_or_default().to_owned(),
            listens_on: listener.as_ref().and_then(|listener| listener.local_addr().ok()),
            listener: Mutex::new(listener),
            kept: Mutex::default(),
            runtime: Handle::current(),
        })
    }

    async fn call(&self, address: &str, frame: &[u8]) -> Result<Bytes, WireError> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(WireError::Unreachable(format!("{} bytes are no frame", frame.len())));
        }
        let mut channel = self.send(address, frame).await?;
        let answer = channel.receive_answer().await;
        let answer = answer.map_err(|error| WireError::Lost(error.to_string()))?;
        // The other end hangs up after a refusal.
        let answer = answer.map_err(WireError::Refused)?;
        self.keep(address, channel);
        Ok(answer)
    }

    /// Sends a frame on a connection that was kept, or else on a new one.
    async fn send(&self, address: &str, frame: &[u8]) -> Result<Channel<TcpStream>, WireError> {
        while let Some(mut channel) = self.kept(address) {
            // The peer may have restarted since. A frame that was not sent whole had no effect.
            if channel.send_frame(&[], frame).await.is_ok() {
                return Ok(channel);
            }
        }
        let opened = async {
            let connected = self.runtime.spawn(connect(address.to_owned())).await;
            let mut channel = Channel::new(connected.map_err(io::Error::other)??);
            channel.send_frame(&greeting(&self.secret), frame).await?;
            Ok(channel)
        };
        opened.await.map_err(|error: io::Error| WireError::Unreachable(error.to_string()))
    }

    fn kept(&self, address: &str) -> Option<Channel<TcpStream>> {
        let mut kept = self.kept.lock();
        let kept = kept.get_mut(address)?;
        while let Some(Kept { channel, since }) = kept.pop() {
            if since.elapsed() < IDLE_TIMEOUT && channel.is_silent() {
                return Some(channel);
            }
        }
        None
    }

    fn keep(&self, address: &str, channel: Channel<TcpStream>) {
        let since = Instant::now();
        let mut kept = self.kept.lock();
        let is_young = |kept: &Kept| since.duration_since(kept.since) < IDLE_TIMEOUT;
        kept.retain(|_, kept| {
            // The connections are sorted by time: a connection that was used is put back last.
            let old = kept.partition_point(|kept| !is_young(kept));
            kept.drain(..old);
            !kept.is_empty()
        });
        let kept = kept.entry(address.to_owned()).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(Kept { channel, since });
        }
    }

    #[cfg(test)]
    pub(super) fn kept_count(&self, address: &str) -> usize {
        self.kept.lock().get(address).map_or(0, Vec::len)
    }
}

/// Connects to the first address of a name that accepts; each address has its share of the time.
async fn connect(address: String) -> io::Result<TcpStream> {
    let targets: Vec<SocketAddr> = match address.parse() {
        Ok(target) => vec![target],
        Err(_) => lookup(&address).await?,
    };
    let share = CONNECT_TIMEOUT / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut failed = io::Error::new(ErrorKind::NotFound, "its name has no address");
    for target in targets {
        match timeout(share, TcpStream::connect(target)).await {
            Ok(Ok(stream)) => {
                // Without TCP_NODELAY, Nagle's algorithm delays every second small message.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::new(ErrorKind::TimedOut, "connecting took too long"),
        }
    }
    Err(failed)
}

async fn lookup(address: &str) -> io::Result<Vec<SocketAddr>> {
    let found = timeout(CONNECT_TIMEOUT, lookup_host(address)).await;
    let too_long = || io::Error::new(ErrorKind::TimedOut, "looking up its name took too long");
    Ok(found.map_err(|_| too_long())??.collect())
}

impl Wire for TcpWire {
    fn exchange<'a>(
        &'a self,
        address: &'a str,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Bytes, WireError>> {
        Box::pin(async move { self.call(address, &frame).await })
    }

    fn gone<'a>(&'a self, address: &'a str) -> Pending<'a, ()> {
        Box::pin(until_refused(address, greeting(&self.secret)))
    }

    fn serve(self: Arc<Self>, door: Arc<dyn Door>) -> Pending<'static, ()> {
        let listener = self.listener.lock().take();
        Box::pin(async move {
            if let Some(listener) = listener {
                listener.serve(door, self.secret.as_slice().into()).await;
            }
        })
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        self.listens_on
    }
}

/// Resolves when the machine at an address refuses a connection. It keeps a connection open on which it
/// sends nothing, and tries to open another once that breaks. Only a machine that is up refuses a
/// connection, and only if no process listens there.
async fn until_refused(address: &str, greeting: Vec<u8>) {
    loop {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(mut stream)) => {
                let _ = stream.write_all(&greeting).await;
                let _ = stream.read(&mut [0]).await;
            }
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok(Err(_)) | Err(_) => {}
        }
        sleep(RECONNECT_INTERVAL).await;
    }
}
