//! The credentials of a node towards clients, kept in step with its files.

use std::sync::Arc;

use tokio::sync::watch;

use super::expiry::Expiry;
use super::followed_files::FollowedFiles;
use crate::config::{ClientTlsFiles, ConfigError};
use crate::connection::tls::{ClientTls, PemContents};
use crate::machine::clock::{Clock, SystemClock};
use crate::metrics::{Metrics, Reloaded};

/// Keeps the credentials for new connections up to date with the files.
#[derive(Clone)]
pub(super) struct ClientCredentials {
    files: ClientTlsFiles,
    current: watch::Sender<Arc<ClientTls>>,
}

impl ClientCredentials {
    /// Reads the files of a node that starts, and returns what they hold, too.
    ///
    /// # Errors
    /// When they hold no credentials.
    pub(super) fn open(files: ClientTlsFiles) -> Result<(Self, PemContents), ConfigError> {
        let seen = files.read()?;
        let current = files.credentials(&seen)?;
        files.warn_if_exposed();
        warn_of_a_nodes_name(&current);
        Ok((Self { files, current: watch::Sender::new(Arc::new(current)) }, seen))
    }

    /// The credentials at any time.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<ClientTls>> {
        self.current.subscribe()
    }
}

/// Warns if the key of the certificate proves more than clients have to know.
fn warn_of_a_nodes_name(credentials: &ClientTls) {
    if credentials.names_a_node() {
        tracing::warn!(
            "the certificate of --tls-cert bears the name of a node: where a CA of --raft-ca has signed it, whoever \
             steals its key can impersonate that node; `mintleaf cert server` makes one for clients alone"
        );
    }
}

impl FollowedFiles for ClientCredentials {
    const WHAT: &'static str = "certificates for clients";
    const LABEL: Reloaded = Reloaded::ClientCertificates;
    type Content = PemContents;

    fn read(&self) -> Result<PemContents, ConfigError> {
        self.files.read()
    }

    fn take(&mut self, contents: &PemContents) -> Result<(), ConfigError> {
        let new = self.files.credentials(contents)?;
        warn_of_a_nodes_name(&new);
        self.current.send_replace(Arc::new(new));
        self.files.warn_if_exposed();
        Ok(())
    }

    fn before_look(&self, metrics: &Metrics, look: u32) {
        let expires_at_s = self.current.borrow().expires_at_s();
        metrics.client_certificate_expires(expires_at_s);
        let left_s = expires_at_s.saturating_sub(SystemClock::default().now_ms() / 1_000);
        match Expiry::to_report(left_s, look) {
            None => {}
            Some(Expiry::Expired) => tracing::error!(
                "the certificate of --tls-cert has expired: clients refuse this node on new connections; replace \
                 the file"
            ),
            Some(Expiry::Near { days }) => tracing::warn!(
                days,
                "the certificate of --tls-cert is about to expire; replace the file: afterwards, clients will not \
                 accept this node"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_are_for_the_connections_that_begin_from_then_on() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = ["node.pem", "node.key"].map(|name| dir.path().join(name));
        let write = |days: u8| {
            let own = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(2050, 1, days);
            std::fs::write(&certificate, params.self_signed(&own).unwrap().pem()).unwrap();
            std::fs::write(&key, own.serialize_pem()).unwrap();
        };
        write(1);
        let files = ClientTlsFiles::at(certificate.clone(), key.clone());
        let (mut credentials, _) = ClientCredentials::open(files.clone()).unwrap();
        let watched = credentials.watch();
        let before = watched.borrow().expires_at_s();
        write(2);
        credentials.take(&files.read().unwrap()).unwrap();
        assert_eq!(watched.borrow().expires_at_s() - before, 24 * 3600);
        std::fs::write(&key, "no key").unwrap();
        assert!(credentials.take(&files.read().unwrap()).is_err());
        assert_eq!(watched.borrow().expires_at_s() - before, 24 * 3600, "the old ones stay");
    }
}
