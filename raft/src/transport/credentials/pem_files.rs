//! The certificate, key and CA that an operator supplies for a node.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::error::CredentialsError;
use super::key::fingerprint_of;
use super::names::{certified_node, node_name};

/// The contents of an operator's PEM files.
pub struct PemBytes {
    /// The node's certificate, and any between it and the CA.
    pub certificate: Vec<u8>,
    /// Its private key: PKCS #8, SEC 1 or PKCS #1.
    pub key: Vec<u8>,
    /// The CAs that sign the certificates of nodes.
    pub ca: Vec<u8>,
}

pub(super) struct PemFiles {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) roots: RootCertStore,
    pub(super) expires_at_s: u64,
    /// Of the node's certificate.
    pub(super) fingerprint: String,
}

impl PemFiles {
    pub(super) fn read(node_id: u64, files: &PemBytes) -> Result<Self, CredentialsError> {
        let chain = certificates("--raft-cert", &files.certificate)?;
        let cas = certificates("--raft-ca", &files.ca)?;
        let key = PrivateKeyDer::from_pem_slice(&files.key)
            .map_err(|error| fault("--raft-key", format_args!("holds no private key: {error}")))?;
        let mut roots = RootCertStore::empty();
        for ca in &cas {
            let added = roots.add(ca.clone());
            added.map_err(|error| fault("--raft-ca", format_args!("cannot be used: {error}")))?;
        }
        let [own, intermediates @ ..] = &chain[..] else {
            return Err(fault("--raft-cert", "holds no certificate"));
        };
        let [valid_from_s, expires_at_s] = validity("--raft-cert", own)?;
        check_name(node_id, own)?;
        // Structure and CA are judged as of a moment when the certificate is valid. Whether it has expired by now is
        // reported, but does not keep a node from starting.
        let middle =
            UnixTime::since_unix_epoch(Duration::from_secs(valid_from_s.midpoint(expires_at_s)));
        check_chain(own, intermediates, &roots, middle)?;
        let fingerprint = fingerprint_of(own);
        let certified = CertifiedKey::from_der(chain, key, &default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                fault("--raft-key", "is not the key of --raft-cert")
            }
            error => fault("--raft-key", error),
        })?;
        Ok(Self { certified: Arc::new(certified), roots, expires_at_s, fingerprint })
    }
}

fn certificates(flag: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| fault(flag, format_args!("is no PEM file: {error}")))?;
    if found.is_empty() { Err(fault(flag, "holds no certificate")) } else { Ok(found) }
}

/// The start and the end of a certificate's validity, in Unix seconds.
fn validity(flag: &str, certificate: &CertificateDer<'_>) -> Result<[u64; 2], CredentialsError> {
    let parsed = X509Certificate::from_der(certificate);
    let (_, parsed) =
        parsed.map_err(|error| fault(flag, format_args!("holds no certificate: {error}")))?;
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
    let validity = parsed.validity();
    Ok([seconds(validity.not_before.timestamp()), seconds(validity.not_after.timestamp())])
}

fn check_name(node_id: u64, own: &CertificateDer<'_>) -> Result<(), CredentialsError> {
    let name = node_name(node_id);
    match certified_node(own) {
        Ok(named) if named.node_id == node_id => Ok(()),
        Ok(named) => {
            let theirs = node_name(named.node_id);
            Err(fault("--raft-cert", format_args!("is for {theirs}, and this node is {name}")))
        }
        Err(_) => Err(fault("--raft-cert", format_args!("has to be for the one DNS name {name}"))),
    }
}

fn check_chain(
    own: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    at: UnixTime,
) -> Result<(), CredentialsError> {
    let certificate = EndEntityCert::try_from(own).map_err(|error| fault("--raft-cert", error))?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    for usage in [KeyUsage::server_auth(), KeyUsage::client_auth()] {
        let verified = certificate.verify_for_usage(
            algorithms,
            &roots.roots,
            intermediates,
            at,
            usage,
            None,
            None,
        );
        verified.map_err(|error| {
            let why = format_args!(
                "would not be accepted by nodes with this --raft-ca, as server and as client: {error}"
            );
            fault("--raft-cert", why)
        })?;
    }
    Ok(())
}

fn fault(flag: &str, why: impl std::fmt::Display) -> CredentialsError {
    CredentialsError::Certificate(format!("{flag} {why}"))
}
