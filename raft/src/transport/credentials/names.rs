//! The names in a node's certificate: `node-N.mintleaf`, and its store if the certificate was made from a secret.

use rustls::pki_types::{CertificateDer, DnsName, ServerName};
use webpki::EndEntityCert;

const DOMAIN: &str = ".mintleaf";
const NODE: &str = "node-";
const STORE: &str = "store-";

/// The node that a certificate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct CertifiedNode {
    pub(in super::super) node_id: u64,
    pub(in super::super) store: Option<u128>,
}

/// The name of a node in its certificate.
pub(in super::super) fn node_name(node_id: u64) -> String {
    format!("{NODE}{node_id}{DOMAIN}")
}

/// The name of a node's data directory in its certificate.
pub(super) fn store_name(store: u128) -> String {
    format!("{STORE}{store:032x}{DOMAIN}")
}

/// Reads which node a certificate names. Whether to believe it is the verifier's decision.
///
/// # Errors
/// When it names no node, or more than one.
pub(in super::super) fn certified_node(
    certificate: &CertificateDer<'_>,
) -> Result<CertifiedNode, webpki::Error> {
    let certificate = EndEntityCert::try_from(certificate)?;
    let (mut nodes, mut stores) = (Vec::new(), Vec::new());
    for name in certificate.valid_dns_names() {
        let Some(label) = name.strip_suffix(DOMAIN) else { continue };
        if let Some(number) = label.strip_prefix(NODE) {
            // A second spelling of a number would be a second name of the same node.
            let id = number.parse().ok().filter(|id: &u64| *id >= 1 && id.to_string() == number);
            nodes.extend(id.map(|id| (id, name)));
        } else if let Some(number) = label.strip_prefix(STORE) {
            stores.push(u128::from_str_radix(number, 16).map_err(|_| webpki::Error::BadDer)?);
        }
    }
    let ([(node_id, name)], [] | [_]) = (&nodes[..], &stores[..]) else {
        return Err(webpki::Error::UnknownIssuer);
    };
    let dns_name = DnsName::try_from(*name).map_err(|_| webpki::Error::BadDer)?;
    certificate.verify_is_valid_for_subject_name(&ServerName::DnsName(dns_name))?;
    Ok(CertifiedNode { node_id: *node_id, store: stores.first().copied() })
}
