//! A checkpoint: the log as it was after some group, in a sled database with a directory of its own.
//!
//! sled is not trusted. A checkpoint counts by what is found in it, and one that cannot be used is
//! made anew from the other; the order in which that is safe is in `DESIGN.md`.

use crate::error::{Context, StorageError};
use crate::files;
use crate::groups::Groups;
use crate::recover::{Trees, missing};
use crate::state::State;
use sled::{Db, IVec};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory for the page cache of each, in bytes. The log in use is smaller.
const CACHE_BYTES: u64 = 32 << 20;

/// How long an engine of this process that was just dropped may take to let go of its files.
const UNLOCK_TRIES_MAX: u32 = 500;
const UNLOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The thread that opens sled, for those who read of its panic.
const THREAD: &str = "checkpoint-open";

/// sled, and the file it keeps its data in.
pub(crate) struct Checkpoint {
    db: Db,
    file: File,
    pub(crate) trees: Trees,
}

impl Checkpoint {
    /// Makes the checkpoint of a state, from nothing; what the directory held before is gone.
    pub(crate) fn make(
        dir: &Path,
        state: &State,
        records: impl Iterator<Item = Result<(u64, IVec), StorageError>>,
    ) -> Result<Self, StorageError> {
        files::remove_dir(dir)?;
        files::create_dir(dir)?;
        let made = Self::open_sled(dir)?;
        for record in records {
            let (index, stored) = record?;
            made.trees.put_record(index, &stored)?;
        }
        made.trees.put_state(state)?;
        made.sync_all(dir)?;
        Ok(made)
    }

    /// Opens one and brings it to the newest group; it is on disk when this returns. Everything that sled
    /// makes of damaged files is an error, a panic too.
    pub(crate) fn open(dir: &Path, groups: &Groups) -> Result<(Self, State), StorageError> {
        // sled takes what it cannot read for the end of its log, and writes over it.
        files::read_through(dir)?;
        let open = || {
            let opened = Self::open_sled(dir)?;
            let state = opened.trees.recover(groups)?;
            // What was read may so far be in the kernel's memory only.
            opened.sync_all(dir)?;
            Ok((opened, state))
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
            // Nothing tells when sled has let go, and nobody opens a log where a wait would hurt.
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

    /// Goes on to a later state. `records` are those of its log that were put since, from index
    /// `since` on; what lies there now is replaced, and what lies outside the log goes. Until this
    /// returns, what is on disk is of no use.
    pub(crate) fn catch_up(
        &self,
        state: &State,
        since: u64,
        records: &[(u64, IVec)],
    ) -> Result<(), StorageError> {
        self.trees.remove_from(since)?;
        for (index, stored) in records {
            self.trees.put_record(*index, stored)?;
        }
        self.trees.remove_below(state.extent.map_or(u64::MAX, |extent| extent.first))?;
        self.trees.put_state(state)?;
        self.sync()
    }

    /// sled's `flush` hands its buffers to the kernel and goes no further; the sync is ours.
    fn sync(&self) -> Result<(), StorageError> {
        self.db.flush().map(|_| ()).context(|| "flush the log".into())?;
        self.file.sync_data().context(|| "sync the log".into())
    }

    /// Makes all of it durable, as after sled was opened: it never syncs its settings, which it
    /// writes when it makes a database, nor the name of the snapshot of its page table, which it
    /// replaces when it opens one and cannot do without.
    fn sync_all(&self, dir: &Path) -> Result<(), StorageError> {
        self.sync()?;
        let conf = dir.join("conf");
        let synced = File::open(&conf).and_then(|conf| conf.sync_all());
        synced.context(|| format!("sync {}", conf.display()))?;
        files::sync_dir(dir)
    }

    /// The records of a log, in order.
    pub(crate) fn records(
        &self,
        state: &State,
    ) -> impl Iterator<Item = Result<(u64, IVec), StorageError>> {
        let extent = state.extent.map(|extent| extent.first..=extent.last);
        extent.into_iter().flatten().map(|index| {
            let stored = self.trees.record(index)?;
            Ok((index, stored.ok_or_else(|| missing(index))?))
        })
    }
}

/// Puts a durable copy of the files of one checkpoint, which nobody has open, in the place of another.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), StorageError> {
    let temp = unfinished(to);
    files::copy_dir(from, &temp)?;
    files::remove_dir(to)?;
    let renamed = fs::rename(&temp, to);
    renamed.context(|| format!("rename {} to {}", temp.display(), to.display()))?;
    files::sync_dir(to.parent().unwrap_or(Path::new("")))
}

/// Where a copy is that was not finished.
pub(crate) fn unfinished(dir: &Path) -> PathBuf {
    dir.with_extension("tmp")
}

/// Whether sled found its file locked. The data directory's own lock is ours already, so that is an
/// engine of this very process on its way out: sled's threads let go a little after they were told.
fn is_locked(opened: &sled::Result<Db>) -> bool {
    matches!(opened, Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock"))
}
