//! The files that a node proves itself with to clients.

use std::path::{Path, PathBuf};

use super::error::{ConfigError, fault};
use super::named_file::{self, Kept, PEM_BYTES_MAX};
use crate::connection::tls::{ClientTls, PemContents};

/// Where a node's certificate for clients is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// The certificate and those between it and the CA.
    certificate: PathBuf,
    /// Its private key.
    key: PathBuf,
    /// The CAs that sign the certificates of clients, where clients have to show one.
    client_ca: Option<PathBuf>,
}

impl ClientTlsFiles {
    /// The files that `--tls-cert`, `--tls-key` and `--tls-client-ca` name, if any.
    ///
    /// # Errors
    /// When one of them is given without what it needs.
    pub(super) fn of(
        [certificate, key, client_ca]: [Option<PathBuf>; 3],
    ) -> Result<Option<Self>, ConfigError> {
        match (certificate, key, client_ca) {
            (Some(certificate), Some(key), client_ca) => {
                Ok(Some(Self { certificate, key, client_ca }))
            }
            (None, None, None) => Ok(None),
            (None, None, Some(_)) => Err(fault(
                "tls-client-ca",
                "needs --tls-cert and --tls-key: clients are asked within TLS",
            )),
            _ => Err(fault("tls-cert", "needs --tls-key, and --tls-key needs --tls-cert")),
        }
    }

    /// These files, without CAs of clients.
    #[cfg(test)]
    pub(crate) fn at(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, client_ca: None }
    }

    /// Where the private key is.
    pub(crate) fn key(&self) -> &Path {
        &self.key
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read, or is too long.
    pub fn read(&self) -> Result<PemContents, ConfigError> {
        let read = |flag, path: &PathBuf, kept| named_file::read(flag, path, PEM_BYTES_MAX, kept);
        let read_ca = |ca: &PathBuf| read("tls-client-ca", ca, Kept::Public);
        Ok(PemContents {
            certificate: read("tls-cert", &self.certificate, Kept::Public)?,
            key: read("tls-key", &self.key, Kept::Owned)?,
            client_ca: self.client_ca.as_ref().map(read_ca).transpose()?,
        })
    }

    /// The credentials that the files hold.
    ///
    /// # Errors
    /// When they hold none that can be used.
    pub fn credentials(&self, files: &PemContents) -> Result<ClientTls, ConfigError> {
        ClientTls::from_pem(files).map_err(ConfigError::of)
    }

    /// Warns of a key that other users of this machine can read.
    pub fn warn_if_exposed(&self) {
        named_file::warn_if_exposed(&self.key);
    }
}
