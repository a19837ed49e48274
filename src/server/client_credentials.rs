//! The credentials of a node towards clients, kept as its files are.

use std::sync::Arc;

use tokio::sync::watch;

use super::followed_files::{FollowedFiles, follow};
use super::peer_credentials::{EXPIRY_WARNING_S, LOOKS_PER_WARNING};
use super::signals::Reload;
use crate::clock::{Clock, SystemClock};
use crate::config::{ClientTlsFiles, ConfigError};
use crate::metrics::Metrics;
use crate::service::Services;
use crate::tls::{ClientTls, PemContents};

/// Keeps the credentials for new connections up to date with the files.
pub(super) struct ClientCredentials {
    files: ClientTlsFiles,
    /// What the files held at the start.
    seen: PemContents,
    current: watch::Sender<Arc<ClientTls>>,
}

impl ClientCredentials {
    /// Reads the files of a node that starts.
    ///
    /// # Errors
    /// When they hold no credentials.
    pub(super) fn open(files: ClientTlsFiles) -> Result<Self, ConfigError> {
        let seen = files.read()?;
        let current = files.credentials(&seen)?;
        files.warn_if_exposed();
        Ok(Self { files, seen, current: watch::Sender::new(Arc::new(current)) })
    }

    /// The credentials at any time.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<ClientTls>> {
        self.current.subscribe()
    }

    /// Reads the files again when they change, and on a signal, for as long as it is polled. Files that cannot
    /// be used change nothing.
    pub(super) async fn follow(self, reload: Reload, services: Services) {
        let seen = self.seen.clone();
        follow(Following { credentials: self, services }, seen, reload).await;
    }

    fn report_expiry(&self, metrics: &Metrics, now_ms: u64, look: u32) {
        let expires_at_s = self.current.borrow().expires_at_s();
        metrics.client_certificate_expires(expires_at_s);
        let left_s = expires_at_s.saturating_sub(now_ms / 1_000);
        if left_s < EXPIRY_WARNING_S && look.is_multiple_of(LOOKS_PER_WARNING) {
            let days = left_s / (24 * 3600);
            tracing::warn!(
                days,
                "the certificate of --tls-cert is about to expire, or has expired; replace the file: clients \
                 will not accept this node then"
            );
        }
    }
}

/// Credentials that follow their files, and where to report when they expire.
struct Following {
    credentials: ClientCredentials,
    services: Services,
}

impl FollowedFiles for Following {
    const WHAT: &'static str = "certificates for clients";
    type Content = PemContents;

    fn reader(&self) -> impl FnOnce() -> Result<PemContents, ConfigError> + Send + 'static {
        let files = self.credentials.files.clone();
        move || files.read()
    }

    fn take(&mut self, contents: &PemContents) -> Result<(), ConfigError> {
        let ClientCredentials { files, current, .. } = &self.credentials;
        current.send_replace(Arc::new(files.credentials(contents)?));
        Ok(())
    }

    fn before_look(&self, look: u32) {
        let now_ms = SystemClock::default().now_ms();
        self.credentials.report_expiry(self.services.ids.metrics(), now_ms, look);
    }
}
