//! The credentials of a node towards other nodes, kept as its files are.

use std::sync::Arc;

use mintleaf_raft::Credentials;
use tokio::sync::watch;

use super::followed_files::{FollowedFiles, follow};
use super::signals::Reload;
use crate::clock::{Clock, SystemClock};
use crate::config::{ConfigError, KeyFiles, PeerKeys};
use crate::metrics::Metrics;
use crate::service::Services;

/// How long before its end a certificate is warned of.
pub(super) const EXPIRY_WARNING_S: u64 = 30 * 24 * 3600;
/// A certificate that is about to expire is warned of once in so many looks: four times a day.
pub(super) const LOOKS_PER_WARNING: u32 = 6 * 3600 / 5;

/// Keeps what other parts of the node watch up to date with the files.
pub(super) struct PeerCredentials {
    keys: PeerKeys,
    node_id: u64,
    /// What the files held at the start.
    seen: KeyFiles,
    current: watch::Sender<Arc<Credentials>>,
}

impl PeerCredentials {
    /// Reads the files of a node that starts.
    ///
    /// # Errors
    /// When they hold no credentials.
    pub(super) fn open(keys: PeerKeys, node_id: u64) -> Result<Self, ConfigError> {
        let seen = keys.read()?;
        let current = keys.credentials(node_id, &seen)?;
        keys.warn_if_exposed();
        Ok(Self { keys, node_id, seen, current: watch::Sender::new(Arc::new(current)) })
    }

    /// The credentials at any time.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<Credentials>> {
        self.current.subscribe()
    }

    /// Reads the files again when they change, and on a signal, for as long as it is polled. Files that cannot
    /// be used change nothing.
    pub(super) async fn follow(self, reload: Reload, services: Services) {
        let seen = self.seen.clone();
        follow(Following { credentials: self, services }, seen, reload).await;
    }

    fn report_expiry(&self, metrics: &Metrics, now_ms: u64, look: u32) {
        let Some(expires_at_s) = self.current.borrow().expires_at_s() else { return };
        metrics.peer_certificate_expires(expires_at_s);
        let left_s = expires_at_s.saturating_sub(now_ms / 1_000);
        if left_s < EXPIRY_WARNING_S && look.is_multiple_of(LOOKS_PER_WARNING) {
            let days = left_s / (24 * 3600);
            tracing::warn!(
                days,
                "the certificate of --raft-cert is about to expire, or has expired; replace the file: other \
                 nodes will not accept this node then"
            );
        }
    }
}

/// Credentials that follow their files, and where to report when they expire.
struct Following {
    credentials: PeerCredentials,
    services: Services,
}

impl FollowedFiles for Following {
    const WHAT: &'static str = "keys between nodes";
    type Content = KeyFiles;

    fn reader(&self) -> impl FnOnce() -> Result<KeyFiles, ConfigError> + Send + 'static {
        let keys = self.credentials.keys.clone();
        move || keys.read()
    }

    fn take(&mut self, files: &KeyFiles) -> Result<(), ConfigError> {
        let PeerCredentials { keys, node_id, current, .. } = &self.credentials;
        current.send_replace(Arc::new(keys.credentials(*node_id, files)?));
        Ok(())
    }

    fn before_look(&self, look: u32) {
        let now_ms = SystemClock::default().now_ms();
        self.credentials.report_expiry(self.services.ids.metrics(), now_ms, look);
    }
}
