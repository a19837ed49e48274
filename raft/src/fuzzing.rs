//! Entry points for `tests/fuzz` to the decoders of what this crate reads from peers and from disk. Each one decodes
//! bytes and encodes them again, or returns `None` if it refuses them.

use mintleaf_codec as codec;

use crate::message::{Answer, Frame};
use crate::raft_storage::disk_format;
use crate::transport::PROTOCOL;
pub use crate::transport::fuzzing::{FRAME_MAX, Named, TlsEnd, conversation, named};

/// The frame of a request.
pub fn request(frame: &[u8]) -> Option<Vec<u8>> {
    let (_, frame): (u8, Frame) = codec::decode(frame).ok()?;
    Some(codec::encode(PROTOCOL, &frame))
}

/// The frame of an answer.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (_, answer): (u8, Answer) = codec::decode(frame).ok()?;
    Some(codec::encode(PROTOCOL, &answer))
}

/// A log entry on disk.
pub fn entry(record: &[u8]) -> Option<Vec<u8>> {
    disk_format::decode_entry(record).ok().map(disk_format::encode_entry)
}

/// A vote on disk.
pub fn vote(record: &[u8]) -> Option<Vec<u8>> {
    disk_format::decode_vote(record).ok().map(|vote| disk_format::encode_vote(&vote))
}

/// A log id on disk.
pub fn log_id(record: &[u8]) -> Option<Vec<u8>> {
    disk_format::decode_log_id(record).ok().map(disk_format::encode_log_id)
}

/// The metadata of a snapshot file.
pub fn snapshot_meta(record: &[u8]) -> Option<Vec<u8>> {
    let meta = disk_format::decode_snapshot_meta(record).ok()?;
    Some(disk_format::encode_snapshot_meta(meta.last_log_id, &meta.last_membership))
}
