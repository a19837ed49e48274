//! A key that proves a node's identity.

use std::sync::Arc;

use ring::digest;
use rustls::DistinguishedName;
use rustls::sign::CertifiedKey;

/// A key with its certificate.
#[derive(Debug)]
pub(in super::super) struct NodeKey {
    /// The CA that signed the certificate, if a node has keys of several CAs.
    pub(in super::super) issuer: Option<DistinguishedName>,
    pub(in super::super) key: Arc<CertifiedKey>,
}

/// What distinguishes a key or a certificate: the first 128 bits of its SHA-256, in hexadecimal digits.
pub(super) fn fingerprint_of(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
