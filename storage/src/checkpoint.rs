//! A checkpoint: the log as it was after some batch, in a separate sled database and directory.
//!
//! sled is not trusted. A checkpoint is judged by what is found in it, and an unusable one is remade from the other.
//! `DESIGN.md` has the order of steps that makes this safe.

use crate::batches::Batches;
use crate::error::{Context, StorageError};
use crate::files;
use crate::manifest::Manifest;
use crate::replay;
use crate::trees::{Trees, missing};
use sled::{Db, IVec};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Size of the page cache of each checkpoint, in bytes as sled counts them. Appends and purges touch the pages at either
/// end. A start reads the rest once, and a follower that lags seldom.
const CACHE_BYTES: u64 = 4 << 20;

/// How often and how long an opening waits for an engine of this process that was just dropped to release its files.
const UNLOCK_TRIES_MAX: u32 = 500;
const UNLOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Name of the thread that opens sled. It appears in panic messages.
const THREAD: &str = "checkpoint-open";

/// An open sled database.
pub(crate) struct Checkpoint {
    db: Db,
    /// The file that sled keeps its data in.
    file: File,
    pub(crate) trees: Trees,
}

impl Checkpoint {
    /// Makes the checkpoint of a manifest from scratch. Any previous content of the directory is removed.
    pub(crate) fn make(
        dir: &Path,
        manifest: &Manifest,
        records: impl Iterator<Item = Result<(u64, IVec), StorageError>>,
    ) -> Result<Self, StorageError> {
        files::remove_dir(dir)?;
        files::create_dir(dir)?;
        let made = Self::open_sled(dir)?;
        for record in records {
            let (index, stored) = record?;
            made.trees.put_record(index, &stored)?;
        }
        made.trees.put_manifest(manifest)?;
        made.sync_all(dir)?;
        Ok(made)
    }

    /// Opens a checkpoint and replays the batches that it lacks; the result is on disk when this returns. Any failure
    /// of sled on damaged files becomes an error, even a panic.
    pub(crate) fn open(dir: &Path, batches: &Batches) -> Result<(Self, Manifest), StorageError> {
        // sled takes a failed read for the end of its log and overwrites what follows.
        files::read_through(dir)?;
        let open = || {
            let opened = Self::open_sled(dir)?;
            let manifest = replay::recover(&opened.trees, batches)?;
            // The bytes that were read may only be in the kernel's memory so far.
            opened.sync_all(dir)?;
            Ok((opened, manifest))
        };
        let opened = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(THREAD.to_owned());
            thread.spawn_scoped(scope, open).map(std::thread::ScopedJoinHandle::join)
        });
        let opened = opened.context(|| "start a thread".into())?;
        let panicked = || StorageError::damaged(format!("sled cannot open {}", dir.display()));
        opened.unwrap_or_else(|_| Err(panicked()))
    }

    fn open_sled(dir: &Path) -> Result<Self, StorageError> {
        let config = sled::Config::new().path(dir).flush_every_ms(None).cache_capacity(CACHE_BYTES);
        let mut opened = config.open();
        for _ in 0..UNLOCK_TRIES_MAX {
            if !is_locked(&opened) {
                break;
            }
            // sled gives no sign when it has released its files. A wait does no harm here, because the log is only
            // being opened.
            #[expect(clippy::disallowed_methods)]
            std::thread::sleep(UNLOCK_INTERVAL);
            opened = config.open();
        }
        if is_locked(&opened) {
            return Err(StorageError::Locked { dir: dir.to_owned() });
        }
        let db = opened.context(|| format!("open the log in {}", dir.display()))?;
        let tree = |name| db.open_tree(name).context(|| format!("open tree {name}"));
        let trees = Trees { log: tree("log")?, meta: tree("meta")? };
        let path = dir.join("db");
        let file = File::open(&path).context(|| format!("open {}", path.display()))?;
        Ok(Self { db, file, trees })
    }

    /// Puts records of the log from index `since` on, where this checkpoint may differ from the log, and takes a share
    /// of the records below the log away: one of `shares`. The checkpoint is unusable on disk from here on until
    /// [`Checkpoint::complete`] returns.
    pub(crate) fn feed(
        &self,
        manifest: &Manifest,
        since: u64,
        records: &[(u64, IVec)],
        shares: u64,
    ) -> Result<(), StorageError> {
        self.trees.remove_from(since)?;
        for (index, stored) in records {
            self.trees.put_record(*index, stored)?;
        }
        self.trees.remove_share_below(first(manifest), shares)
    }

    /// Makes this manifest the checkpoint's, whose log it holds, and removes the records below that log.
    pub(crate) fn complete(&self, manifest: &Manifest) -> Result<(), StorageError> {
        self.trees.remove_below(first(manifest))?;
        self.trees.put_manifest(manifest)?;
        self.sync()
    }

    /// Makes the records durable. sled's `flush` only hands its buffers to the kernel, so a sync of its file follows.
    fn sync(&self) -> Result<(), StorageError> {
        self.db.flush().map(|_| ()).context(|| "flush the log".into())?;
        self.file.sync_data().context(|| "sync the log".into())
    }

    /// Makes everything durable that opening sled changed. sled writes its settings when it creates a database, and
    /// replaces the snapshot of its page table when it opens one. It never syncs the settings or the name of that
    /// snapshot, but needs both.
    fn sync_all(&self, dir: &Path) -> Result<(), StorageError> {
        self.sync()?;
        let conf = dir.join("conf");
        let synced = File::open(&conf).and_then(|conf| conf.sync_all());
        synced.context(|| format!("sync {}", conf.display()))?;
        files::sync_dir(dir)
    }

    /// The stored records of a manifest's log, in order.
    pub(crate) fn records(
        &self,
        manifest: &Manifest,
    ) -> impl Iterator<Item = Result<(u64, IVec), StorageError>> {
        let extent = manifest.extent.map(|extent| extent.first..=extent.last);
        extent.into_iter().flatten().map(|index| {
            let stored = self.trees.record(index)?;
            Ok((index, stored.ok_or_else(|| missing(index))?))
        })
    }
}

/// The first index of a manifest's log; if it is empty, an index above any record.
fn first(manifest: &Manifest) -> u64 {
    manifest.extent.map_or(u64::MAX, |extent| extent.first)
}

/// Replaces the checkpoint `to` with a durable copy of the files of the checkpoint `from`. Neither is open.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), StorageError> {
    let temp = unfinished(to);
    files::copy_dir(from, &temp)?;
    files::remove_dir(to)?;
    let renamed = fs::rename(&temp, to);
    renamed.context(|| format!("rename {} to {}", temp.display(), to.display()))?;
    files::sync_dir(to.parent().unwrap_or(Path::new("")))
}

/// The directory of an unfinished copy.
pub(crate) fn unfinished(dir: &Path) -> PathBuf {
    dir.with_extension("tmp")
}

/// Whether sled found its file locked. This process already holds the lock of the data directory, so the holder is an
/// engine of this process that was just dropped: sled's threads release the file a little later.
fn is_locked(opened: &sled::Result<Db>) -> bool {
    matches!(opened, Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock"))
}
