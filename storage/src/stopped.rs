//! The data directory of a stopped node, which is read and never written. Also a new directory that the caller fills,
//! and that is either complete or absent.

use crate::data_dir::{self, DataDir};
use crate::engine::SledEngine;
use crate::error::{Context, StorageError};
use crate::files;
use crate::open;
use crate::snapshot::{self, Snapshot};
use std::fs::{self, File};
use std::iter;
use std::path::{Path, PathBuf};

/// Where a caller may keep temporary data while a new directory is filled: inside that directory.
const SCRATCH: &str = "scratch.tmp";
/// Where a new directory is filled, inside itself.
const FILLED: &str = "restoring.tmp";
/// What the root of a file system holds from the beginning.
const LOST_AND_FOUND: &str = "lost+found";

/// The data directory of a stopped node. No node can open it while this lives.
#[derive(Debug)]
pub struct StoppedDir {
    path: PathBuf,
    owner: Option<u64>,
    log_made: bool,
    _lock: Option<File>,
}

impl StoppedDir {
    /// Opens the directory for reading.
    ///
    /// # Errors
    /// [`StorageError::Missing`] when it is not a data directory, [`StorageError::Locked`] when a process uses it,
    /// [`StorageError::Format`] when another release wrote it, and [`StorageError::Damaged`] when the identity file
    /// is altered.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let lock = data_dir::lock_for_reading(path)?;
        let Some(data_dir::Known { owner, log_made }) = data_dir::known(path)? else {
            return Err(StorageError::Missing { dir: path.to_path_buf() });
        };
        Ok(Self { path: path.to_path_buf(), owner, log_made, _lock: lock })
    }

    /// The node that the directory belongs to; `None` until a node has opened it as its own.
    pub fn owner(&self) -> Option<u64> {
        self.owner
    }

    /// The current snapshot, verified; `None` if no snapshot exists.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when the file is incomplete or altered.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, StorageError> {
        snapshot::current_of(&self.path)
    }

    /// Opens a copy of the log, which is made in a new directory `scratch`; `None` if no log was ever created.
    /// Opening a log writes to it, so the original is not opened.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when anything that was acknowledged is missing or altered.
    pub fn copy_log(&self, scratch: &Path) -> Result<Option<CopiedLog>, StorageError> {
        if !self.log_made {
            return Ok(None);
        }
        files::create_dir(scratch)?;
        let scratch = Scratch(scratch.to_path_buf());
        let names = iter::once(data_dir::IDENTITY).chain(open::names());
        for from in names.map(|name| self.path.join(name)).filter(|from| from.exists()) {
            let to = scratch.0.join(from.file_name().unwrap_or_default());
            if from.is_dir() {
                files::copy_dir(&from, &to)?;
            } else {
                let copied = fs::copy(&from, &to);
                copied.context(|| format!("copy {} to {}", from.display(), to.display()))?;
            }
        }
        let dir = DataDir::open(&scratch.0, 0)?;
        let engine = SledEngine::open(&dir)?;
        Ok(Some(CopiedLog { engine, _dir: dir, _scratch: scratch }))
    }
}

/// A copy of the log of a stopped directory, which is removed when this is dropped.
pub struct CopiedLog {
    /// The log.
    pub engine: SledEngine,
    _dir: DataDir,
    _scratch: Scratch,
}

/// A directory that is removed when this is dropped. A failed removal does no harm.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = files::remove_dir(&self.0);
    }
}

/// A data directory that is being made. Until it is finished, no node starts on it, and dropping this removes it.
#[derive(Debug)]
pub struct NewDir {
    path: PathBuf,
    /// Whether the directory existed before, empty.
    existed: bool,
    finished: bool,
}

impl NewDir {
    /// Begins a data directory at `path`, which must not exist or must be an empty directory.
    ///
    /// # Errors
    /// [`StorageError::NotEmpty`] when the directory is not empty.
    pub fn begin(path: &Path) -> Result<Self, StorageError> {
        let existed = path.exists();
        files::create_dir(path)?;
        let list = || format!("list {}", path.display());
        for entry in fs::read_dir(path).context(list)? {
            let name = entry.context(list)?.file_name();
            if name != LOST_AND_FOUND {
                let found = name.to_string_lossy().into_owned();
                return Err(StorageError::NotEmpty { dir: path.to_path_buf(), found });
            }
        }
        data_dir::keep_others_out(path);
        let new = Self { path: path.to_path_buf(), existed, finished: false };
        files::create_dir(&new.filled_at())?;
        Ok(new)
    }

    /// Opens the new directory as the data directory of a node. Everything opened from it must be dropped before
    /// [`NewDir::finish`].
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn open_for(&self, fresh_id: u128, node_id: u64) -> Result<DataDir, StorageError> {
        DataDir::open_for(&self.filled_at(), fresh_id, node_id)
    }

    /// Where the caller may make a directory for temporary data until this one is finished.
    pub fn scratch(&self) -> PathBuf {
        self.path.join(SCRATCH)
    }

    /// Moves everything to its place, the identity last: a directory without one is refused. Everything is on disk
    /// when this returns.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn finish(mut self) -> Result<(), StorageError> {
        let filled = self.filled_at();
        let list = || format!("list {}", filled.display());
        for entry in fs::read_dir(&filled).context(list)? {
            let name = entry.context(list)?.file_name();
            if name != data_dir::IDENTITY {
                self.put(&filled, Path::new(&name))?;
            }
        }
        files::sync_dir(&self.path)?;
        self.put(&filled, Path::new(data_dir::IDENTITY))?;
        files::remove_dir(&filled)?;
        files::sync_dir(&self.path)?;
        self.finished = true;
        Ok(())
    }

    fn put(&self, filled: &Path, name: &Path) -> Result<(), StorageError> {
        let (from, to) = (filled.join(name), self.path.join(name));
        fs::rename(&from, &to).context(|| format!("rename {} to {}", from.display(), to.display()))
    }

    fn filled_at(&self) -> PathBuf {
        self.path.join(FILLED)
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Leftovers that cannot be removed have no identity, so no node starts on them.
        let names = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in names.filter(|entry| entry.file_name() != LOST_AND_FOUND) {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        if !self.existed {
            let _ = fs::remove_dir(&self.path);
        }
    }
}
