//! The interface of a log engine.

use crate::error::StorageError;
use crate::sync_times::SyncReadings;
use std::ops::Range;

/// The name of a small value. The numbers are on disk: new ones are appended, none is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MetaKey {
    /// The vote.
    Vote = 1,
    /// How far the log is known to be committed.
    Committed = 2,
    /// Which cluster this node belongs to.
    Cluster = 3,
    /// What this node knows about the other members.
    Members = 4,
    /// A note that this node was removed from its cluster.
    Removed = 5,
    /// Why the other members must not trust this directory.
    Refused = 6,
    /// The latest incarnations of this directory: its numbered lives, which let the members of a cluster distinguish
    /// copies.
    Starts = 7,
    /// The cluster, still to be bootstrapped, that this directory is prepared for.
    Prepared = 8,
}

/// A log of records with consecutive indices, and a few named values. Bytes in, bytes out.
///
/// Readers see an operation at once. [`LogEngine::sync`] makes all operations since the last sync durable together. A
/// truncation or a purge makes them durable by itself, and so does an append once several megabytes are unsynced. The
/// caller must not append, truncate or purge concurrently; reading and syncing may run concurrently with anything.
///
/// When a write or a sync fails, what is on disk is unknown. The engine then stops: that call and every later one
/// fail with [`StorageError::Stopped`].
pub trait LogEngine: Send + Sync + 'static {
    /// Appends records of at most [`RECORD_BYTES_MAX`](crate::RECORD_BYTES_MAX) bytes from index `first` on. `first`
    /// is the index after the last record, or, in an empty log, any above the purge mark. The records are readable on
    /// return and durable after the next sync. Once several megabytes are unsynced, the call itself syncs.
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError>;

    /// Reads consecutive records from `range.start` on, up to the end of the range or of the log, or until
    /// `bytes_max` bytes are reached. The first record is returned even if it is larger than that. The result is
    /// empty if the log does not hold `range.start`.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when a record inside the bounds is missing or altered.
    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError>;

    /// The first and the last index held, both inclusive; `None` if the log is empty.
    fn bounds(&self) -> Option<(u64, u64)>;

    /// The last index purged, with the mark that the caller left there.
    fn purge_mark(&self) -> Option<(u64, Vec<u8>)>;

    /// Removes every record at `index` and above. The removal, and every operation before it, is durable on return.
    /// Nothing happens if the log ends before `index`; an index that was purged is refused.
    fn truncate_from(&self, index: u64) -> Result<(), StorageError>;

    /// Removes every record up to and including `index` and keeps `mark`, of at most
    /// [`META_BYTES_MAX`](crate::META_BYTES_MAX) bytes, in their place. The removal, and every operation before it,
    /// is durable on return. `index` may lie beyond the end of the log, which is empty then. Nothing happens if
    /// `index` was purged before.
    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError>;

    /// Sets a named value of at most [`META_BYTES_MAX`](crate::META_BYTES_MAX) bytes. It is durable
    /// after the next sync.
    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError>;

    /// The named value that was put last; `None` if there never was one.
    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError>;

    /// Makes every operation before it durable. A caller may rely on an append or a named value only after this has
    /// returned; truncations and purges are durable when they return. It is cheap if nothing is unsynced.
    fn sync(&self) -> Result<(), StorageError>;

    /// How long the syncs took since the engine was opened; `None` for an engine that does not measure them.
    fn sync_times(&self) -> Option<SyncReadings> {
        None
    }
}
