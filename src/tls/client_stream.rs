//! A client's connection, with TLS or without.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client's connection, whose protocol need not know whether there is TLS below.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// The two halves, for as long as the connection is served.
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_);

    /// Whether the other end of the socket is on this machine.
    fn is_local(&self) -> bool;
}

impl ClientStream for TcpStream {
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_) {
        self.split()
    }

    fn is_local(&self) -> bool {
        self.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
    }
}

impl ClientStream for TlsStream<TcpStream> {
    /// The halves share the session, and so a lock. Both belong to one task: nobody ever waits for it.
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_) {
        tokio::io::split(self)
    }

    fn is_local(&self) -> bool {
        self.get_ref().0.is_local()
    }
}
