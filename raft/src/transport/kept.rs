//! Connections that are not in use, kept for the next call.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::connect::Connection;
use super::interface::{Peer, Target};

/// A connection that was not used for this long is not used again. The listener waits longer than that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of unused connections kept to one peer.
const KEPT_MAX: usize = 16;
/// Connections that are not in use, by the address they were opened to; the most recently used one comes last.
pub(super) struct KeptConnections<S>(Mutex<BTreeMap<String, Vec<Kept<S>>>>);

struct Kept<S> {
    connection: Connection<S>,
    since: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Kept<S> {
    /// Whether the connection can carry a call to a node. The other end must not have hung up since, and must be the
    /// wanted node, with a proof that is not outdated.
    fn fits(&mut self, node_id: Option<u64>) -> bool {
        let Connection { channel, proof } = &mut self.connection;
        let is_wanted = match (node_id, proof.peer) {
            (Some(wanted), Peer::Proven { node_id, .. }) => wanted == node_id,
            (None, _) | (_, Peer::Unproven) => true,
        };
        is_wanted
            && self.since.elapsed() < IDLE_TIMEOUT
            && !proof.is_outdated()
            && channel.is_silent()
    }
}

impl<S> Default for KeptConnections<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> KeptConnections<S> {
    /// Takes a connection that can carry a call.
    pub(super) fn take(&self, target: Target<'_>) -> Option<Connection<S>> {
        let mut kept = self.0.lock();
        let kept = kept.get_mut(target.address)?;
        while let Some(mut last) = kept.pop() {
            if last.fits(target.node_id) {
                return Some(last.connection);
            }
        }
        None
    }

    pub(super) fn put(&self, address: &str, connection: Connection<S>) {
        let since = Instant::now();
        let mut kept = self.0.lock();
        let is_young = |kept: &Kept<S>| since.duration_since(kept.since) < IDLE_TIMEOUT;
        kept.retain(|_, kept| {
            // The connections are sorted by time: a used connection is put back last.
            let old = kept.partition_point(|kept| !is_young(kept));
            kept.drain(..old);
            !kept.is_empty()
        });
        let kept = kept.entry(address.to_owned()).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(Kept { connection, since });
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self, address: &str) -> usize {
        self.0.lock().get(address).map_or(0, Vec::len)
    }
}
