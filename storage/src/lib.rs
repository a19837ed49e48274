//! How bytes survive: the replicated log, a few named values, snapshots, and the one binary encoding.
//!
//! The log is a mirrored, double-buffered write-ahead log that checkpoints into sled. Everything here is synchronous
//! and deals in bytes; what they mean is up to the caller. Only this crate uses sled and bincode.
//!
//! A data directory holds
//!
//! | file | written by | what it is |
//! | --- | --- | --- |
//! | `lock` | [`DataDir`] | locked while a process uses the directory |
//! | `identity` | [`DataDir`] | store id, number of openings, owner, its own inode, format |
//! | `tail-a0`, `tail-a1`, `tail-b0`, `tail-b1` | [`SledEngine`] | the write-ahead log: two files that the engine fills in turn, each in two copies |
//! | `log-a/`, `log-b/` | [`SledEngine`] | the checkpoints in sled: the records of the log, and the [`MetaKey`] values |
//! | `snapshot/current` | [`Snapshots`] | the current snapshot |
//! | `hot-tags`, `last-backup` | the caller | hints for its next start, which this crate does not read |
//!
//! **Acknowledged content is never lost.** After [`LogEngine::sync`] has returned, a kill or a power cut at any later
//! moment leaves a directory that opens with exactly the synced content, or with one more batch of later operations. A
//! directory that was altered in any other way opens with everything that was acknowledged, or not at all
//! ([`StorageError::Damaged`]); it never opens with less. `DESIGN.md` gives the reason for each step, crash point by
//! crash point.
//!
//! A sync passes through [`LogEngine::sync`], `SledEngine::commit`, `Wal::write` and `WalFile::write`, whose
//! `sync_data` is the barrier. The modules, from the bottom up:
//!
//! | module | what it is |
//! | --- | --- |
//! | `limits`, `error` | the largest sizes; the errors |
//! | `sync_times` | how long syncs took |
//! | `files` | durable operations on files |
//! | `log_engine` | the interface of a log engine |
//! | `data_dir` | a data directory: its lock, its owner, how often it was opened |
//! | `snapshot` | the current snapshot |
//! | `record` | one stored record, chained to the record before |
//! | `manifest` | everything in the log except the records, as one small value |
//! | `batch` | the operations between two syncs |
//! | `wal` | the write-ahead log: two files filled in turn, each in two copies |
//! | `batches` | the batches that an opening found in the write-ahead log |
//! | `trees` | the two sled trees of a checkpoint |
//! | `replay` | applying batches to a checkpoint, and verifying that nothing is missing |
//! | `checkpoint` | one checkpoint: creating, opening, advancing, copying |
//! | `open` | opening the log after any crash |
//! | `recent` | the records that a checkpoint still lacks, in memory |
//! | `engine` | the log engine |
//! | `stopped` | reading a stopped node's directory without writing; creating a directory that is either complete or absent |
//! | `fuzzing` | entry points for `tests/fuzz` |

mod batch;
mod batches;
mod checkpoint;
mod data_dir;
mod engine;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod limits;
mod log_engine;
mod manifest;
mod open;
mod recent;
mod record;
mod replay;
mod snapshot;
mod stopped;
mod sync_times;
mod trees;
mod wal;

pub use data_dir::{DataDir, is_data_dir};
pub use engine::SledEngine;
pub use error::StorageError;
pub use limits::{META_BYTES_MAX, RECORD_BYTES_MAX, SNAPSHOT_META_BYTES_MAX};
pub use log_engine::{LogEngine, MetaKey};
pub use snapshot::{Snapshot, SnapshotTemp, Snapshots};
pub use stopped::{CopiedLog, NewDir, StoppedDir};
pub use sync_times::SyncReadings;
