//! The CAs that a client trusts, and the certificate that it presents.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::named_certificates::NamedCertificates;
use crate::error::Error;

/// PEM texts from the user.
#[derive(Clone, Default)]
pub(crate) struct Pem {
    /// CAs that must have signed the nodes' certificates; the machine's own when this is `None`.
    pub(crate) cas: Option<Vec<u8>>,
    /// The client's certificate, any intermediate certificates up to its CA, and its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// The settings of TLS connections.
pub(crate) fn config(pem: &Pem) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (cas, named) = believed(pem.cas.as_deref())?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| fault("tls", &error))?;
    // A machine that trusts no CA trusts no node; each request then reports that.
    let builder = match cas.is_empty() {
        true => builder.with_root_certificates(cas),
        false => {
            let verifier = NamedCertificates::new(cas, named, provider)
                .map_err(|error| fault("tls", &error))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let mut config = match &pem.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = certificates("identity", chain)?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| fault("the key of the identity", &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| fault("identity", &error))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The CAs to trust, and the certificates that the user has listed.
fn believed(cas: Option<&[u8]>) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), Error> {
    let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
    match cas {
        Some(pem) => {
            named = certificates("ca_pem", pem)?;
            for certificate in &named {
                roots.add(certificate.clone()).map_err(|error| fault("ca_pem", &error))?;
            }
        }
        None => {
            // CAs of the machine that cannot be parsed are left out. A node that needs one of them is not trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok((roots, named))
}

fn certificates(name: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| fault(name, &error))?;
    if certificates.is_empty() {
        return Err(Error::InvalidArgument(format!("{name} holds no certificate in PEM")));
    }
    Ok(certificates)
}

fn fault(name: &str, error: &dyn std::fmt::Display) -> Error {
    Error::InvalidArgument(format!("{name}: {error}"))
}
