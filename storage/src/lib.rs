//! How bytes survive: the replicated log, its checkpoints, snapshots, and the one binary encoding.
//!
//! Everything here is synchronous and deals in bytes; what they mean is the caller's business.
//! sled and bincode are used in this crate only.
//!
//! A data directory holds
//!
//! | file | written by | what it is |
//! | --- | --- | --- |
//! | `lock` | [`DataDir`] | locked while a process uses the directory |
//! | `identity` | [`DataDir`] | store id, start counter, format |
//! | `tail-a0`, `tail-a1`, `tail-b0`, `tail-b1` | [`SledEngine`] | the write-ahead log: what was synced since the older checkpoint, in two copies |
//! | `log-a/`, `log-b/` | [`SledEngine`] | checkpoints in sled: the records of the log, and the [`MetaKey`] values |
//! | `snapshot/current` | [`Snapshots`] | the current snapshot |
//!
//! **What is acknowledged is there.** When [`LogEngine::sync`] has returned, a process kill or a
//! power cut at any later moment leaves a directory that opens with exactly the synced state, or
//! with one group of later operations more. A directory that was altered otherwise opens with
//! everything that was acknowledged, or is refused as [`StorageError::Damaged`]; it never opens
//! with less. Each of this crate's steps and its reason is in `DESIGN.md`.

mod checkpoint;
pub mod codec;
mod data_dir;
mod engine;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod groups;
mod open;
mod planted;
mod record;
mod recover;
mod snapshot;
mod state;
mod tail;

pub use data_dir::DataDir;
pub use engine::SledEngine;
pub use error::StorageError;
pub use planted::planted;
pub use snapshot::{SNAPSHOT_META_BYTES_MAX, Snapshot, SnapshotTemp, Snapshots};

use std::ops::Range;

/// Largest record that can be appended, in bytes. sled moves values from 128 KiB on to files of
/// their own, which it never syncs.
pub const RECORD_BYTES_MAX: usize = 100 << 10;

/// Largest named value and largest purge mark, in bytes. Together they are one sled value.
pub const META_BYTES_MAX: usize = 16 << 10;

/// Bytes of records from which on an append first syncs what waits: bounds the memory and the
/// space on disk that one group of operations takes.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;

/// A small value with a name. The numbers are on disk: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MetaKey {
    /// The vote.
    Vote = 1,
    /// How far the log is known to be committed.
    Committed = 2,
    /// Which cluster this node belongs to.
    Cluster = 3,
    /// What is known about the other members.
    Members = 4,
    /// That this node was removed from its cluster.
    Removed = 5,
    /// Why the other members must not trust this directory.
    Refused = 6,
    /// The latest starts of this directory.
    Starts = 7,
    /// Which cluster, still to be formed, this directory is promised to.
    Bond = 8,
}

/// A log of records with consecutive indices, and a few named values. Bytes in, bytes out.
///
/// Operations take effect at once for readers, and become durable with [`LogEngine::sync`], all
/// since the last sync together. Appending, truncating and purging at the same time is the
/// caller's to order; reading and syncing may go on beside anything.
///
/// When a write or a sync fails, what is on disk is unknown. The engine then stops: that call and
/// every later one fail with [`StorageError::Stopped`].
pub trait LogEngine: Send + Sync + 'static {
    /// Appends records of at most [`RECORD_BYTES_MAX`] bytes from index `first` on: the one after
    /// the last, or any above the purge mark when the log is empty. Readable on return, durable
    /// after the next sync. Syncs by itself when several megabytes wait.
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError>;

    /// Reads consecutive records from `range.start` on, up to the end of the range or the log, or
    /// until `bytes_max` bytes are reached. The first is returned whatever its size. Empty when
    /// the log does not hold `range.start`.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when a record inside the bounds is missing or altered.
    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError>;

    /// The first and the last index held, both inclusive; `None` when the log is empty.
    fn bounds(&self) -> Option<(u64, u64)>;

    /// The last index purged, and what the caller noted about it.
    fn purge_mark(&self) -> Option<(u64, Vec<u8>)>;

    /// Removes every record at `index` and above. Durable on return, as is everything before it.
    /// Nothing happens when the log ends before `index`; an index that was purged is refused.
    fn truncate_from(&self, index: u64) -> Result<(), StorageError>;

    /// Removes every record up to and including `index` and keeps `mark`, of at most
    /// [`META_BYTES_MAX`] bytes, in their place. Durable on return, as is everything before it.
    /// `index` may lie beyond the end of the log, which is empty then. Nothing happens when it
    /// was purged before.
    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError>;

    /// Sets a named value of at most [`META_BYTES_MAX`] bytes. Durable after the next sync.
    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError>;

    /// A named value as it was put last; `None` when it never was.
    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError>;

    /// Makes everything before it durable: the only barrier. Cheap when nothing waits.
    fn sync(&self) -> Result<(), StorageError>;
}
