//! The bytes of commands, responses and snapshots, and of the list of hot tags.
//!
//! Commands stand in every log, responses cross between nodes of different releases, and snapshots do both:
//! `core/src/state/level.rs` says how their types may change, and tests hold the bytes.

mod hot_tags;
mod record;
mod snapshot;

pub use hot_tags::{decode_hot_tags, encode_hot_tags};
pub use record::{DecodeError, decode_command, decode_response, encode_command, encode_response};
pub(crate) use snapshot::{SECTION_BYTES_MAX, section_is_whole};
pub use snapshot::{SnapshotError, digest, read_snapshot, read_snapshot_up_to, write_snapshot};
