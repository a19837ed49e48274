//! The wire of real nodes: TCP connections that are kept, one exchange at a time on each.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout};

use super::Listener;
use super::channel::{Channel, greeting};
use super::wire::{Door, Pending, Wire, WireError};
use crate::error::NodeError;

/// To all the addresses of a name together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection that was not used for this long is closed; shorter than the listener's patience.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections to one peer that are kept for later.
const KEPT_MAX: usize = 16;
/// Pause before a broken connection is made again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// A client of peers' listeners and, unless this node is a cluster of one, a listener.
pub(crate) struct TcpWire {
    secret: Vec<u8>,
    listens_on: Option<SocketAddr>,
    /// Until it is served.
    listener: Mutex<Option<Listener>>,
    /// Connections nobody uses now, by the address they were made to; the latest used comes last.
    kept: Mutex<BTreeMap<String, Vec<Kept>>>,
}

struct Kept {
    channel: Channel<TcpStream>,
    since: Instant,
}

impl TcpWire {
    /// Binds the listener. Members prove the secret to each other; it may be empty.
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
        })
    }

    async fn call(&self, address: &str, frame: &[u8]) -> Result<Bytes, WireError> {
        let mut channel = self.send(address, frame).await?;
        let answer = channel.receive_answer().await;
        let answer = answer.map_err(|error| WireError::Lost(error.to_string()))?;
        // After a refusal the other end hangs up.
        let answer = answer.map_err(WireError::Refused)?;
        self.keep(address, channel);
        Ok(answer)
    }

    /// Sends a frame on a connection that was kept, or else on a new one.
    async fn send(&self, address: &str, frame: &[u8]) -> Result<Channel<TcpStream>, WireError> {
        while let Some(mut channel) = self.kept(address) {
            // The peer may have restarted since. What did not go out whole did not happen.
            if channel.send_frame(&[], frame).await.is_ok() {
                return Ok(channel);
            }
        }
        let opened = async {
            let mut channel = Channel::new(connect(address).await?);
            channel.send_frame(&greeting(&self.secret), frame).await?;
            Ok(channel)
        };
        opened.await.map_err(|error: io::Error| WireError::Unreachable(error.to_string()))
    }

    fn kept(&self, address: &str) -> Option<Channel<TcpStream>> {
        let mut kept = self.kept.lock();
        let kept = kept.get_mut(address)?;
        while let Some(Kept { channel, since }) = kept.pop() {
            if since.elapsed() < IDLE_TIMEOUT && is_open(channel.stream()) {
                return Some(channel);
            }
        }
        None
    }

    fn keep(&self, address: &str, channel: Channel<TcpStream>) {
        let since = Instant::now();
        let mut kept = self.kept.lock();
        if !kept.contains_key(address) {
            // An address that is new tells that another may be in use no more.
            kept.retain(|_, kept| kept.iter().any(|kept| kept.since.elapsed() < IDLE_TIMEOUT));
            kept.insert(address.to_owned(), Vec::new());
        }
        let Some(kept) = kept.get_mut(address).filter(|kept| kept.len() < KEPT_MAX) else { return };
        kept.push(Kept { channel, since });
    }

    #[cfg(test)]
    pub(super) fn kept_count(&self, address: &str) -> usize {
        self.kept.lock().get(address).map_or(0, Vec::len)
    }
}

/// Whether the other end has neither hung up nor spoken out of turn, as far as is known here.
fn is_open(stream: &TcpStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Connects to the first address of a name that lets it in; each has its share of the time.
async fn connect(address: &str) -> io::Result<TcpStream> {
    let targets: Vec<SocketAddr> = match address.parse() {
        Ok(target) => vec![target],
        Err(_) => lookup(address).await?,
    };
    let share = CONNECT_TIMEOUT / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut failed = io::Error::new(ErrorKind::NotFound, "its name has no address");
    for target in targets {
        match timeout(share, TcpStream::connect(target)).await {
            Ok(Ok(stream)) => {
                // Without it, Nagle's algorithm holds back every second small message.
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
        Box::pin(until_refused(address))
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

/// Keeps a connection that nothing is sent on; once it breaks, tries to make another. Only a machine that
/// is up refuses one, and only when no process listens there.
async fn until_refused(address: &str) {
    loop {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(mut stream)) => drop(stream.read(&mut [0]).await),
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok(Err(_)) | Err(_) => {}
        }
        sleep(RECONNECT_INTERVAL).await;
    }
}
