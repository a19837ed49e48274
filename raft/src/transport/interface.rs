//! The trait of a transport, and of what handles the frames that arrive by it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::runtime::Pending;

/// Version of the frames; a peer that speaks another one is refused with a clear message.
pub(crate) const PROTOCOL: u8 = 3;
/// Bytes of one frame at most: a snapshot chunk is 1 MiB, a replication message carries 64 KiB. A decoded
/// frame takes a multiple of its length in memory.
pub(crate) const FRAME_BYTES_MAX: usize = 2 << 20;

/// Where a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The internal address, `HOST:PORT`.
    pub address: &'a str,
    /// The node that has to prove itself there, before it is sent anything; `None` where the caller wants
    /// to learn who listens.
    pub node_id: Option<u64>,
}

/// The node at the other end of a connection, as far as it has proved itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Nothing is proven: the transport is plain, and takes every process at its word.
    Unproven,
    /// The handshake of the connection proved the node.
    Proven {
        /// The node's id.
        node_id: u64,
        /// The node's data directory, where its certificate names one.
        store: Option<u128>,
    },
}

impl Peer {
    /// Whether this peer may speak for a node and its store: it has proved to be that node, or the
    /// transport proves nothing.
    #[must_use]
    pub fn may_speak_for(self, node_id: u64, store: u128) -> bool {
        match self {
            Self::Unproven => true,
            Self::Proven { node_id: proven, store: proven_store } => {
                proven == node_id && proven_store.is_none_or(|proven| proven == store)
            }
        }
    }
}

/// The answer to a call, and the node that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Who answered.
    pub from: Peer,
    /// The answer, undecoded.
    pub bytes: Bytes,
}

/// Carries frames, which it does not read, by TCP or by a simulated network.
pub trait Transport: Send + Sync + 'static {
    /// Carries a frame to the process that listens at an address, and its answer back. The future may
    /// never resolve; the caller sets the deadline.
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>>;

    /// Resolves when certainly no process listens at an address any more. A transport that cannot know
    /// this never resolves.
    fn wait_refused<'a>(&'a self, target: Target<'a>) -> Pending<'a, ()> {
        let _ = target;
        Box::pin(std::future::pending())
    }

    /// Passes frames for this node to `handler` for as long as the future is polled. Called once.
    fn serve(self: Arc<Self>, handler: Arc<dyn FrameHandler>) -> Pending<'static, ()>;

    /// The address at which this node's listener is bound, if it has one.
    fn listens_on(&self) -> Option<SocketAddr>;
}

/// Handles the frames that arrive at a node.
pub trait FrameHandler: Send + Sync + 'static {
    /// Whether a caller that sends this frame is known to be a member, whose connections stay for as long as it uses
    /// them. Those of any other end after a time, however often it asks.
    fn is_member(&self, _caller: Peer, _frame: &[u8]) -> bool {
        true
    }

    /// Answers one frame of `caller`.
    ///
    /// # Errors
    /// When the bytes are not a frame; the text says why.
    fn handle<'a>(&'a self, caller: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>>;
}

/// Why a frame brought no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportError {
    /// The frame was not sent, or not sent whole: nothing happened at the other end.
    Unreachable(String),
    /// The frame was sent, but no answer came: it may have had its effect.
    Lost(String),
    /// The other end refused the connection: nothing happened.
    Refused(String),
}
