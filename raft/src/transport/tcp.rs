//! The transport of real nodes: TCP connections that are kept, with one call at a time on each. A [`Layer`]
//! decides what runs on them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::channel::Channel;
use super::connect::Connector;
use super::interface::{
    FRAME_BYTES_MAX, FrameHandler, Peer, Reply, Target, Transport, TransportError,
};
use super::layer::Layer;
use super::server::Listener;
use crate::error::NodeError;
use crate::runtime::Pending;

/// A connection that was not used for this long is not used again. The listener waits longer than that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Unused connections to one peer that are kept at most.
const KEPT_MAX: usize = 16;
/// Pause before a broken connection is opened again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// Connects to the peers' listeners and, unless this node is a cluster of one, has a listener itself.
pub(crate) struct TcpTransport<L: Layer> {
    connector: Connector<L>,
    listens_on: Option<SocketAddr>,
    /// The listener, until it is served.
    listener: Mutex<Option<Listener>>,
    /// Connections that are not in use, by the address they were opened to; the most recently used one
    /// comes last.
    kept: Mutex<BTreeMap<String, Vec<Kept<L::Stream>>>>,
}

struct Kept<S> {
    channel: Channel<S>,
    since: Instant,
}

impl<L: Layer> TcpTransport<L> {
    /// Binds the listener. The current runtime will drive the connections. Members prove the secret to each
    /// other; it may be empty.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(
        address: Option<SocketAddr>,
        secret: Option<&[u8]>,
        layer: L,
    ) -> Result<Self, NodeError> {
        let listener = match address {
            None => None,
            Some(address) => {
                let bound = Listener::bind(address).await;
                Some(bound.map_err(|source| NodeError::Listen { address, source })?)
            }
        };
        Ok(Self {
            connector: Connector::new(Arc::new(layer), secret.unwrap_or_default().to_owned()),
            listens_on: listener.as_ref().and_then(|listener| listener.local_addr().ok()),
            listener: Mutex::new(listener),
            kept: Mutex::default(),
        })
    }

    async fn carry(&self, address: &str, frame: &[u8]) -> Result<Bytes, TransportError> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(TransportError::Unreachable(format!("{} bytes are no frame", frame.len())));
        }
        let mut channel = self.send(address, frame).await?;
        let answer = channel.receive_answer().await;
        let answer = answer.map_err(|error| TransportError::Lost(error.to_string()))?;
        // The other end hangs up after a refusal.
        let answer = answer.map_err(TransportError::Refused)?;
        self.keep(address, channel);
        Ok(answer)
    }

    /// Sends a frame on a connection that was kept, or else on a new one.
    async fn send(
        &self,
        address: &str,
        frame: &[u8],
    ) -> Result<Channel<L::Stream>, TransportError> {
        while let Some(mut channel) = self.kept(address) {
            // The peer may have restarted since. A frame that was not sent whole had no effect.
            if channel.send_frame(frame).await.is_ok() {
                return Ok(channel);
            }
        }
        let opened = async {
            let mut channel = self.connector.open(address).await?;
            channel.send_frame(frame).await?;
            Ok(channel)
        };
        opened.await.map_err(|error: io::Error| TransportError::Unreachable(error.to_string()))
    }

    fn kept(&self, address: &str) -> Option<Channel<L::Stream>> {
        let mut kept = self.kept.lock();
        let kept = kept.get_mut(address)?;
        while let Some(Kept { mut channel, since }) = kept.pop() {
            if since.elapsed() < IDLE_TIMEOUT && channel.is_silent() {
                return Some(channel);
            }
        }
        None
    }

    fn keep(&self, address: &str, channel: Channel<L::Stream>) {
        let since = Instant::now();
        let mut kept = self.kept.lock();
        let is_young = |kept: &Kept<L::Stream>| since.duration_since(kept.since) < IDLE_TIMEOUT;
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

impl<L: Layer> Transport for TcpTransport<L> {
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>> {
        Box::pin(async move {
            let bytes = self.carry(target.address, &frame).await?;
            Ok(Reply { from: Peer::Unproven, bytes })
        })
    }

    fn wait_refused<'a>(&'a self, target: Target<'a>) -> Pending<'a, ()> {
        Box::pin(until_refused(&self.connector, target.address))
    }

    fn serve(self: Arc<Self>, handler: Arc<dyn FrameHandler>) -> Pending<'static, ()> {
        let listener = self.listener.lock().take();
        Box::pin(async move {
            if let Some(listener) = listener {
                let secret = self.connector.secret().into();
                listener.serve(Arc::clone(self.connector.layer()), handler, secret).await;
            }
        })
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        self.listens_on
    }
}

/// Resolves when the machine at an address refuses a connection. It keeps a connection open on which it
/// sends nothing but its greeting, and tries to open another once that breaks. Only a machine that is up refuses a
/// connection, and only if no process listens there.
async fn until_refused<L: Layer>(connector: &Connector<L>, address: &str) {
    loop {
        match connector.open(address).await {
            Ok(mut channel) => {
                let _ = channel.greet().await;
                channel.interrupted().await;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            Err(_) => {}
        }
        sleep(RECONNECT_INTERVAL).await;
    }
}
