//! How a node proves itself to other nodes, and which proofs of theirs it accepts.

mod cluster_ca;
mod error;
mod key;
mod names;
mod pem_files;

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::UnixTime;

use cluster_ca::ClusterCa;
use pem_files::PemFiles;

pub use cluster_ca::SECRET_BYTES_MIN;
pub use error::CredentialsError;
pub(super) use key::NodeKey;
pub(super) use names::{CertifiedNode, certified_node, node_name};
pub use pem_files::PemBytes;

/// Maximum number of secrets at a time: the current one and the one before it.
pub const SECRETS_MAX: usize = 2;

/// How a node proves itself, and what it accepts. It holds keys, so its debug form does not show them.
pub struct Credentials(Kind);

enum Kind {
    Secrets(Vec<ClusterCa>),
    Files(PemFiles),
}

impl Credentials {
    /// Credentials of a cluster whose members share secrets. A node proves itself with the first secret that the
    /// other end accepts, and accepts a node that proves itself with any of them.
    ///
    /// # Errors
    /// When a secret is shorter than [`SECRET_BYTES_MIN`], or there are none or more than [`SECRETS_MAX`].
    pub fn from_secrets(secrets: &[impl AsRef<[u8]>]) -> Result<Self, CredentialsError> {
        if secrets.is_empty() || secrets.len() > SECRETS_MAX {
            let why =
                format!("{} secrets were given: 1 to {SECRETS_MAX} are possible", secrets.len());
            return Err(CredentialsError::Secret(why));
        }
        let cas = secrets.iter().map(|secret| ClusterCa::derive(secret.as_ref()));
        Ok(Self(Kind::Secrets(cas.collect::<Result<_, _>>()?)))
    }

    /// Credentials of a node whose certificate an operator's CA signed.
    ///
    /// # Errors
    /// When a file is not PEM with the expected contents, the key belongs to another certificate, or the certificate
    /// is not the CA's for `node-N.mintleaf`, where N is the node's id.
    pub fn from_pem(node_id: u64, files: &PemBytes) -> Result<Self, CredentialsError> {
        PemFiles::read(node_id, files).map(|files| Self(Kind::Files(files)))
    }

    /// When the node's own certificate or the last of its CAs expires, in Unix seconds, whichever comes first; `None`
    /// if nothing expires.
    #[must_use]
    pub fn expires_at_s(&self) -> Option<u64> {
        match &self.0 {
            Kind::Secrets(_) => None,
            Kind::Files(files) => Some(files.expires_at_s),
        }
    }

    /// What distinguishes these credentials, 32 hexadecimal digits each: the fingerprints of the public keys that
    /// the secrets give, the current one first, or that of the node's certificate. Every hello shows them to the other
    /// end, so they are no secret.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<String> {
        match &self.0 {
            Kind::Secrets(cas) => cas.iter().map(|ca| ca.fingerprint.clone()).collect(),
            Kind::Files(files) => vec![files.fingerprint.clone()],
        }
    }

    /// The CAs that this node accepts.
    pub(super) fn roots(&self) -> RootCertStore {
        match &self.0 {
            Kind::Secrets(cas) => {
                RootCertStore { roots: cas.iter().map(|ca| ca.anchor.clone()).collect() }
            }
            Kind::Files(files) => files.roots.clone(),
        }
    }

    /// The keys that may prove this node's identity, the preferred one first. A key of a shared secret is created
    /// here, for this node and its store.
    pub(super) fn certify(
        &self,
        node_id: u64,
        store: u128,
    ) -> Result<Vec<NodeKey>, CredentialsError> {
        match &self.0 {
            Kind::Secrets(cas) => cas.iter().map(|ca| ca.certify(node_id, store)).collect(),
            Kind::Files(files) => {
                Ok(vec![NodeKey { issuer: None, key: Arc::clone(&files.certified) }])
            }
        }
    }

    /// The time that certificates are judged by. Certificates of a shared secret do not expire, so a wrong clock
    /// cannot shut a member out.
    pub(super) fn judged_at(&self, now: Option<UnixTime>) -> Option<UnixTime> {
        match &self.0 {
            Kind::Secrets(_) => Some(cluster_ca::JUDGED_AT),
            Kind::Files(_) => now,
        }
    }

    /// What an operator should check if another node is not accepted.
    pub(super) fn remedy(&self) -> &'static str {
        match &self.0 {
            Kind::Secrets(_) => {
                "the cluster secret does not match: give every node the same --cluster-secret-file"
            }
            Kind::Files(_) => "check --raft-cert and --raft-ca of both nodes",
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Secrets(_) => "Credentials of a shared secret",
            Kind::Files(_) => "Credentials of an operator's CA",
        })
    }
}

/// How the nodes of a cluster prove themselves to each other.
#[derive(Clone, Debug)]
pub enum Security {
    /// Nodes prove nothing. Any process that reaches the internal port is trusted to be who it claims to be.
    Plain,
    /// TLS 1.3 at both ends, with the credentials that the channel holds at the time.
    Tls(tokio::sync::watch::Receiver<Arc<Credentials>>),
}

impl Security {
    /// [`Credentials::fingerprints`] of the credentials that the channel holds now.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        match self {
            Self::Plain => Vec::new(),
            Self::Tls(credentials) => credentials.borrow().fingerprints(),
        }
    }
}
