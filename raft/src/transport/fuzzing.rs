//! Doors to the frames between nodes, and to the connections that carry them.

use mintleaf_storage::codec;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use super::channel::Channel;
use super::server::{answer_frames, is_let_in};
use super::{Answer, Door, FRAME_BYTES_MAX, Frame, PROTOCOL, Pending};

/// Longest frame that is taken in, in bytes.
pub const FRAME_MAX: usize = FRAME_BYTES_MAX;

/// A request's frame, read and written again; `None` when it is refused.
pub fn request(frame: &[u8]) -> Option<Vec<u8>> {
    let (_, frame): (u8, Frame) = codec::decode(frame).ok()?;
    Some(codec::encode(PROTOCOL, &frame))
}

/// An answer's frame, read and written again; `None` when it is refused.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (_, answer): (u8, Answer) = codec::decode(frame).ok()?;
    Some(codec::encode(PROTOCOL, &answer))
}

/// Answers whoever is at the other end of a stream, and tells the frames that got through.
pub async fn conversation<S>(stream: S, secret: &[u8]) -> Vec<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let door = Record::default();
    let mut channel = Channel::new(stream);
    if is_let_in(&mut channel, secret).await.unwrap_or(false) {
        // How it ends is the other end's to say.
        let _ = answer_frames(channel, &door).await;
    }
    door.0.into_inner()
}

#[derive(Default)]
struct Record(Mutex<Vec<Vec<u8>>>);

impl Door for Record {
    fn answer<'a>(&'a self, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        self.0.lock().push(frame.to_vec());
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
