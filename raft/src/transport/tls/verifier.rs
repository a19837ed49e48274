//! Which nodes a node accepts at the other end of a connection.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use super::super::credentials::{certified_node, node_name};

/// The name for a target that may be any node.
pub(super) const ANY_NODE: &str = "mintleaf";

/// Accepts a certificate that a CA of this cluster signed for a node: for the wanted node, if the caller knows which.
/// rustls judges the certificate and its chain. This verifier adds the check of the name.
#[derive(Debug)]
pub(super) struct NodeVerifier {
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
    authorities: Vec<DistinguishedName>,
}

impl NodeVerifier {
    pub(super) fn new(
        roots: RootCertStore,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, rustls::server::VerifierBuilderError> {
        let (authorities, roots) = (roots.subjects(), Arc::new(roots));
        let servers =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider));
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        Ok(Self { servers: servers.build()?, clients: clients.build()?, authorities })
    }

    /// Whether a certificate that was accepted before would be accepted again.
    pub(super) fn accepts(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> bool {
        self.verify_client_cert(certificate, intermediates, now).is_ok()
    }
}

/// The name of the one node that a certificate is for.
fn name_of(certificate: &CertificateDer<'_>) -> Result<ServerName<'static>, Error> {
    let unnamed = |_| Error::InvalidCertificate(CertificateError::NotValidForName);
    let named = certified_node(certificate).map_err(unnamed)?;
    let name = DnsName::try_from(node_name(named.node_id));
    Ok(ServerName::DnsName(name.map_err(|_| Error::General("no name".to_owned()))?))
}

fn any_node() -> ServerName<'static> {
    ServerName::DnsName(DnsName::try_from(ANY_NODE).expect("it is a name"))
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        wanted: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let named = name_of(certificate)?;
        // The chain comes first: a stranger is a stranger, no matter which name it uses.
        let verified = self.servers.verify_server_cert(
            certificate,
            intermediates,
            &named,
            ocsp_response,
            now,
        )?;
        if *wanted != any_node() && *wanted != named {
            return Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected: wanted.to_owned(),
                presented: vec![named.to_str().into_owned()],
            }));
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.servers.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.servers.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.servers.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        Some(&self.authorities)
    }
}

impl ClientCertVerifier for NodeVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        name_of(certificate)?;
        self.clients.verify_client_cert(certificate, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.clients.supported_verify_schemes()
    }
}
