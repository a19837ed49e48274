//! The transport of real nodes: TCP connections that are kept, with one call at a time on each. A [`Layer`]
//! decides what runs on them.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::channel::Answered;
use super::connect::{Connection, Connector};
use super::interface::{FRAME_BYTES_MAX, FrameHandler, Reply, Target, Transport, TransportError};
use super::kept::KeptConnections;
use super::layer::Layer;
use super::server::BoundAddress;
use crate::error::NodeError;
use crate::runtime::Pending;

/// Pause before a broken connection is opened again, after one that lasted.
const RECONNECT_MIN: Duration = Duration::from_millis(20);
/// Longest pause before a connection that keeps failing is tried again, for example to a node that does not accept
/// this one.
const RECONNECT_MAX: Duration = Duration::from_millis(640);

/// Connects to the peers' listeners and, unless this node is a cluster of one, has a listener itself.
pub(crate) struct TcpTransport<L: Layer> {
    connector: Connector<L>,
    listens_on: Option<SocketAddr>,
    /// The address, until it is served.
    bound: Mutex<Option<BoundAddress>>,
    kept: Arc<KeptConnections<L::Stream>>,
}

impl<L: Layer> TcpTransport<L> {
    /// Binds the address; once served, it keeps at most this many connections open. The transport's connections run
    /// on the current runtime.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) fn bind(
        address: Option<SocketAddr>,
        connections_max: usize,
        layer: L,
    ) -> Result<Self, NodeError> {
        let bind = |address| {
            let bound = BoundAddress::bind(address, connections_max);
            bound.map_err(|source| NodeError::Listen { address, source })
        };
        let bound = address.map(bind).transpose()?;
        Ok(Self {
            connector: Connector::new(Arc::new(layer)),
            listens_on: bound.as_ref().and_then(|bound| bound.local_addr().ok()),
            bound: Mutex::new(bound),
            kept: Arc::default(),
        })
    }

    async fn carry(&self, target: Target<'_>, frame: &[u8]) -> Result<Reply, TransportError> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(TransportError::Unreachable(format!("{} bytes are no frame", frame.len())));
        }
        let mut connection = self.send(target, frame).await?;
        let answered = connection.channel.receive_answer().await;
        let answered = answered.map_err(|error| {
            let refusal = self.connector.layer().refusal_of_proof(&error);
            refusal.map_or(TransportError::Lost(error.to_string()), TransportError::Unreachable)
        })?;
        // The other end hangs up after a refusal.
        let Answered { bytes, is_last } = answered.map_err(TransportError::Refused)?;
        let from = connection.proof.peer;
        if !is_last {
            self.kept.put(target.address, connection);
        }
        Ok(Reply { from, bytes })
    }

    /// Sends a frame on a kept connection, or else on a new one.
    async fn send(
        &self,
        target: Target<'_>,
        frame: &[u8],
    ) -> Result<Connection<L::Stream>, TransportError> {
        while let Some(mut connection) = self.kept.take(target) {
            // The peer may have restarted since. A frame that was not sent completely had no effect.
            if connection.channel.send_frame(frame).await.is_ok() {
                return Ok(connection);
            }
        }
        let opened = async {
            // A caller that gives up waiting leaves the connection to the next one. If opening takes longer than
            // callers wait, each would otherwise start over, and none would get through.
            let (kept, address) = (Arc::clone(&self.kept), target.address.to_owned());
            let leave = move |unclaimed| kept.put(&address, unclaimed);
            let mut connection = self.connector.open_or_leave(target, leave).await?;
            connection.channel.send_frame(frame).await?;
            Ok(connection)
        };
        opened.await.map_err(|error: io::Error| TransportError::Unreachable(error.to_string()))
    }

    #[cfg(test)]
    pub(super) async fn open(&self, target: Target<'_>) -> io::Result<Connection<L::Stream>> {
        self.connector.open(target).await
    }

    #[cfg(test)]
    pub(super) fn kept_count(&self, address: &str) -> usize {
        self.kept.count(address)
    }
}

impl<L: Layer> Transport for TcpTransport<L> {
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>> {
        Box::pin(async move { self.carry(target, &frame).await })
    }

    fn wait_refused<'a>(&'a self, target: Target<'a>) -> Pending<'a, ()> {
        Box::pin(until_refused(&self.connector, target))
    }

    fn serve(self: Arc<Self>, handler: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>> {
        let listener = self.bound.lock().take().map(BoundAddress::listen).transpose()?;
        Ok(Box::pin(async move {
            if let Some(listener) = listener {
                listener.serve(Arc::clone(self.connector.layer()), handler).await;
            }
        }))
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        self.listens_on
    }
}

/// Resolves when the machine at an address refuses a connection. It keeps a connection open without sending anything
/// on it, and tries to open another once that breaks. Only a machine that is up refuses a connection, and only if no
/// process listens there.
async fn until_refused<L: Layer>(connector: &Connector<L>, target: Target<'_>) {
    let mut pause = RECONNECT_MIN;
    loop {
        let began = Instant::now();
        match connector.open(target).await {
            Ok(Connection { mut channel, mut proof }) => tokio::select! {
                () = channel.interrupted() => {}
                // The other end would close a connection whose proof is outdated.
                () = proof.changed() => {}
            },
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            Err(_) => {}
        }
        let lasted = began.elapsed() > RECONNECT_MAX;
        pause = if lasted { RECONNECT_MIN } else { (pause * 2).min(RECONNECT_MAX) };
        sleep(pause).await;
    }
}
