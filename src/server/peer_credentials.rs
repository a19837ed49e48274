//! The credentials of a node towards other nodes, kept as its files are.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_raft::Credentials;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::signals::Reload;
use crate::clock::{Clock, SystemClock};
use crate::config::{ConfigError, KeyFiles, PeerKeys};
use crate::metrics::Metrics;
use crate::service::Services;

/// Time between two looks at the files, which a signal cuts short.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long before its end a certificate is warned of.
const EXPIRY_WARNING_S: u64 = 30 * 24 * 3600;
/// A certificate that is about to expire is warned of once in so many looks: four times a day.
const LOOKS_PER_WARNING: u32 = 6 * 3600 / 5;

/// Keeps what other parts of the node watch up to date with the files.
pub(super) struct PeerCredentials {
    keys: PeerKeys,
    node_id: u64,
    /// What the files held at the last look, usable or not.
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
    pub(super) async fn follow(mut self, mut reload: Reload, services: Services) {
        let clock = SystemClock::default();
        for look in 0.. {
            self.report_expiry(services.ids.metrics(), clock.now_ms(), look);
            let asked = timeout(LOOK_INTERVAL, reload.asked()).await.is_ok();
            let keys = self.keys.clone();
            match tokio::task::spawn_blocking(move || keys.read()).await {
                Ok(Ok(files)) => self.take(files, asked),
                Ok(Err(error)) if asked => {
                    tracing::error!(%error, "cannot read the keys between nodes again");
                }
                // A file may be missing for a moment while it is replaced.
                Ok(Err(_)) => {}
                // The runtime is ending.
                Err(_) => sleep(LOOK_INTERVAL).await,
            }
        }
    }

    fn take(&mut self, files: KeyFiles, asked: bool) {
        if files == self.seen {
            if asked {
                tracing::info!("the keys between nodes are unchanged");
            }
            return;
        }
        match self.keys.credentials(self.node_id, &files) {
            Ok(credentials) => {
                self.current.send_replace(Arc::new(credentials));
                tracing::info!("took new keys between nodes into use");
            }
            Err(error) => {
                tracing::error!(%error, "new keys between nodes cannot be used; the old ones stay");
            }
        }
        self.seen = files;
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
