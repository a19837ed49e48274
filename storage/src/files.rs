//! Operations on files and directories. Each change is on disk when its function returns, unless the function's
//! documentation differs.

use crate::error::{Context, StorageError};
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .context(|| format!("sync directory {}", dir.display()))
}

/// Creates a directory and its missing parents, which only their owner may enter, independent of the umask. Does
/// nothing if it exists.
pub(crate) fn create_dir(dir: &Path) -> Result<(), StorageError> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    create_dir(parent)?;
    match private_dirs().create(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
        result => result.context(|| format!("create directory {}", dir.display()))?,
    }
    sync_dir(parent)
}

#[cfg(unix)]
fn private_dirs() -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(not(unix))]
fn private_dirs() -> DirBuilder {
    DirBuilder::new()
}

/// Replaces the file `dir/name` so that a crash leaves either the old content or the new, never a mix.
pub(crate) fn replace(dir: &Path, name: &str, content: &[u8]) -> Result<(), StorageError> {
    let temp = dir.join(format!("{name}.tmp"));
    File::create(&temp)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .context(|| format!("write {}", temp.display()))?;
    rename(&temp, dir, name)
}

/// Renames a file, whose content is already on disk, to `dir/name`.
pub(crate) fn rename(from: &Path, dir: &Path, name: &str) -> Result<(), StorageError> {
    let to = dir.join(name);
    fs::rename(from, &to).context(|| format!("rename {} to {}", from.display(), to.display()))?;
    sync_dir(dir)
}

/// Reads all files in a directory to their ends, to find out whether they can be read.
pub(crate) fn read_through(dir: &Path) -> Result<(), StorageError> {
    each_in(dir, |path, is_dir| {
        if is_dir {
            return read_through(path);
        }
        let read = || std::io::copy(&mut File::open(path)?, &mut std::io::sink());
        read().map(|_| ()).context(|| format!("read {}", path.display()))
    })
}

/// Copies a directory with everything in it. On return the copy is on disk, except for its own name in its parent
/// directory.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> Result<(), StorageError> {
    fs::create_dir(to).context(|| format!("create directory {}", to.display()))?;
    each_in(from, |path, is_dir| {
        let target = to.join(path.file_name().unwrap_or_default());
        if is_dir {
            return copy_dir(path, &target);
        }
        let copied = fs::copy(path, &target).and_then(|_| File::open(&target)?.sync_all());
        copied.context(|| format!("copy {} to {}", path.display(), target.display()))
    })?;
    sync_dir(to)
}

/// Removes a directory with everything in it; does nothing if it does not exist. The removal is not synced.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), StorageError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.context(|| format!("remove {}", dir.display())),
    }
}

/// Calls `visit` with each entry of a directory and whether the entry is a directory itself.
fn each_in(
    dir: &Path,
    mut visit: impl FnMut(&Path, bool) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let list = || format!("list {}", dir.display());
    for entry in fs::read_dir(dir).context(list)? {
        let entry = entry.context(list)?;
        let is_dir = entry.file_type().context(list)?.is_dir();
        visit(&entry.path(), is_dir)?;
    }
    Ok(())
}

/// Reads a whole file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some).context(|| format!("read {}", path.display())),
    }
}
