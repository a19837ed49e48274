//! Snapshot files: one current snapshot, replaced as a whole. [`format`] has the layout of the file.

mod format;

use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::files;
use format::{FileAt, Parts};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIR: &str = "snapshot";
const CURRENT: &str = "current";
const TEMP_PREFIX: &str = "temp-";

/// The snapshots of one data directory. Several writers may run at the same time. The snapshot that finishes last
/// becomes the current one, so the caller decides which is newer.
pub struct Snapshots {
    dir: PathBuf,
    temps: AtomicU64,
    /// The parts of the current file, once this process has verified it. A leader sends the file often and must not
    /// read all of it each time; the receiver verifies it anyway.
    verified: Mutex<Option<Parts>>,
    _lock: Arc<File>,
}

impl Snapshots {
    /// Opens the snapshots in `dir` and removes the files of unfinished writers.
    pub fn open(dir: &DataDir) -> Result<Self, StorageError> {
        let path = dir.path().join(DIR);
        files::create_dir(&path)?;
        remove_temps(&path)?;
        Ok(Snapshots {
            dir: path,
            temps: AtomicU64::new(0),
            verified: Mutex::default(),
            _lock: dir.share_lock(),
        })
    }

    /// Creates an empty file for a snapshot that is being received. The file is removed if it is dropped without
    /// being installed.
    pub fn create(&self) -> Result<SnapshotTemp, StorageError> {
        let number = self.temps.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{TEMP_PREFIX}{number}"));
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .context(|| format!("create {}", path.display()))?;
        Ok(SnapshotTemp { file, path })
    }

    /// Writes a snapshot and makes it the current one; it is on disk when this returns. `body` is
    /// called once and writes the whole body. Only a small buffer is held in memory.
    pub fn write(
        &self,
        meta: &[u8],
        body: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StorageError> {
        let temp = self.prepare(meta, body)?;
        self.make_current(&temp, None)
    }

    /// Writes a snapshot that [`Snapshots::install`] can make the current one later.
    pub fn prepare(
        &self,
        meta: &[u8],
        body: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<SnapshotTemp, StorageError> {
        format::check_meta(meta)?;
        let temp = self.create()?;
        format::write(&temp.file, meta, body)
            .context(|| format!("write {}", temp.path.display()))?;
        Ok(temp)
    }

    /// Verifies a whole snapshot file, received or prepared, and makes it the current one; it is on
    /// disk when this returns.
    ///
    /// # Errors
    /// [`StorageError::BadSnapshot`] when the file is incomplete or altered. The file is removed,
    /// and the current snapshot stays.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an installed file is no longer the caller's"
    )]
    pub fn install(&self, temp: SnapshotTemp) -> Result<(), StorageError> {
        let parts = format::verify(&temp.file)
            .context(|| format!("read {}", temp.path.display()))?
            .map_err(|what| StorageError::BadSnapshot { what })?;
        self.make_current(&temp, Some(parts))
    }

    /// Opens the current snapshot, and verifies it unless this process has done so before; `None` if no snapshot
    /// exists. The opened file stays readable after a newer snapshot has replaced it.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when the file is incomplete or altered.
    pub fn latest(&self) -> Result<Option<Snapshot>, StorageError> {
        let mut verified = self.verified.lock();
        let known = verified.take();
        let Some((file, parts)) = open_current(&self.dir, known)? else { return Ok(None) };
        let Parts { meta, body } = verified.insert(parts).clone();
        Ok(Some(Snapshot { meta, file, body }))
    }

    fn make_current(&self, temp: &SnapshotTemp, parts: Option<Parts>) -> Result<(), StorageError> {
        temp.file.sync_all().context(|| format!("sync {}", temp.path.display()))?;
        let mut verified = self.verified.lock();
        files::rename(&temp.path, &self.dir, CURRENT)?;
        *verified = parts;
        Ok(())
    }
}

/// A snapshot file that is being received: written in any order, then installed. The file is removed if this is
/// dropped without being installed.
#[derive(Debug)]
pub struct SnapshotTemp {
    file: File,
    path: PathBuf,
}

impl Drop for SnapshotTemp {
    fn drop(&mut self) {
        // An installed file has another name by now. A file that cannot be removed here is removed by the next open.
        let _ = fs::remove_file(&self.path);
    }
}

impl Read for SnapshotTemp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Write for SnapshotTemp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for SnapshotTemp {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// The current snapshot, verified.
#[derive(Debug)]
pub struct Snapshot {
    /// The meta part, as the writer gave it.
    pub meta: Vec<u8>,
    /// The whole file, positioned at its start. This is what is sent to another node.
    pub file: File,
    /// Offset and length of the body in the file, in bytes.
    body: (u64, u64),
}

impl Snapshot {
    /// Size of the body in bytes.
    pub fn body_bytes(&self) -> u64 {
        self.body.1
    }

    /// Reads the body from its start. The position of `file` does not change.
    pub fn body(&self) -> impl Read + '_ {
        let (at, len) = self.body;
        BufReader::with_capacity(64 << 10, FileAt { file: &self.file, at }.take(len))
    }
}

/// The current snapshot of a data directory that is not open, verified; `None` if no snapshot exists. Nothing is
/// written.
pub(crate) fn current_of(data: &Path) -> Result<Option<Snapshot>, StorageError> {
    let current = open_current(&data.join(DIR), None)?;
    Ok(current.map(|(file, Parts { meta, body })| Snapshot { meta, file, body }))
}

/// Opens the current snapshot in `dir`, and verifies it unless its parts are known.
fn open_current(dir: &Path, known: Option<Parts>) -> Result<Option<(File, Parts)>, StorageError> {
    let path = dir.join(CURRENT);
    let action = || format!("read {}", path.display());
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        result => result.context(action)?,
    };
    let parts = match known {
        Some(parts) => parts,
        None => format::verify(&file)
            .context(action)?
            .map_err(|what| StorageError::damaged(format!("{}: {what}", path.display())))?,
    };
    Ok(Some((file, parts)))
}

fn remove_temps(dir: &Path) -> Result<(), StorageError> {
    let list = || format!("list {}", dir.display());
    for entry in fs::read_dir(dir).context(list)? {
        let entry = entry.context(list)?;
        if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
            fs::remove_file(entry.path())
                .context(|| format!("remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
