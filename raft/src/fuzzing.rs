//! Doors to what this crate reads from peers and from disk, for `tests/fuzz`. Each reads bytes and
//! writes them again, or answers `None` when it refuses them.

use crate::records;
pub use crate::transport::fuzzing::{FRAME_MAX, answer, conversation, request};

/// A log entry.
pub fn entry(record: &[u8]) -> Option<Vec<u8>> {
    records::decode_entry(record).ok().map(records::encode_entry)
}

/// A vote.
pub fn vote(record: &[u8]) -> Option<Vec<u8>> {
    records::decode_vote(record).ok().map(|vote| records::encode_vote(&vote))
}

/// A position in the log.
pub fn log_id(record: &[u8]) -> Option<Vec<u8>> {
    records::decode_log_id(record).ok().map(records::encode_log_id)
}

/// What a snapshot file says of itself.
pub fn snapshot_meta(record: &[u8]) -> Option<Vec<u8>> {
    let meta = records::decode_snapshot_meta(record).ok()?;
    Some(records::encode_snapshot_meta(meta.last_log_id, &meta.last_membership))
}
