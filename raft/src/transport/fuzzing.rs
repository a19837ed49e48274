//! Entry points of `tests/fuzz` to the connections between nodes.

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use super::channel::Channel;
use super::interface::{FRAME_BYTES_MAX, FrameHandler, Peer};
use super::layer::Proof;
use super::plain::{Plain, greeted};
use super::server::answer_frames;
use crate::runtime::Pending;

/// Bytes of the longest frame that is accepted.
pub const FRAME_MAX: usize = FRAME_BYTES_MAX;

/// Serves the other end of a stream, and returns the frames that got through.
pub async fn conversation<S>(stream: S) -> Vec<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handler = Record::default();
    if let Ok(stream) = greeted(stream).await {
        // The other end decides how the conversation ends.
        let _ = answer_frames(&Plain, Channel::new(stream), Proof::none(), &handler).await;
    }
    handler.0.into_inner()
}

#[derive(Default)]
struct Record(Mutex<Vec<Vec<u8>>>);

impl FrameHandler for Record {
    fn handle<'a>(&'a self, _: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        self.0.lock().push(frame.to_vec());
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
