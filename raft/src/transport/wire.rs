//! How frames travel between nodes, as a trait: what lies between a node and its peers.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use mintleaf_storage::codec;

use super::server::Inbox;
use super::{Answer, Frame, PROTOCOL, Request};

/// A future behind a trait object.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Carries frames, which it does not read: TCP, or a simulated network.
pub trait Wire: Send + Sync + 'static {
    /// Carries a frame to whoever listens at an address, and its answer back. May take for ever.
    fn exchange<'a>(
        &'a self,
        address: &'a str,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Bytes, WireError>>;

    /// Resolves when nobody listens at an address any more, for certain. A wire that cannot know never
    /// does.
    fn gone<'a>(&'a self, address: &'a str) -> Pending<'a, ()> {
        let _ = address;
        Box::pin(std::future::pending())
    }

    /// Lets frames for this node in, for as long as the future is polled. Called once.
    fn serve(self: Arc<Self>, door: Arc<dyn Door>) -> Pending<'static, ()>;

    /// Where this node's listener is bound, if it has one.
    fn listens_on(&self) -> Option<SocketAddr>;
}

/// Where a node's frames come in.
pub trait Door: Send + Sync + 'static {
    /// Answers one frame.
    ///
    /// # Errors
    /// When the bytes are not a frame; says why.
    fn answer<'a>(&'a self, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>>;
}

/// Why a frame brought no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// Not sent, or not whole: nothing happened at the other end.
    Unreachable(String),
    /// Sent, but no answer came: it may have happened.
    Lost(String),
    /// The other end did not let it in: nothing happened.
    Refused(String),
}

/// The door to an inbox.
pub(crate) struct InboxDoor<I>(pub(crate) Arc<I>);

impl<I: Inbox> Door for InboxDoor<I> {
    fn answer<'a>(&'a self, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let (_, Frame { header, request }) =
                codec::decode(frame).map_err(|error| format!("not a frame: {error}"))?;
            if header.is_none() && !matches!(request, Request::Hello(_)) {
                return Err("the frame has no header".to_owned());
            }
            let result = Arc::clone(&self.0).handle(header, request).await;
            let (from, clock_ms) = (self.0.identity(), self.0.clock_ms());
            Ok(codec::encode(PROTOCOL, &Answer { from, clock_ms, result }))
        })
    }
}
