//! A key that proves a node's identity.

use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::sign::CertifiedKey;

/// A key with its certificate.
#[derive(Debug)]
pub(in super::super) struct NodeKey {
    /// The CA that signed the certificate, if a node has keys of several CAs.
    pub(in super::super) issuer: Option<DistinguishedName>,
    pub(in super::super) key: Arc<CertifiedKey>,
}
