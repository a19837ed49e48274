//! A key by which a node proves itself.

use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::sign::CertifiedKey;

/// A key with its certificate.
#[derive(Debug)]
pub(in super::super) struct NodeKey {
    /// The CA that signed the certificate, where a node has keys of several.
    pub(in super::super) issuer: Option<DistinguishedName>,
    pub(in super::super) key: Arc<CertifiedKey>,
}
