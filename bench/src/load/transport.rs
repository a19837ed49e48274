//! The bytes of a connection, with or without TLS.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::Result;

/// The generator's TLS settings.
pub(super) type Tls = Arc<ClientConfig>;

/// TLS 1.3 with one cipher suite, so that every server has the same work. The CA in this file must have signed
/// the server's certificate.
///
/// # Errors
/// When the file holds no certificate.
pub(super) fn tls(ca: &Path) -> Result<Tls> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let suites = vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384];
    let provider = CryptoProvider { cipher_suites: suites, ..ring::default_provider() };
    let config = ClientConfig::builder_with_provider(provider.into());
    let config = config.with_protocol_versions(&[&TLS13])?;
    Ok(config.with_root_certificates(roots).with_no_client_auth().into())
}

/// A non-blocking socket, with or without TLS.
pub(super) struct Transport {
    stream: TcpStream,
    session: Option<Box<ClientConnection>>,
}

impl Transport {
    /// Connects, and completes the handshake where there is one.
    ///
    /// # Errors
    /// When the connection cannot be made.
    pub(super) fn open(target: SocketAddr, tls: Option<&Tls>) -> Result<Self> {
        let mut stream = std::net::TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        let session = match tls {
            None => None,
            Some(config) => {
                let name = ServerName::IpAddress(target.ip().into());
                let mut session = ClientConnection::new(Arc::clone(config), name)?;
                while session.is_handshaking() {
                    session.complete_io(&mut stream)?;
                }
                Some(Box::new(session))
            }
        };
        stream.set_nonblocking(true)?;
        Ok(Self { stream: TcpStream::from_std(stream), session })
    }

    pub(super) fn register(&mut self, registry: &Registry, at: usize) -> Result<()> {
        Ok(self.stream.register(registry, Token(at), Interest::READABLE)?)
    }

    /// Writes as many bytes as the socket takes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            None => self.stream.write(bytes),
            Some(session) => {
                let written = session.writer().write(bytes)?;
                self.flush()?;
                Ok(written)
            }
        }
    }

    /// Sends the rest of what was written. A socket that takes no more now is not an error.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while session.wants_write() {
            match session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the socket has taken everything that was written.
    pub(super) fn is_flushed(&self) -> bool {
        self.session.as_ref().is_none_or(|session| !session.wants_write())
    }

    /// Reads all that has arrived, as far as there is room. Returns 0 bytes when the server has closed the connection.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return self.stream.read(into) };
        let mut filled = 0;
        loop {
            match session.reader().read(&mut into[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match session.read_tls(&mut self.stream) {
                Ok(0) => return Ok(filled),
                Ok(_) => {
                    session.process_new_packets().map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && filled > 0 => {
                    return Ok(filled);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
