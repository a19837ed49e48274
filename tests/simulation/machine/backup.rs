//! The loss, copy, restore and damage of a machine's data. There are also copies in the form that operators
//! have, to restore a whole cluster from.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use mintleaf_core::backup::write_backup;
use mintleaf_storage::{DataDir, Snapshots};

use super::{Machine, Serving};
use crate::disk::Image;
use crate::oracle::witnessed;

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

    /// Copies the contents of the disk.
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

    /// Writes a copy of the directory to `to`, as the machine has it while it is down: the snapshot and the
    /// log, in files that the product can read. Returns whether the machine is down and its node was ever in a
    /// cluster.
    pub(crate) fn copy_stopped(&self, to: &Path) -> bool {
        let there = !self.is_up() && self.disk.has_taken_part() && self.dir.is_dir();
        there && self.write_stopped(to).expect("a stopped directory can be copied")
    }

    fn write_stopped(&self, to: &Path) -> io::Result<bool> {
        let between = to.with_extension("between");
        copy_dir(&self.dir, &between)?;
        let from = DataDir::open_moved(&between, 0, self.node_id).map_err(io::Error::other)?;
        let snapshot = Snapshots::open(&from).and_then(|snapshots| snapshots.latest());
        // A deliberately damaged snapshot is of no use here.
        let Ok(snapshot) = snapshot else { return Ok(false) };
        let made =
            DataDir::open_for(to, from.store_id(), self.node_id).map_err(io::Error::other)?;
        if let Some(snapshot) = snapshot {
            // The part that the witness wrote in front of the state does not belong to it.
            let mut state = snapshot.body();
            let (_, rest) = witnessed(&mut state)?;
            let mut state = rest.chain(state);
            let write = &mut |out: &mut dyn Write| io::copy(&mut state, out).map(drop);
            let made = Snapshots::open(&made).map_err(io::Error::other)?;
            made.write(&snapshot.meta, write).map_err(io::Error::other)?;
        }
        self.disk.image().write_to(&made).map_err(io::Error::other)?;
        drop(from);
        std::fs::remove_dir_all(between)?;
        Ok(true)
    }

    /// Takes over a directory that the product has made. No process has run on this machine yet.
    pub(crate) fn take_over(&self) {
        let dir = DataDir::open_moved(&self.dir, 0, self.node_id).expect("a data directory");
        self.disk.restore(Some(Image::read_from(&dir).expect("a log that opens")));
    }

    /// Changes one bit of the current snapshot. Returns whether there is a snapshot. The machine must be down.
    pub(crate) fn damage_snapshot(&self, random: u64) -> bool {
        let path = self.dir.join("snapshot").join("current");
        let Ok(mut bytes) = std::fs::read(&path) else { return false };
        let bit = (random % (8 * bytes.len() as u64)) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bytes).is_ok()
    }
}

/// Writes a backup of a running node, as the product does for a client. Returns whether the node is in a cluster.
pub(crate) fn back_up(serving: &Serving, to: &Path) -> bool {
    let Ok((head, frozen)) = serving.services.backup.freeze() else { return false };
    let mut out = BufWriter::new(File::create(to).expect("a file can be made"));
    write_backup(&head, &frozen, &mut out).and_then(|()| out.flush()).expect("a backup");
    true
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
