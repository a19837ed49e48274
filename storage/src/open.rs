//! Opens the log of a data directory: the write-ahead log, and both checkpoints, with the batches replayed that they
//! lack.
//!
//! At any moment one checkpoint is intact and nothing writes to it: the one of the file that holds the newest batch.
//! The other may be unusable, so it is opened first. `DESIGN.md`, "Opening", has the reason for this order.

use crate::batch::Batch;
use crate::batches::Batches;
use crate::checkpoint::{self, Checkpoint};
use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::files;
use crate::manifest::Manifest;
use crate::wal::{self, Wal};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of the checkpoints, by the file of the write-ahead log that each belongs to.
const NAMES: [&str; 2] = ["log-a", "log-b"];
/// The only sled database of release 0.1.
const LEGACY: &str = "log";

/// An opened log.
pub(crate) struct Opened {
    pub(crate) wal: Wal,
    pub(crate) manifest: Manifest,
    /// By the file of the write-ahead log that each belongs to.
    pub(crate) checkpoints: [Checkpoint; 2],
}

/// Opens the log, or makes it in a new directory.
pub(crate) fn open(data: &DataDir) -> Result<Opened, StorageError> {
    let dir = data.path();
    let is_new = !data.log_made();
    for checkpoint in 0..NAMES.len() {
        files::remove_dir(&checkpoint::unfinished(&path(dir, checkpoint)))?;
    }
    if is_new {
        clear(dir)?;
        Wal::create(dir)?;
    }
    let (mut wal, found) = Wal::open(dir)?;
    let batches = Batches::new(found)?;
    let intact = wal.current();
    let other = 1 - intact;
    let (first, mut manifest) = if is_new {
        let empty = Manifest::default();
        (Checkpoint::make(&path(dir, other), &empty, std::iter::empty())?, empty)
    } else {
        adopt(dir, intact)?;
        open_other(dir, intact, &batches)?
    };
    // Both checkpoints are intact now. After this batch, nothing writes to the one that was opened first.
    manifest.batch += 1;
    let begun = Batch { manifest: manifest.clone(), ..Batch::default() };
    wal.begin(&begun).context(|| "write the write-ahead log".into())?;
    let second = open_intact(&path(dir, intact), &batches, &first, &manifest)?;
    if is_new {
        data.note_log_made()?;
    }
    let checkpoints = if other == 0 { [first, second] } else { [second, first] };
    Ok(Opened { wal, manifest, checkpoints })
}

/// The names of all files and directories that a log has in its data directory.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([LEGACY]).chain(wal::names())
}

/// The directory of a checkpoint.
pub(crate) fn path(dir: &Path, checkpoint: usize) -> PathBuf {
    dir.join(NAMES[checkpoint])
}

/// Removes what an earlier, unfinished creation of the log left behind.
fn clear(dir: &Path) -> Result<(), StorageError> {
    [LEGACY, NAMES[0], NAMES[1]].iter().try_for_each(|name| files::remove_dir(&dir.join(name)))
}

/// Renames the database of release 0.1, if there is one, to the checkpoint that is taken for intact.
fn adopt(dir: &Path, intact: usize) -> Result<(), StorageError> {
    let (legacy, path) = (dir.join(LEGACY), path(dir, intact));
    if !legacy.exists() || NAMES.iter().any(|name| dir.join(name).exists()) {
        return Ok(());
    }
    let renamed = fs::rename(&legacy, &path);
    renamed.context(|| format!("rename {} to {}", legacy.display(), path.display()))?;
    files::sync_dir(dir)
}

/// Opens the checkpoint that may be unusable, and advances it to the newest batch. If it is unusable, it is replaced
/// with a copy of the intact one, which is copied without being opened.
fn open_other(
    dir: &Path,
    intact: usize,
    batches: &Batches,
) -> Result<(Checkpoint, Manifest), StorageError> {
    let (other, intact) = (path(dir, 1 - intact), path(dir, intact));
    let has_intact = intact.exists();
    if other.exists() {
        match Checkpoint::open(&other, batches) {
            Err(error) if error.is_damage() && has_intact => warn(&other, &error),
            opened => return opened,
        }
    }
    if !has_intact {
        return Err(StorageError::damaged("the log is missing"));
    }
    checkpoint::copy(&intact, &other)?;
    Checkpoint::open(&other, batches)
}

/// Opens the checkpoint that was taken for intact, and advances it to the newest batch. If it turns out to be
/// unusable, it is remade from the other, which has manifest `manifest`.
fn open_intact(
    dir: &Path,
    batches: &Batches,
    other: &Checkpoint,
    manifest: &Manifest,
) -> Result<Checkpoint, StorageError> {
    if dir.exists() {
        match Checkpoint::open(dir, batches) {
            Ok((opened, _)) => return Ok(opened),
            Err(error) if error.is_damage() => warn(dir, &error),
            Err(error) => return Err(error),
        }
    }
    Checkpoint::make(dir, manifest, other.records(manifest))
}

fn warn(dir: &Path, error: &StorageError) {
    let StorageError::Damaged { what } = error else { return };
    tracing::warn!(
        dir = %dir.display(),
        "a checkpoint of the log is of no use and is made anew from the other one; nothing is lost. \
         After a power cut that is as it should be, at other times look after the disk: {what}"
    );
}
