//! Loading a disk from a directory, and saving it to one.

use std::fs;
use std::io;
use std::path::Path;

use crate::disk::{Disk, Ino, ROOT};

impl Disk {
    /// Copies the files of a directory to the disk. They are as durable as if they had always been there.
    ///
    /// # Errors
    /// When they cannot be read, are neither files nor directories, or do not fit on the disk.
    pub fn load(&mut self, from: &Path) -> io::Result<()> {
        self.load_dir(from, ROOT)?;
        self.sync_all();
        Ok(())
    }

    fn load_dir(&mut self, from: &Path, dir: Ino) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if !kind.is_dir() && !kind.is_file() {
                let path = entry.path();
                return Err(io::Error::other(format!("{} is no plain file", path.display())));
            }
            let name = entry.file_name();
            let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
            let permissions = if kind.is_dir() { 0o755 } else { 0o644 };
            let ino = self.create(dir, name, kind.is_dir(), permissions).map_err(from_errno)?;
            if kind.is_dir() {
                self.load_dir(&entry.path(), ino)?;
            } else {
                self.write(ino, 0, &fs::read(entry.path())?).map_err(from_errno)?;
            }
        }
        Ok(())
    }

    /// Writes all files, as programs read them now, into an empty directory, which is created if it is missing.
    ///
    /// # Errors
    /// When the directory is not empty, or cannot be written.
    pub fn save(&self, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        if fs::read_dir(to)?.next().is_some() {
            return Err(io::Error::other(format!("{} is not empty", to.display())));
        }
        for (path, ino) in self.paths() {
            let path = to.join(path);
            match self.read(ino, 0, usize::MAX) {
                Ok(bytes) => fs::write(path, bytes)?,
                Err(_) => fs::create_dir(path)?,
            }
        }
        Ok(())
    }
}

fn from_errno(errno: fuser::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Cut;
    use crate::disk::Strictness;

    #[test]
    fn directory_is_loaded_durable_and_saved_as_it_was() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/file"), b"bytes").unwrap();
        let mut disk = Disk::new(Strictness::Strict, 1 << 20);
        disk.load(from.path()).unwrap();
        disk.cut(Cut::Lose, 0);
        disk.save(to.path()).unwrap();
        assert_eq!(fs::read(to.path().join("a/b/file")).unwrap(), b"bytes");
        assert!(disk.save(to.path()).is_err());
    }
}
