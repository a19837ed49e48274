//! Strangers that speak TLS 1.3, with all kinds of certificates that they can make.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};

use crate::harness::secs;

/// The protocol that nodes agree on.
const ALPN: &[u8] = b"mintleaf/3";

/// The certificate and key of a stranger.
pub(super) struct Certified {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Certified {
    /// A certificate for a name, signed by its own key.
    pub(super) fn self_signed(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
        Self { chain: vec![made.der().clone()], key: private(&key) }
    }

    /// A certificate for a name, signed by an unknown CA.
    pub(super) fn of_another_ca(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        Self { chain: vec![made.der().clone(), ca.der().clone()], key: private(&key) }
    }
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.serialize_der()).into()
}

/// Connects to a node's internal port, accepts any certificate, and sends a frame. Returns the node's answer up
/// to the end of the connection, and how the connection ended.
pub(super) fn send_frame(
    to: SocketAddr,
    proof: Option<Certified>,
    frame: &[u8],
) -> (Vec<u8>, io::Result<()>) {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(BelievesAll));
    let mut config = match proof {
        Some(Certified { chain, key }) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    let tcp = TcpStream::connect_timeout(&to, secs(10)).unwrap();
    tcp.set_read_timeout(Some(secs(10))).unwrap();
    let name = ServerName::try_from("mintleaf").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let (mut stream, mut heard) = (StreamOwned::new(session, tcp), Vec::new());
    let length = u32::try_from(frame.len()).unwrap().to_le_bytes();
    let ended = stream
        .write_all(&[&length, frame].concat())
        .and_then(|()| stream.read_to_end(&mut heard).map(drop));
    (heard, ended)
}

/// Serves a connection as a TLS server with a certificate from an unknown CA. Returns what the caller sent
/// after it had accepted the server.
pub(super) fn serve(mut tcp: impl Read + Write, name: &str) -> Vec<u8> {
    let Certified { chain, key } = Certified::of_another_ca(name);
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let mut session = ServerConnection::new(Arc::new(config)).unwrap();
    let mut said = Vec::new();
    // The error is the caller's: it ends the handshake, or the connection.
    let _ = rustls::Stream::new(&mut session, &mut tcp).read_to_end(&mut said);
    said
}

/// Accepts every certificate.
#[derive(Debug)]
struct BelievesAll;

impl ServerCertVerifier for BelievesAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
