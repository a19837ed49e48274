//! Durable steps on files and directories: each is on disk when it returns.

use crate::error::{Context, StorageError};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .context(|| format!("sync directory {}", dir.display()))
}

/// Creates a directory and what is missing above it; nothing happens when it exists.
pub(crate) fn create_dir(dir: &Path) -> Result<(), StorageError> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    create_dir(parent)?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
        result => result.context(|| format!("create directory {}", dir.display()))?,
    }
    sync_dir(parent)
}

/// Replaces the file `dir/name` so that a crash leaves the old content or the new, never a mix.
pub(crate) fn replace(dir: &Path, name: &str, content: &[u8]) -> Result<(), StorageError> {
    let temp = dir.join(format!("{name}.tmp"));
    File::create(&temp)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .context(|| format!("write {}", temp.display()))?;
    rename(&temp, dir, name)
}

/// Renames a file that is already on disk to `dir/name`.
pub(crate) fn rename(from: &Path, dir: &Path, name: &str) -> Result<(), StorageError> {
    let to = dir.join(name);
    fs::rename(from, &to).context(|| format!("rename {} to {}", from.display(), to.display()))?;
    sync_dir(dir)
}

/// Reads a file to its end and forgets it, for the errors that it may bring; one that is not there
/// brings none.
pub(crate) fn read_through(path: &Path) -> Result<(), StorageError> {
    let read = || std::io::copy(&mut File::open(path)?, &mut std::io::sink());
    match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.map(|_| ()).context(|| format!("read {}", path.display())),
    }
}

/// Reads a whole file; `None` when there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some).context(|| format!("read {}", path.display())),
    }
}
