//! How a node proves itself to clients, and what it asks of them.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::time::{JudgedBy, Tickets};
use crate::machine::clock::SystemClock;
use crate::metrics::Protocol;

/// The contents of an operator's PEM files.
#[derive(Clone, PartialEq, Eq)]
pub struct PemContents {
    /// The node's certificate, and those between it and the CA.
    pub certificate: Vec<u8>,
    /// Its private key: PKCS #8, SEC 1 or PKCS #1.
    pub key: Vec<u8>,
    /// The CAs that sign the certificates of clients, where clients have to show one.
    pub client_ca: Option<Vec<u8>>,
}

/// Why files cannot be used as credentials: the flag, and what is wrong with its file.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("--{flag} {why}")]
pub struct TlsError {
    flag: &'static str,
    why: String,
}

impl TlsError {
    fn new(flag: &'static str, why: impl fmt::Display) -> Self {
        Self { flag, why: why.to_string() }
    }
}

/// A node's end of TLS connections of clients, as of some moment.
#[derive(Clone, Debug)]
pub struct ClientTls {
    http: Arc<ServerConfig>,
    resp: Arc<ServerConfig>,
    /// What verifies the certificates of clients, if clients have to show one; and the file with the CAs.
    clients: Option<(Arc<dyn ClientCertVerifier>, Vec<u8>)>,
    expires_at_s: u64,
    names_a_node: bool,
}

/// The beginning and the end of the name that a node has towards other nodes.
const NODE_NAME: [&str; 2] = ["node-", ".mintleaf"];

impl ClientTls {
    /// Reads PEM files. A certificate that has expired is accepted: another part reports that, and it does not keep a
    /// node from starting.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn from_pem(files: &PemContents) -> Result<Self, TlsError> {
        let chain = certificates("tls-cert", &files.certificate)?;
        let Facts { expires_at_s, names_a_node } = facts(&chain[0])?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| {
            TlsError::new("tls-key", format_args!("holds no private key: {error}"))
        })?;
        let provider = Arc::new(default_provider());
        let certified =
            CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    TlsError::new("tls-key", "is not the key of --tls-cert")
                }
                error => TlsError::new("tls-key", error),
            })?;
        let unusable = |error: rustls::Error| TlsError::new("tls-cert", error);
        let clock = SystemClock::default();
        let config = ServerConfig::builder_with_details(provider, Arc::new(JudgedBy(clock)))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(unusable)?;
        let clients = match &files.client_ca {
            Some(ca) => Some((verifier(ca)?, ca.clone())),
            None => None,
        };
        let config = match &clients {
            Some((verifier, _)) => config.with_client_cert_verifier(Arc::clone(verifier)),
            None => config.with_no_client_auth(),
        };
        let mut resp =
            config.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        // A resumed session would be taken without a look at the client's certificate.
        let tickets = match clients {
            Some(_) => None,
            None => Tickets::new(clock).map_err(unusable)?,
        };
        match tickets {
            Some(tickets) => {
                resp.ticketer = Arc::new(tickets);
                resp.send_tls13_tickets = 1;
            }
            None => {
                resp.session_storage = Arc::new(NoServerSessionStorage {});
                resp.send_tls13_tickets = 0;
            }
        }
        let mut http = resp.clone();
        http.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (http, resp) = (Arc::new(http), Arc::new(resp));
        Ok(Self { http, resp, clients, expires_at_s, names_a_node })
    }

    /// When the certificate expires, in Unix seconds.
    pub fn expires_at_s(&self) -> u64 {
        self.expires_at_s
    }

    /// Whether the certificate has a name that nodes use to prove themselves to each other.
    pub fn names_a_node(&self) -> bool {
        self.names_a_node
    }

    /// Whether the CAs that verify clients are the same as those of `other`.
    pub(super) fn has_the_client_ca_of(&self, other: &Self) -> bool {
        match (&self.clients, &other.clients) {
            (Some((_, own)), Some((_, others))) => own == others,
            (own, others) => own.is_none() && others.is_none(),
        }
    }

    /// Whether one of the CAs of clients has signed this certificate, which stands first, and which was shown at that
    /// time. Where clients need no certificate, this is always true.
    pub(super) fn believes(&self, chain: &[CertificateDer<'_>], shown_at: UnixTime) -> bool {
        match (&self.clients, chain) {
            (Some((verifier, _)), [own, between @ ..]) => {
                verifier.verify_client_cert(own, between, shown_at).is_ok()
            }
            (Some(_), []) => false,
            (None, _) => true,
        }
    }

    pub(super) fn of(&self, protocol: Protocol) -> &Arc<ServerConfig> {
        match protocol {
            Protocol::Http => &self.http,
            Protocol::Resp => &self.resp,
        }
    }
}

fn certificates(flag: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found =
        found.map_err(|error| TlsError::new(flag, format_args!("is no PEM file: {error}")))?;
    if found.is_empty() { Err(TlsError::new(flag, "holds no certificate")) } else { Ok(found) }
}

/// What a certificate says of itself.
struct Facts {
    expires_at_s: u64,
    names_a_node: bool,
}

fn facts(certificate: &CertificateDer<'_>) -> Result<Facts, TlsError> {
    let parsed = X509Certificate::from_der(certificate);
    let (_, parsed) = parsed.map_err(|error| {
        TlsError::new("tls-cert", format_args!("holds no certificate: {error}"))
    })?;
    let expires_at_s = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let [begin, end] = NODE_NAME;
    let names_a_node = names.iter().any(|name| match name {
        GeneralName::DNSName(name) => {
            let name = name.to_ascii_lowercase();
            name.starts_with(begin) && name.ends_with(end)
        }
        _ => false,
    });
    Ok(Facts { expires_at_s, names_a_node })
}

/// Accepts clients whose certificate one of these CAs has signed, and no others.
fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    const FLAG: &str = "tls-client-ca";
    let unusable =
        |error: &dyn fmt::Display| TlsError::new(FLAG, format_args!("cannot be used: {error}"));
    let mut roots = RootCertStore::empty();
    for ca in certificates(FLAG, pem)? {
        roots.add(ca).map_err(|error| unusable(&error))?;
    }
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map(|verifier| verifier as _).map_err(|error| unusable(&error))
}
