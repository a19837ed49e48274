//! A client's connection, with TLS or without.

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client's connection, whose protocol need not know whether there is TLS below.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// The two halves, for as long as the connection is served.
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_);

    /// The address of the socket's other end, where it is known.
    fn peer(&self) -> Option<IpAddr>;
}

impl ClientStream for TcpStream {
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_) {
        self.split()
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|peer| peer.ip())
    }
}

impl ClientStream for TlsStream<TcpStream> {
    /// The halves share the session, and so a lock. Both belong to one task: nobody ever waits for it.
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_) {
        tokio::io::split(self)
    }

    fn peer(&self) -> Option<IpAddr> {
        self.get_ref().0.peer()
    }
}
