//! The largest sizes of what is stored, in bytes.

/// Largest record that can be appended, in bytes. sled moves values of 128 KiB and more to separate files, which it
/// never syncs.
pub const RECORD_BYTES_MAX: usize = 100 << 10;

/// Largest named value and largest purge mark, in bytes. Together they are one sled value.
pub const META_BYTES_MAX: usize = 16 << 10;

/// Largest meta part of a snapshot, in bytes.
pub const SNAPSHOT_META_BYTES_MAX: usize = 1 << 20;

/// An append syncs before it continues once this many bytes of records are unsynced. This bounds the memory and the
/// disk space that one batch takes.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;
