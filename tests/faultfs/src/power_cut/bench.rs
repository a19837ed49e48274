//! The disk that is cut: an image, its copies, and where they are mounted.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mintleaf_harness::{Finished, Process, await_some, eventually, secs};
use tempfile::TempDir;

use crate::mount::is_root;

/// Sizes of the disk, and of the XFS that holds it and a copy of it, as mkfs reads them.
const DISK_SIZE: &str = "256m";
const XFS_SIZE: &str = "1g";
/// How long a disk may take to come to rest. Clients of a stopped node wait a little longer for answers.
const RESTS_WITHIN: Duration = secs(10);

/// Runs a command in a directory, and returns its output. Signals of the terminal do not reach it: a mount is never left
/// halfway.
fn carry_out(dir: &Path, words: &str) -> io::Result<String> {
    let mut split = words.split(' ');
    let mut command = Command::new(split.next().unwrap_or_default());
    let output = command.args(split).current_dir(dir).process_group(0).output();
    let told = |why: io::Error| io::Error::new(why.kind(), format!("{words}: {why}"));
    let Finished { code, stdout, stderr } = output.map_err(told)?.into();
    match code {
        Some(0) => Ok(stdout.trim_end().to_owned()),
        _ => Err(io::Error::other(format!("{words}: {}", stderr.trim_end()))),
    }
}

/// A file system in an image file, mounted behind a loop device.
pub(super) struct Mount {
    dir: PathBuf,
    name: &'static str,
}

impl Mount {
    /// Mounts `image` at `name`, both in `dir`.
    fn new(dir: &Path, image: &str, name: &'static str) -> io::Result<Self> {
        fs::create_dir_all(dir.join(name))?;
        let device = carry_out(dir, &format!("losetup --find --show --direct-io=on {image}"))?;
        let mounted = carry_out(dir, &format!("mount {device} {name}"));
        let mounted = mounted.map(|_| Self { dir: dir.to_owned(), name });
        // The kernel detaches a mounted device when it is unmounted, and any other at once.
        carry_out(dir, &format!("losetup --detach {device}"))?;
        mounted
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // An indexer of files, or another program, may be reading it.
        let umount = || carry_out(&self.dir, &format!("umount {}", self.name)).ok();
        if await_some(RESTS_WITHIN, umount).is_none() {
            eprintln!("power-cut: {} stays mounted", self.dir.join(self.name).display());
        }
    }
}

/// Images of the disk as it is written to, `live`, and as a cut leaves it, `cut`, each mounted under its name.
pub(super) struct Bench {
    live: Option<Mount>,
    /// Holds the images, where mkfs.xfs is installed: unmounted after what is in it.
    pub(super) xfs: Option<Mount>,
    dir: TempDir,
}

impl Bench {
    pub(super) fn new(seed: u64) -> io::Result<Self> {
        if !is_root() {
            return Err(io::Error::other("it needs root"));
        }
        let prefix = format!("mintleaf-power-cut-{seed}-");
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        let mut bench = Self { live: None, xfs: None, dir };
        let xfs = format!("mkfs.xfs -q -m reflink=1 -d file,name=xfs.img,size={XFS_SIZE}");
        match bench.carry_out(&xfs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            made => bench.xfs = Some(made.and_then(|_| bench.mount("xfs"))?),
        }
        bench.carry_out(&format!("mkfs.ext4 -q -b 4096 {} {DISK_SIZE}", bench.image("live")))?;
        bench.live = Some(bench.mount("live")?);
        Ok(bench)
    }

    pub(super) fn carry_out(&self, words: &str) -> io::Result<String> {
        carry_out(self.dir.path(), words)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The path of an image below the directory.
    pub(super) fn image(&self, name: &str) -> String {
        format!("{}{name}.img", if self.xfs.is_some() { "xfs/" } else { "" })
    }

    pub(super) fn mount(&self, name: &'static str) -> io::Result<Mount> {
        Mount::new(self.dir.path(), &self.image(name), name)
    }

    /// Copies the disk as it is at this moment. On XFS that is one atomic step. Elsewhere the writer is stopped
    /// meanwhile: what it has not synced is still missing from the copy, but no cut falls into the middle of a sync.
    pub(super) fn copy(&self, writer: &Process) -> io::Result<()> {
        let images = format!("{} {}", self.image("live"), self.image("cut"));
        if self.xfs.is_some() {
            return self.carry_out(&format!("cp --reflink=always {images}")).map(drop);
        }
        writer.signal("STOP");
        // The kernel still completes what is under way.
        eventually("the disk to come to rest", RESTS_WITHIN, || {
            self.carry_out(&format!("cp --sparse=always {images}")).ok()?;
            self.carry_out(&format!("cmp --quiet {images}")).ok()
        });
        writer.signal("CONT");
        Ok(())
    }

    /// Puts the copy in the place of the disk.
    pub(super) fn adopt_copy(&mut self) -> io::Result<()> {
        self.live = None;
        self.carry_out(&format!("mv {} {}", self.image("cut"), self.image("live")))?;
        self.live = Some(self.mount("live")?);
        Ok(())
    }

    /// Saves the disk that a verification refused from the end of the run, and returns where it is.
    pub(super) fn keep(&self) -> io::Result<PathBuf> {
        let [cut, live] = ["cut", "live"].map(|name| self.image(name));
        let image = if self.path(&cut).exists() { cut } else { live };
        self.carry_out(&format!("cp --sparse=always {image} kept.img"))?;
        let kept = self.dir.path().with_extension("img");
        fs::rename(self.path("kept.img"), &kept)?;
        Ok(kept)
    }
}
