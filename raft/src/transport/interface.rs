//! The trait of a transport, and of the handler of arriving frames.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::runtime::Pending;

/// Version of the frames. A peer that speaks another version is refused with a clear message.
pub(crate) const PROTOCOL: u8 = 3;
/// Maximum size of one frame in bytes: a snapshot chunk is 1 MiB, a replication message carries 64 KiB. A decoded
/// frame takes a multiple of its length in memory.
pub(crate) const FRAME_BYTES_MAX: usize = 2 << 20;

/// The destination of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The internal address, `HOST:PORT`.
    pub address: &'a str,
    /// The node that must prove itself there before anything is sent to it. `None` if the caller wants to find out
    /// who listens.
    pub node_id: Option<u64>,
}

/// The node at the other end of a connection, as far as it has proved itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Nothing is proven: the transport is plain, and accepts what every process claims.
    Unproven,
    /// The handshake of the connection proved the node.
    Proven {
        /// The node's id.
        node_id: u64,
        /// The node's data directory, if its certificate names one.
        store: Option<u128>,
    },
}

impl Peer {
    /// Whether this peer may speak for a node and its store: it has proved to be that node, or the transport proves
    /// nothing.
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
    /// The node that answered.
    pub from: Peer,
    /// The answer, undecoded.
    pub bytes: Bytes,
}

/// Carries frames over TCP or a simulated network, without reading them.
pub trait Transport: Send + Sync + 'static {
    /// Carries a frame to the process that listens at an address, and its answer back. The future may never resolve;
    /// the caller sets the deadline.
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>>;

    /// Resolves when it is certain that no process listens at an address any more. A transport that cannot know this
    /// never resolves.
    fn wait_refused<'a>(&'a self, target: Target<'a>) -> Pending<'a, ()> {
        let _ = target;
        Box::pin(std::future::pending())
    }

    /// Passes frames for this node to `handler` as long as the future is polled. Called once. Before, connections to
    /// this node are refused.
    ///
    /// # Errors
    /// When another process listens at this node's address.
    fn serve(self: Arc<Self>, handler: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>>;

    /// The address that this node's listener is bound to, if it has one.
    fn listens_on(&self) -> Option<SocketAddr>;
}

/// Handles the frames that arrive at a node.
pub trait FrameHandler: Send + Sync + 'static {
    /// Whether a caller that sends this frame is known to be a member. A member's connections stay open as long as it
    /// uses them. A stranger's connections end after a time, even if it keeps asking.
    fn is_member(&self, _caller: Peer, _frame: &[u8]) -> bool {
        true
    }

    /// Answers one frame of `caller`.
    ///
    /// # Errors
    /// When the bytes are not a frame; the text gives the reason.
    fn handle<'a>(&'a self, caller: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>>;
}

/// Why a frame brought no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportError {
    /// The frame was not sent, or not completely: it had no effect at the other end.
    Unreachable(String),
    /// The frame was sent but not answered: it may have had its effect.
    Lost(String),
    /// The other end refused the connection: the frame had no effect.
    Refused(String),
}
