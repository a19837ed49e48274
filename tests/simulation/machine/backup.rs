//! A machine's data: lost, copied, put back and damaged.

use std::path::{Path, PathBuf};

use super::Machine;
use crate::disk::Image;

/// A copy of a machine's disk.
pub(crate) struct Backup {
    dir: PathBuf,
    log: Image,
}

impl Machine {
    /// Crashes the machine and removes its data. Its next process asks `seed` for admission.
    pub(crate) fn wipe(&self, seed: u64) {
        self.lose_everything();
        self.join(seed);
    }

    /// Crashes the machine and removes its data.
    pub(crate) fn lose_everything(&self) {
        self.end();
        self.disk.restore(None);
        drop(std::fs::remove_dir_all(&self.dir));
        *self.store.lock() = None;
    }

    /// Copies everything that is on the disk.
    pub(crate) fn backup(&self) -> Backup {
        let copy = self.dir.with_extension("backup");
        drop(std::fs::remove_dir_all(&copy));
        copy_dir(&self.dir, &copy).expect("the data directory can be copied");
        Backup { dir: copy, log: self.disk.image() }
    }

    /// Puts a copy back. The machine must be down.
    pub(crate) fn restore(&self, backup: Backup) {
        drop(std::fs::remove_dir_all(&self.dir));
        copy_dir(&backup.dir, &self.dir).expect("the data directory can be restored");
        self.disk.restore(Some(backup.log));
    }

    /// Changes one bit of the current snapshot, and returns whether there is a snapshot. The machine must
    /// be down.
    pub(crate) fn damage_snapshot(&self, random: u64) -> bool {
        let path = self.dir.join("snapshot").join("current");
        let Ok(mut bytes) = std::fs::read(&path) else { return false };
        let bit = (random % (8 * bytes.len() as u64)) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bytes).is_ok()
    }
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
