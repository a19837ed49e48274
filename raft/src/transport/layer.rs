//! The layer between a TCP connection and the channel on it.

use std::future::{Future, ready};
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Turns TCP connections into the streams that channels run on. The two ends of a connection need the same
/// layer. An encrypted transport is one more implementation, which `Node::open` chooses.
///
/// A stream may exchange bytes of its own at any time, as TLS does with session tickets. Its reads have to
/// keep such bytes from the channel, which takes every byte that it can read out of turn for the end of the
/// connection.
pub(crate) trait Layer: Send + Sync + 'static {
    /// One end of a connection, as the channel reads and writes it.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Makes the stream of a connection that this node opened to `address`. The caller sets the deadline.
    fn connect(
        &self,
        address: &str,
        tcp: TcpStream,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Makes the stream of a connection that this node accepted. The caller sets the deadline.
    fn accept(&self, tcp: TcpStream) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// No layer: the channel runs on the TCP connection itself, and whoever reads the network reads along.
pub(crate) struct Plain;

impl Layer for Plain {
    type Stream = TcpStream;

    fn connect(
        &self,
        _: &str,
        tcp: TcpStream,
    ) -> impl Future<Output = io::Result<TcpStream>> + Send {
        ready(Ok(tcp))
    }

    fn accept(&self, tcp: TcpStream) -> impl Future<Output = io::Result<TcpStream>> + Send {
        ready(Ok(tcp))
    }
}
