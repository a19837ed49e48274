//! The bytes of commands, responses and snapshots.
//!
//! Commands stand in every log, responses cross between nodes of different releases, and snapshots
//! do both: variants are only ever appended, any other change of a type takes a new format, and
//! tests hold the bytes.

mod record;
mod snapshot;

pub use record::{DecodeError, decode_command, decode_response, encode_command, encode_response};
pub use snapshot::{SnapshotError, digest, read_snapshot, read_snapshot_up_to, write_snapshot};
