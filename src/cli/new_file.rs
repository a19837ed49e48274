//! Files that a command makes to stay: never in the place of another one, and secrets for their owner alone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::failure::Failure;

/// The mode of a file that only its owner may read.
pub(super) const SECRET: u32 = 0o600;

/// The nearest directory that is there already on the way to a path, which need not exist yet.
pub(super) fn existing(path: &Path) -> PathBuf {
    let above = path.ancestors().find(|above| above.is_dir());
    above.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Writes a file that does not exist yet, and has it on disk.
///
/// # Errors
/// When something of that name exists, or the file cannot be written; then nothing is left behind.
pub(super) fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::new(format!("cannot write {}: {error}", path.display())),
    };
    let mut file = OpenOptions::new();
    let mut file = file.write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
        // The first error is the one to report.
        let _ = fs::remove_file(path);
        failed(error)
    })
}

pub(super) fn exists(path: &Path) -> Failure {
    Failure::new(format!("{} already exists and is not overwritten", path.display()))
}
