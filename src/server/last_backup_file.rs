//! The file `last-backup` of a data directory: when a backup was last taken from this node, in Unix seconds.
//!
//! It is not in the log, because a backup changes nothing that nodes agree on. Each node remembers when it wrote its last
//! one, and the alert reads the latest of all nodes. A file that is lost or damaged makes a backup look older than it is,
//! never younger.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use crate::service::Services;

const FILE_NAME: &str = "last-backup";
/// Longest file: the digits of a number and a line break.
const FILE_BYTES_MAX: u64 = 32;

/// Shows in the metrics when the last backup before this start was taken, and keeps the file, for as long as it is
/// polled.
pub(super) async fn remember_backups(data: PathBuf, services: Services) {
    let mut taken = services.backup.last_taken();
    loop {
        let taken_s = *taken.borrow_and_update();
        if taken_s > 0 {
            let data = data.clone();
            let written = spawn_blocking(move || write(&data, taken_s)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%error, "the time of the last backup cannot be written");
            }
        }
        if taken.changed().await.is_err() {
            return;
        }
    }
}

/// The time in the file of an open data directory, in Unix seconds; 0 without one.
pub(super) fn last_backup_s(data: &Path) -> u64 {
    read(&data.join(FILE_NAME)).unwrap_or_else(|error| {
        tracing::warn!(%error, "the time of the last backup cannot be read");
        0
    })
}

fn read(path: &Path) -> io::Result<u64> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    text.trim_end().parse().map_err(io::Error::other)
}

fn write(data: &Path, taken_s: u64) -> io::Result<()> {
    let temp = data.join(format!("{FILE_NAME}.tmp"));
    let mut file = File::create(&temp)?;
    writeln!(file, "{taken_s}")?;
    file.sync_all()?;
    fs::rename(&temp, data.join(FILE_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_back_and_a_damaged_one_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(last_backup_s(dir.path()), 0);
        write(dir.path(), 1_790_000_000).unwrap();
        assert_eq!(last_backup_s(dir.path()), 1_790_000_000);
        for damaged in ["", "17900000x", "99999999999999999999999999999999999999"] {
            fs::write(dir.path().join(FILE_NAME), damaged).unwrap();
            assert_eq!(last_backup_s(dir.path()), 0, "{damaged:?}");
        }
    }
}
