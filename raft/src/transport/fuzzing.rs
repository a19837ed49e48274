//! Doors to the frames between nodes.

use mintleaf_storage::codec;

use super::{Answer, Frame, PROTOCOL};

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
