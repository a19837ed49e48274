//! The layer between a TCP connection and its channel: who is at the other end, and how that is proven.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::credentials::Credentials;
use super::interface::{Peer, Target};

/// Turns TCP connections into the streams that channels run on. The two ends of a connection need the same layer,
/// which `Node::open` chooses.
///
/// A stream may exchange its own bytes at any time. Its reads must keep such bytes from the channel, which takes
/// every byte that it can read out of turn for the end of the connection.
pub(crate) trait Layer: Send + Sync + 'static {
    /// One end of a connection, as the channel reads and writes it.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Creates the stream of a connection that this node opened. Only the handshake has been sent when it returns,
    /// and it fails if the node at the other end is not the target's. The caller sets the deadline.
    fn connect(
        &self,
        target: Target<'_>,
        tcp: TcpStream,
    ) -> impl Future<Output = io::Result<Opened<Self::Stream>>> + Send;

    /// Creates the stream of a connection that this node accepted. The caller sets the deadline.
    fn accept(
        &self,
        tcp: TcpStream,
    ) -> impl Future<Output = io::Result<Opened<Self::Stream>>> + Send;

    /// Whether the other end of a connection would still be accepted under this node's current credentials.
    fn trusts(&self, proof: &Proof) -> bool;

    /// The reason why the other end refused this node's proof, if the error is such a refusal. The other end has then
    /// looked at no frame, though this node may learn of the refusal only after it has sent its first frame.
    fn refusal_of_proof(&self, error: &io::Error) -> Option<String> {
        let _ = error;
        None
    }
}

/// A connection that may carry frames.
pub(crate) struct Opened<S> {
    pub(crate) stream: S,
    pub(crate) proof: Proof,
}

/// How the other end of a connection has proved itself.
pub(crate) struct Proof {
    pub(crate) peer: Peer,
    /// The certificate of the other end, and those between it and its CA.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// This node's own credentials as of when the connection was opened.
    pub(super) credentials: Option<watch::Receiver<Arc<Credentials>>>,
}

impl Proof {
    /// The proof of a layer that proves nothing.
    pub(super) fn none() -> Self {
        Self { peer: Peer::Unproven, chain: Vec::new(), credentials: None }
    }

    /// Resolves each time this node's credentials have changed.
    pub(super) async fn changed(&mut self) {
        let Some(credentials) = &mut self.credentials else { return pending().await };
        // Without a sender, no more changes can come.
        if credentials.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    /// Whether the credentials have changed since the connection was opened. Such a connection is not used again, so
    /// that both ends prove themselves with their current credentials.
    pub(super) fn is_outdated(&self) -> bool {
        self.credentials
            .as_ref()
            .is_some_and(|credentials| credentials.has_changed().unwrap_or(false))
    }
}
