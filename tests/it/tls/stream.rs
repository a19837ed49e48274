//! A client that speaks HTTP within TLS, on connections that stay open.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned};

use crate::harness::{RedisClient, secs};
use crate::kept::Kept;

/// A client, with the CAs that it trusts.
#[derive(Clone)]
pub(super) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    pub(super) fn believing(cas: &[PathBuf]) -> Self {
        Self(Arc::new(believing(cas).with_no_client_auth()))
    }

    /// The same, with the client certificate in the first of these files.
    pub(super) fn showing([certificate, key]: &[PathBuf; 2], cas: &[PathBuf]) -> Self {
        let chain = CertificateDer::pem_file_iter(certificate).unwrap();
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        Self(Arc::new(believing(cas).with_client_auth_cert(chain, key).unwrap()))
    }

    pub(super) fn open(&self, node: SocketAddr) -> Kept<TlsStream> {
        Kept(BufReader::new(self.stream(node)))
    }

    /// A client of the Redis protocol.
    pub(super) fn redis(&self, node: SocketAddr) -> RedisClient<TlsStream> {
        RedisClient::over(self.stream(node))
    }

    fn stream(&self, node: SocketAddr) -> TlsStream {
        let tcp = TcpStream::connect(node).unwrap();
        tcp.set_read_timeout(Some(secs(20))).unwrap();
        self.over(tcp)
    }

    /// A session over an open connection.
    pub(super) fn over(&self, tcp: TcpStream) -> TlsStream {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(&self.0), name).unwrap();
        StreamOwned::new(session, tcp)
    }
}

/// A connection that speaks TLS.
pub(super) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl Kept<TlsStream> {
    /// GET. Returns the status and the body.
    pub(super) fn get(&mut self, path: &str) -> (u16, String) {
        self.get_with(path, "")
    }

    /// POST of JSON with these header lines. Returns the status and the body.
    pub(super) fn post_with(&mut self, path: &str, headers: &str, json: &str) -> (u16, String) {
        let length = json.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{headers}\r\n{json}"
        ));
        self.answer()
    }

    /// The node's certificate from the start of the connection.
    pub(super) fn certificate(&self) -> Vec<u8> {
        self.0.get_ref().conn.peer_certificates().unwrap()[0].to_vec()
    }
}

fn believing(cas: &[PathBuf]) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    for ca in cas {
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    }
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}
