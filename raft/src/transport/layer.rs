//! The layer between a TCP connection and the channel on it: who is at the other end, and how that is proven.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::credentials::Credentials;
use super::interface::{Peer, Target};

/// Turns TCP connections into the streams that channels run on. The two ends of a connection need the same
/// layer, which `Node::open` chooses.
///
/// A stream may exchange bytes of its own at any time. Its reads have to keep such bytes from the channel,
/// which takes every byte that it can read out of turn for the end of the connection.
pub(crate) trait Layer: Send + Sync + 'static {
    /// One end of a connection, as the channel reads and writes it.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Makes the stream of a connection that this node opened. Nothing but the handshake has been sent when
    /// it returns, and it fails if another node than the target's is there. The caller sets the deadline.
    fn connect(
        &self,
        target: Target<'_>,
        tcp: TcpStream,
    ) -> impl Future<Output = io::Result<Opened<Self::Stream>>> + Send;

    /// Makes the stream of a connection that this node accepted. The caller sets the deadline.
    fn accept(
        &self,
        tcp: TcpStream,
    ) -> impl Future<Output = io::Result<Opened<Self::Stream>>> + Send;

    /// Whether the other end of a connection would still be accepted, by what this node accepts now.
    fn trusts(&self, proof: &Proof) -> bool;

    /// Why the other end refused this node's proof, if that is what an error says. The other end has looked at
    /// no frame then, though this node may learn of it only after it has sent its first.
    fn refusal_of_proof(&self, error: &io::Error) -> Option<String> {
        let _ = error;
        None
    }
}

/// A connection on which frames may travel.
pub(crate) struct Opened<S> {
    pub(crate) stream: S,
    pub(crate) proof: Proof,
}

/// How the other end of a connection has proved itself.
pub(crate) struct Proof {
    pub(crate) peer: Peer,
    /// The certificate of the other end, and those between it and its CA.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// What this node proves itself by and accepts, as it was when the connection was opened.
    pub(super) credentials: Option<watch::Receiver<Arc<Credentials>>>,
}

impl Proof {
    /// The proof of a layer that proves nothing.
    pub(super) fn none() -> Self {
        Self { peer: Peer::Unproven, chain: Vec::new(), credentials: None }
    }

    /// Resolves each time that what this node proves itself by, or accepts, has changed.
    pub(super) async fn changed(&mut self) {
        let Some(credentials) = &mut self.credentials else { return pending().await };
        // Without a sender nothing changes any more.
        if credentials.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    /// Whether that has changed since the connection was opened. Such a connection is not used again, so
    /// that both ends prove themselves by what they have now.
    pub(super) fn is_outdated(&self) -> bool {
        self.credentials
            .as_ref()
            .is_some_and(|credentials| credentials.has_changed().unwrap_or(false))
    }
}
