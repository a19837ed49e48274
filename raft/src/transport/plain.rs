//! The layer that proves nothing: for nodes on one machine, or on a network that is trusted as a whole.
//!
//! The connecting end begins with a greeting, `["MLRP"][protocol u8]`. From it the accepting end recognises nodes of
//! other releases, and clients that took this port for another, and can send them an explanation.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::channel::Channel;
use super::interface::{PROTOCOL, Target};
use super::layer::{Layer, Opened, Proof};

/// The first bytes of every greeting.
const MAGIC: [u8; 4] = *b"MLRP";
/// How long a refused connection is read from, so that the other end gets to read the reason.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The answer to a client that took this port for the one of `--http`.
const TO_STRANGERS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nNodes speak with each other here; clients use the address of --http.\n";

/// No proof and no encryption: every process that reaches the port is trusted to be who it claims to be, and an
/// eavesdropper on the network can read everything.
pub(crate) struct Plain;

impl Layer for Plain {
    type Stream = TcpStream;

    async fn connect(&self, _: Target<'_>, mut tcp: TcpStream) -> io::Result<Opened<TcpStream>> {
        tcp.write_all(&greeting()).await?;
        Ok(Opened { stream: tcp, proof: Proof::none() })
    }

    async fn accept(&self, tcp: TcpStream) -> io::Result<Opened<TcpStream>> {
        Ok(Opened { stream: greeted(tcp).await?, proof: Proof::none() })
    }

    fn trusts(&self, _: &Proof) -> bool {
        true
    }
}

/// Reads and judges the greeting of an accepted connection, and sends a refused process the reason.
pub(super) async fn greeted<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<S> {
    match receive_greeting(&mut stream).await? {
        Greeting::Node { protocol } if protocol == PROTOCOL => Ok(stream),
        Greeting::Node { protocol } => {
            let why = format!(
                "this node speaks protocol {PROTOCOL}, the peer {protocol}: upgrade the older"
            );
            refuse_node(&mut stream, &why).await
        }
        Greeting::Stranger => refuse_stranger(&mut stream).await,
    }
}

/// Encodes the greeting that opens a connection.
pub(super) fn greeting() -> Vec<u8> {
    [&MAGIC[..], &[PROTOCOL]].concat()
}

/// The greeting that a connection began with.
pub(super) enum Greeting {
    /// A node of this version of the frames.
    Node {
        /// The version.
        protocol: u8,
    },
    /// The other end is no node.
    Stranger,
}

/// Reads a greeting, and no byte after it.
pub(super) async fn receive_greeting<S: AsyncRead + Unpin>(tcp: &mut S) -> io::Result<Greeting> {
    for expected in MAGIC {
        if tcp.read_u8().await? != expected {
            return Ok(Greeting::Stranger);
        }
    }
    Ok(Greeting::Node { protocol: tcp.read_u8().await? })
}

/// Sends a node of the plain protocol the reason why it is refused.
pub(super) async fn refuse_node<S, T>(tcp: &mut S, why: &str) -> io::Result<T>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut channel = Channel::new(&mut *tcp);
    channel.send_answer(Err(why)).await?;
    hang_up(tcp, why).await
}

/// Informs a client that this port is not for clients.
pub(super) async fn refuse_stranger<S, T>(tcp: &mut S) -> io::Result<T>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tcp.write_all(TO_STRANGERS).await?;
    hang_up(tcp, "the other end is no node").await
}

/// Closes a connection so that its other end can read what was sent to it: the operating system resets a connection
/// that is closed with unread bytes.
async fn hang_up<S, T>(tcp: &mut S, why: &str) -> io::Result<T>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tcp.shutdown().await?;
    let mut channel = Channel::new(tcp);
    let _ = timeout(DRAIN_TIMEOUT, channel.drain()).await;
    Err(io::Error::new(ErrorKind::PermissionDenied, why.to_owned()))
}
