//! The credentials of a node towards other nodes, kept in step with its files.

use std::sync::Arc;

use mintleaf_raft::Credentials;
use tokio::sync::watch;

use super::expiry::Expiry;
use super::followed_files::FollowedFiles;
use crate::config::{ConfigError, KeyFiles, PeerKeys};
use crate::machine::clock::{Clock, SystemClock};
use crate::metrics::{Metrics, Reloaded};
use crate::text::fingerprints::brief;

/// Keeps what other parts of the node watch up to date with the files.
#[derive(Clone)]
pub(super) struct PeerCredentials {
    keys: PeerKeys,
    node_id: u64,
    current: watch::Sender<Arc<Credentials>>,
}

impl PeerCredentials {
    /// Reads the files of a node that starts, and returns what they hold, too.
    ///
    /// # Errors
    /// When they hold no credentials.
    pub(super) fn open(keys: PeerKeys, node_id: u64) -> Result<(Self, KeyFiles), ConfigError> {
        let seen = keys.read()?;
        let current = keys.credentials(node_id, &seen)?;
        keys.warn_if_exposed();
        Ok((Self { keys, node_id, current: watch::Sender::new(Arc::new(current)) }, seen))
    }

    /// The credentials at any time.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<Credentials>> {
        self.current.subscribe()
    }
}

impl FollowedFiles for PeerCredentials {
    const WHAT: &'static str = "keys between nodes";
    const LABEL: Reloaded = Reloaded::PeerKeys;
    type Content = KeyFiles;

    fn read(&self) -> Result<KeyFiles, ConfigError> {
        self.keys.read()
    }

    fn take(&mut self, files: &KeyFiles) -> Result<(), ConfigError> {
        let PeerCredentials { keys, node_id, current } = self;
        current.send_replace(Arc::new(keys.credentials(*node_id, files)?));
        keys.warn_if_exposed();
        Ok(())
    }

    fn keys(&self) -> Option<String> {
        Some(brief(self.current.borrow().fingerprints().iter().map(String::as_str)))
    }

    fn before_look(&self, metrics: &Metrics, look: u32) {
        let Some(expires_at_s) = self.current.borrow().expires_at_s() else { return };
        metrics.peer_certificate_expires(expires_at_s);
        let left_s = expires_at_s.saturating_sub(SystemClock::default().now_ms() / 1_000);
        match Expiry::to_report(left_s, look) {
            None => {}
            Some(Expiry::Expired) => tracing::error!(
                "the certificate of --raft-cert has expired: new connections to other nodes fail, and only those \
                 that are open go on; a restart or a failover would cut this node off; replace the file"
            ),
            Some(Expiry::Near { days }) => tracing::warn!(
                days,
                "the certificate of --raft-cert is about to expire; replace the file: afterwards, other nodes will \
                 not accept new connections from this node"
            ),
        }
    }
}
