//! One of the two files of the write-ahead log, kept as two copies.

use crate::error::{Context, StorageError};
use crate::files;
use crate::wal::layout::{Found, batches_in};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const COPIES: usize = 2;
/// The names of the copies, by file.
pub(super) const COPY_NAMES: [[&str; COPIES]; 2] = [["tail-a0", "tail-a1"], ["tail-b0", "tail-b1"]];

/// Size of a new file in bytes. A write inside this size needs no change of metadata on disk, which makes its
/// `fdatasync` cheap. Most batches take two blocks in each copy.
pub(super) const FILE_BYTES_MIN: usize = 512 << 10;

/// A file that its batches fill grows up to this size in bytes. The larger the files, the more records are purged
/// before a checkpoint would get them; the smaller, the sooner a starting node has read them.
pub(super) const FILE_BYTES_MAX: usize = 8 << 20;

/// One file of the write-ahead log: two copies that get the same writes.
pub(super) struct WalFile {
    copies: [File; COPIES],
    /// Size of each copy in bytes.
    len: usize,
}

impl WalFile {
    /// Opens both copies, and returns the batches in either. When it returns, what it read is on disk.
    pub(super) fn open(dir: &Path, number: usize) -> Result<(WalFile, Vec<Found>), StorageError> {
        let (mut found, mut len) = (Vec::new(), usize::MAX);
        let mut open = |name: &str| {
            let path = dir.join(name);
            let Some(bytes) = files::read(&path)? else {
                return Err(StorageError::damaged(format!("{} is missing", path.display())));
            };
            found.extend(batches_in(&bytes, number));
            len = len.min(bytes.len());
            let file = File::options().write(true).open(&path);
            file.and_then(|file| file.sync_data().map(|()| file))
                .context(|| format!("open {}", path.display()))
        };
        let copies = [open(COPY_NAMES[number][0])?, open(COPY_NAMES[number][1])?];
        Ok((WalFile { copies, len }, found))
    }

    /// Copies that cannot be written.
    #[cfg(test)]
    pub(super) fn read_only(dir: &Path, number: usize) -> Result<WalFile, StorageError> {
        let open =
            |name: &str| File::open(dir.join(name)).context(|| "open the write-ahead log".into());
        let copies = [open(COPY_NAMES[number][0])?, open(COPY_NAMES[number][1])?];
        Ok(WalFile { copies, len: FILE_BYTES_MIN })
    }

    /// Size of each copy in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes the bytes of batch `number` to both copies at offset `at`, and syncs one of them. The copies take
    /// turns, so the next batch syncs the other. The batch is on disk when this returns; every sync of the engine
    /// comes down to this `fdatasync`.
    pub(super) fn write(&mut self, number: u64, at: usize, batch: &[u8]) -> io::Result<()> {
        self.grow(at + batch.len())?;
        for copy in &self.copies {
            copy.write_all_at(batch, at as u64)?;
        }
        self.copies[usize::from(number.is_multiple_of(2))].sync_data()
    }

    /// Syncs both copies.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.copies.iter().try_for_each(File::sync_data)
    }

    /// Doubles the file until it holds `len` bytes. Files never shrink.
    pub(super) fn grow(&mut self, len: usize) -> io::Result<()> {
        if len <= self.len {
            return Ok(());
        }
        let grown = vec![0; len.next_power_of_two() - self.len];
        for copy in &self.copies {
            copy.write_all_at(&grown, self.len as u64)?;
        }
        self.len += grown.len();
        Ok(())
    }
}
