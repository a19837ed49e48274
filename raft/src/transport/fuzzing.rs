//! Entry points of `tests/fuzz` to the connections between nodes.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::channel::Channel;
use super::credentials::{CertifiedNode, Credentials, certified_node};
use super::interface::{FRAME_BYTES_MAX, FrameHandler, Peer, Target};
use super::layer::{Layer, Proof};
use super::plain::{Plain, greeted};
use super::server::{PROOF_TIMEOUT, answer_frames, within};
use super::tls::Tls;
use crate::runtime::Pending;

/// Size of the longest frame that is accepted, in bytes.
pub const FRAME_MAX: usize = FRAME_BYTES_MAX;

/// Serves the other end of a stream, which has proved itself to be `peer`. Returns the frames that got through, each
/// with its caller.
pub async fn conversation<S>(stream: S, peer: Peer) -> Vec<(Peer, Vec<u8>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handler = Record::default();
    if let Ok(stream) = greeted(stream).await {
        let proof = Proof { peer, ..Proof::none() };
        // The other end decides how the conversation ends.
        let _ = answer_frames(&Plain, Channel::new(stream), proof, &handler).await;
    }
    handler.0.into_inner()
}

#[derive(Default)]
struct Record(Mutex<Vec<(Peer, Vec<u8>)>>);

impl FrameHandler for Record {
    fn handle<'a>(&'a self, caller: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        self.0.lock().push((caller, frame.to_vec()));
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// A node's id, and its data directory if that is named.
pub type Named = (u64, Option<u128>);

/// One end of TLS connections: a node that knows a secret.
pub struct TlsEnd {
    layer: Tls,
    node_id: u64,
    store: u128,
    credentials: watch::Sender<Arc<Credentials>>,
}

impl TlsEnd {
    /// The end of this node.
    ///
    /// # Panics
    /// When the secret is too short.
    pub fn new(node_id: u64, store: u128, secret: &[u8]) -> Self {
        let credentials = Credentials::from_secrets(&[secret]).expect("it is long enough");
        let credentials = watch::Sender::new(Arc::new(credentials));
        let layer = Tls::new((node_id, store), credentials.subscribe(), Arc::new(|| 0));
        let layer = layer.expect("a certificate can be made");
        Self { layer, node_id, store, credentials }
    }

    /// Makes the process at the other end of a stream prove itself in time, and returns who it is.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Option<Peer> {
        let opened = within(PROOF_TIMEOUT, self.layer.accept_tls(stream)).await;
        opened.ok().map(|opened| opened.proof.peer)
    }

    /// Opens a connection to a node, and returns which node has proved to be there.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        node_id: u64,
        stream: S,
    ) -> Option<Peer> {
        let target = Target { address: "", node_id: Some(node_id) };
        self.layer.connect_tls(target, stream).await.ok().map(|opened| opened.proof.peer)
    }

    /// A certificate that proves this node's identity.
    ///
    /// # Panics
    /// When none can be made.
    pub fn certificate(&self) -> Vec<u8> {
        let keys = self.credentials.borrow().certify(self.node_id, self.store);
        keys.expect("a certificate can be made")[0].key.cert[0].to_vec()
    }

    /// The node that a certificate proves to this one, if it is accepted.
    pub fn judge(&self, certificate: &[u8]) -> Option<Named> {
        let chain = vec![CertificateDer::from(certificate.to_vec())];
        let accepted = self.layer.trusts(&Proof { chain, ..Proof::none() });
        named(certificate).filter(|_| accepted)
    }
}

/// The node that a certificate names, whether it is to be believed or not.
pub fn named(certificate: &[u8]) -> Option<Named> {
    let CertifiedNode { node_id, store } = certified_node(&certificate.into()).ok()?;
    Some((node_id, store))
}
