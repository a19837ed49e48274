//! A client's connection, with TLS or without.

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use crate::limits::LINGER_MAX;

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
    /// The halves share the session, and so a lock. Both belong to one task, so the lock is never contended.
    fn halves(
        &mut self,
    ) -> (impl AsyncRead + Unpin + Send + '_, impl AsyncWrite + Unpin + Send + '_) {
        tokio::io::split(self)
    }

    fn peer(&self) -> Option<IpAddr> {
        self.get_ref().0.peer()
    }
}

/// Sends the last words and ends the connection, then reads what still comes in until the client has ended it too:
/// closing on unread input would reset the connection, last answers and all.
pub(crate) async fn close_gracefully(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    last_words: &[u8],
) {
    let read_off = async {
        stream.write_all(last_words).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    // A client that is gone already hears nothing, and needs nothing.
    let _ = timeout(LINGER_MAX, read_off).await;
}
