//! Files that settings name: opened without a wait, read whole, and within a bound.
//!
//! A node reads them while it starts, and again while it runs. A pipe in their place would block it until a process
//! writes to the pipe, and a device might never end; so they must be regular files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::error::{ConfigError, fault, unreadable};

/// Longest file of keys or certificates: a chain of certificates and a bundle of CAs fit many times.
pub(super) const PEM_BYTES_MAX: usize = 1 << 20;

/// Which users may own, read and write a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Any user may.
    Public,
    /// Only the node's own user, or root, may own it, because the owner can replace it at any time.
    Owned,
    /// Only the node's own user, or root, may own it, and only its owner may read or write it. The node's group may read
    /// a file of root, because Kubernetes mounts a Secret in this way.
    Private,
}

/// Reads the file that a flag names.
///
/// # Errors
/// When it cannot be read, is not a regular file, is longer than `bytes_max`, a number of MiB, or is not kept
/// as it has to be.
pub(super) fn read(
    flag: &str,
    path: &Path,
    bytes_max: usize,
    kept: Kept,
) -> Result<Vec<u8>, ConfigError> {
    let failed = |error: io::Error| unreadable(flag, path, &error);
    let refused = |why: &str| fault(flag, format_args!("{}: {why}", path.display()));
    let file = open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(refused("is no regular file"));
    }
    if kept != Kept::Public && !is_own(meta.uid(), geteuid().as_raw()) {
        return Err(refused("belongs to another user; chown it to the one that runs the node"));
    }
    if kept == Kept::Private && is_exposed(&meta) {
        return Err(refused(
            "other users may read or write it; chmod 600 it, or have root own it and the node's group read it \
             (chmod 640)",
        ));
    }
    let mut text = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() > bytes_max {
        true => Err(refused(&format!("is longer than {} MiB", bytes_max >> 20))),
        false => Ok(text),
    }
}

/// Opens a file. If it is a pipe, does not wait for a process that writes to it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Whether a file of `user` counts as one of the process's user `own`. Files of root do, because root can replace any
/// file.
fn is_own(user: u32, own: u32) -> bool {
    user == own || user == 0
}

/// Whether other users of this machine can read or write a file.
pub fn others_can_use(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| is_exposed(&meta))
}

/// Says who owns a directory that does not belong to the user of this process; `None` for root, which may use any.
pub fn foreign_owner(directory: &Path) -> Option<String> {
    let (owner, own) = (std::fs::metadata(directory).ok()?.uid(), geteuid().as_raw());
    let is_foreign = own != 0 && owner != own;
    is_foreign
        .then(|| format!("{} belongs to user {owner}, and this is user {own}", directory.display()))
}

/// Warns of a file that other users of this machine can read.
pub(super) fn warn_if_exposed(path: &Path) {
    if others_can_use(path) {
        tracing::warn!(path = %path.display(), "other users can read this file; chmod 600 it");
    }
}

fn is_exposed(meta: &Metadata) -> bool {
    lets_others(meta.permissions().mode(), meta.uid(), geteuid().as_raw())
}

/// Whether a file of this mode and owner lets users other than the process's user `own` use it. The group of a file of
/// root is root's choice; a process that has opened the file as another user belongs to that group.
fn lets_others(mode: u32, owner: u32, own: u32) -> bool {
    let may_not = if owner == 0 && own != 0 { 0o037 } else { 0o077 };
    mode & may_not != 0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::Permissions;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn read(path: &Path, kept: Kept) -> Result<Vec<u8>, String> {
        super::read("key", path, 1 << 20, kept).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refused(path: &Path, kept: Kept, why: &str) {
        let error = read(path, kept).unwrap_err();
        assert!(error.starts_with("--key ") && error.contains(why), "{error}");
    }

    #[test]
    fn a_file_is_read_whole_and_a_missing_one_is_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let missing = super::read("key", &path, 1 << 20, Kept::Public).unwrap_err();
        assert!(missing.is_missing(), "{missing}");
        fs::write(&path, vec![b'a'; 1 << 20]).unwrap();
        assert_eq!(read(&path, Kept::Public).unwrap().len(), 1 << 20);
        fs::write(&path, vec![b'a'; (1 << 20) + 1]).unwrap();
        refused(&path, Kept::Public, "is longer than 1 MiB");
        let long = super::read("key", &path, 1 << 20, Kept::Public).unwrap_err();
        assert!(!long.is_missing(), "{long}");
    }

    #[test]
    fn a_pipe_a_device_or_a_directory_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe, "/dev/zero".into(), dir.path().to_owned()] {
            let (ended, end) = mpsc::channel();
            let reading = path.clone();
            thread::spawn(move || ended.send(read(&reading, Kept::Public)));
            let error = end.recv_timeout(Duration::from_secs(20)).expect("it waits").unwrap_err();
            assert!(error.contains("is no regular file"), "{}: {error}", path.display());
        }
    }

    #[test]
    fn a_private_file_that_others_may_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "key").unwrap();
        for mode in [0o640, 0o440, 0o602, 0o644, 0o700 | 0o001] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            refused(&path, Kept::Private, "chmod 600");
            assert!(read(&path, Kept::Owned).is_ok(), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert_eq!(read(&path, Kept::Private).unwrap(), b"key");
    }

    #[test]
    fn the_group_may_read_a_file_of_root_and_nothing_else() {
        for (mode, owner, own, expected) in [
            (0o440, 0, 65_532, false),
            (0o640, 0, 65_532, false),
            (0o660, 0, 65_532, true),
            (0o650, 0, 65_532, true),
            (0o444, 0, 65_532, true),
            (0o440, 0, 0, true),
            (0o440, 65_532, 65_532, true),
            (0o400, 65_532, 65_532, false),
            (0o600, 0, 0, false),
        ] {
            assert_eq!(lets_others(mode, owner, own), expected, "{mode:o} of {owner} for {own}");
        }
    }

    #[test]
    fn the_file_of_another_user_is_refused_and_that_of_root_is_not() {
        assert!(is_own(7, 7) && is_own(0, 7) && is_own(0, 0));
        assert!(!is_own(8, 7) && !is_own(7, 0));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "key").unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
            return println!("SKIPPED the file of another user: only root can make one");
        }
        refused(&path, Kept::Owned, "belongs to another user");
        refused(&path, Kept::Private, "belongs to another user");
        assert!(read(&path, Kept::Public).is_ok());
    }
}
