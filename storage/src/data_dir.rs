//! A data directory: its owner, the lock that keeps other processes out, and how often it was opened.

mod entry;
mod identity;

use crate::error::{Context, StorageError};
use crate::files;
pub(crate) use entry::keep_others_out;
use identity::{FILE_NAME, Found, Identity};
use parking_lot::Mutex;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "lock";

/// The names that a directory without an identity may contain: what a crash before the identity was written leaves
/// behind, and what a fresh file system holds.
const HARMLESS: [&str; 3] = [LOCK, "identity.tmp", "lost+found"];

/// What to do with a directory that is a copy of another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    Opened,
    Refused,
}

/// A data directory, open and locked. The lock is held until this and everything opened from it (the log engine, the
/// snapshots) is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: Mutex<Identity>,
    is_new: bool,
    lock: Arc<File>,
}

impl DataDir {
    /// Opens the data directory at `path`, or creates it together with missing parents, and durably counts this
    /// opening. From then on only its owner may enter it, if the file system allows that to be set.
    ///
    /// `fresh_id` becomes the store id of a new directory: 128 random bits, so that no two directories ever share
    /// one. An existing directory keeps its id.
    ///
    /// # Errors
    /// [`StorageError::Locked`] when another process uses the directory, [`StorageError::Foreign`] when it holds
    /// files that this crate did not write (it is then left unchanged), [`StorageError::Format`] when another release
    /// wrote it, and [`StorageError::Damaged`] when the identity file is altered.
    pub fn open(path: &Path, fresh_id: u128) -> Result<DataDir, StorageError> {
        Self::open_as(path, fresh_id, None, Copies::Opened)
    }

    /// Opens the data directory as [`DataDir::open`] does, for the node `node_id`. The directory belongs to that node
    /// from then on. A directory that belongs to another node, or is a copy, is refused before anything in it is
    /// changed.
    ///
    /// # Errors
    /// The errors of [`DataDir::open`], [`StorageError::OtherNode`] when it belongs to another node, and
    /// [`StorageError::Copied`] when it is a copy.
    pub fn open_for(path: &Path, fresh_id: u128, node_id: u64) -> Result<DataDir, StorageError> {
        Self::open_as(path, fresh_id, Some(node_id), Copies::Refused)
    }

    /// Opens the data directory as [`DataDir::open_for`] does, even if it is a copy. The caller must know that no
    /// other copy of the directory is in use or ever will be.
    ///
    /// # Errors
    /// The errors of [`DataDir::open`], and [`StorageError::OtherNode`] when it belongs to another node.
    pub fn open_moved(path: &Path, fresh_id: u128, node_id: u64) -> Result<DataDir, StorageError> {
        Self::open_as(path, fresh_id, Some(node_id), Copies::Opened)
    }

    fn open_as(
        path: &Path,
        fresh_id: u128,
        node: Option<u64>,
        copies: Copies,
    ) -> Result<DataDir, StorageError> {
        files::create_dir(path)?;
        refuse_foreign(path)?;
        let lock = lock(path)?;
        let found = identity_for(path, node, copies)?;
        let is_new = found.is_none();
        let fresh =
            Identity { store_id: fresh_id, starts: 0, log_made: false, owner: None, inode: None };
        let mut identity = found.unwrap_or(fresh);
        keep_others_out(path);
        identity.owner = identity.owner.or(node);
        identity.starts += 1;
        identity::write(path, &mut identity)?;
        let (path, identity) = (path.to_path_buf(), Mutex::new(identity));
        Ok(DataDir { path, identity, is_new, lock: Arc::new(lock) })
    }

    /// Whether a node could open this directory, which exists: as [`DataDir::open_for`], or with `moved` as
    /// [`DataDir::open_moved`]. Only reads, and does not ask whether a process uses the directory.
    ///
    /// # Errors
    /// What opening it would fail with.
    pub fn examine(path: &Path, node_id: u64, moved: bool) -> Result<(), StorageError> {
        refuse_foreign(path)?;
        let copies = if moved { Copies::Opened } else { Copies::Refused };
        identity_for(path, Some(node_id), copies).map(drop)
    }

    /// The path of the directory, as it was given to [`DataDir::open`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of this directory's data, 128 random bits. A wiped directory gets another one.
    pub fn store_id(&self) -> u128 {
        self.identity.lock().store_id
    }

    /// How often the directory was opened, including this time, so 1 on the first open. The count rises durably
    /// before `open` returns. The caller numbers the incarnations of the directory, its lives as its peers see them,
    /// from this count on: one begins at each start, and more may follow in one process. So a directory that was
    /// restored from an older image begins one with a number that its peers have seen before.
    pub fn starts(&self) -> u64 {
        self.identity.lock().starts
    }

    /// The node that the directory belongs to; `None` until a node has opened it as its own.
    pub fn owner(&self) -> Option<u64> {
        self.identity.lock().owner
    }

    /// Whether this open created the directory's identity. It says nothing about the log.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether the log was ever created completely.
    pub(crate) fn log_made(&self) -> bool {
        self.identity.lock().log_made
    }

    /// Durably records that the log was created, so that a missing log counts as damage from now on.
    pub(crate) fn note_log_made(&self) -> Result<(), StorageError> {
        let mut identity = self.identity.lock();
        identity.log_made = true;
        identity::write(&self.path, &mut identity)
    }

    /// A share of the lock, which is held until every share is dropped.
    pub(crate) fn share_lock(&self) -> Arc<File> {
        Arc::clone(&self.lock)
    }
}

/// The name of the file that makes a directory a data directory.
pub(crate) const IDENTITY: &str = FILE_NAME;

/// Whether this is the data directory of a node. Only reads.
#[must_use]
pub fn is_data_dir(path: &Path) -> bool {
    path.join(FILE_NAME).exists()
}

/// What can be known about a data directory that is not open.
pub(crate) struct Known {
    /// The node that it belongs to.
    pub(crate) owner: Option<u64>,
    /// Whether the log was ever created completely.
    pub(crate) log_made: bool,
}

/// Reads what is known about a data directory; `None` if it is not one. Only reads, and treats copies like originals.
pub(crate) fn known(path: &Path) -> Result<Option<Known>, StorageError> {
    let found = identity::read(path)?;
    Ok(found.map(|found| Known { owner: found.identity.owner, log_made: found.identity.log_made }))
}

/// Keeps nodes from opening a directory, without writing to it. `None` if it has no lock file, so that no process can
/// have it open.
///
/// # Errors
/// [`StorageError::Locked`] when a process has it open.
pub(crate) fn lock_for_reading(path: &Path) -> Result<Option<File>, StorageError> {
    let file = path.join(LOCK);
    let action = || format!("lock {}", file.display());
    let lock = match File::open(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.context(action)?,
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(StorageError::Locked { dir: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(StorageError::Io { action: action(), source }),
    }
}

/// The identity of a directory, if it has one, and this node may use it.
fn identity_for(
    path: &Path,
    node: Option<u64>,
    copies: Copies,
) -> Result<Option<Identity>, StorageError> {
    let Some(Found { identity, is_original }) = identity::read(path)? else { return Ok(None) };
    if let (Some(owner), Some(node)) = (identity.owner, node)
        && owner != node
    {
        return Err(StorageError::OtherNode { dir: path.to_path_buf(), owner, node });
    }
    if !is_original && copies == Copies::Refused {
        return Err(StorageError::Copied { dir: path.to_path_buf() });
    }
    Ok(Some(identity))
}

/// Refuses a directory that has no identity but holds files that this crate did not write.
fn refuse_foreign(path: &Path) -> Result<(), StorageError> {
    if is_data_dir(path) {
        return Ok(());
    }
    let list = || format!("list {}", path.display());
    for entry in fs::read_dir(path).context(list)? {
        let name = entry.context(list)?.file_name();
        if !HARMLESS.iter().any(|harmless| name == *harmless) {
            let found = name.to_string_lossy().into_owned();
            return Err(StorageError::Foreign { dir: path.to_path_buf(), found });
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, StorageError> {
    let file = path.join(LOCK);
    let action = || format!("lock {}", file.display());
    let lock =
        File::options().create(true).truncate(false).write(true).open(&file).context(action)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StorageError::Locked { dir: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(StorageError::Io { action: action(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mintleaf_codec as codec;

    /// The identity file as written by the release whose directories have no owner.
    const WITHOUT_OWNER: [u8; 12] = [
        1, 0x9a, 0x16, 0x75, 0xb1, // format, crc32
        251, 2, 1, // store id
        251, 44, 1, // openings
        1, // log made
    ];

    #[test]
    fn a_directory_of_the_previous_format_belongs_to_the_node_that_opens_it_first() {
        let dir = tempfile::tempdir().unwrap();
        files::replace(dir.path(), FILE_NAME, &WITHOUT_OWNER).unwrap();
        let opened = DataDir::open_for(dir.path(), 1, 5).unwrap();
        assert_eq!((opened.store_id(), opened.starts(), opened.owner()), (258, 301, Some(5)));
        assert!(opened.log_made() && !opened.is_new());
        drop(opened);
        let refused = DataDir::open_for(dir.path(), 1, 3).unwrap_err();
        assert!(matches!(refused, StorageError::OtherNode { owner: 5, node: 3, .. }), "{refused}");
    }

    #[test]
    fn a_flipped_bit_in_the_previous_format_is_damage_too() {
        for bit in 0..WITHOUT_OWNER.len() * 8 {
            let dir = tempfile::tempdir().unwrap();
            let mut bytes = WITHOUT_OWNER;
            bytes[bit / 8] ^= 1 << (bit % 8);
            files::replace(dir.path(), FILE_NAME, &bytes).unwrap();
            let refused = DataDir::open_for(dir.path(), 1, 5).unwrap_err();
            assert!(matches!(refused, StorageError::Damaged { .. }), "bit {bit}: {refused}");
        }
    }

    #[test]
    fn another_nodes_directory_is_refused_unchanged_and_its_owner_is_named() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open_for(dir.path(), 1, 5).unwrap());
        let before = std::fs::read(dir.path().join(FILE_NAME)).unwrap();
        let refused = DataDir::open_for(dir.path(), 1, 3).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("belongs to node 5, not to node 3: check --node-id"), "{text}");
        assert!(refused.needs_operator() && !text.contains("wipe"), "{text}");
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), before);
        assert_eq!(DataDir::open_for(dir.path(), 1, 5).unwrap().starts(), 2);
    }

    /// Copies the files of a directory, and returns the directory of the copy.
    fn copy_of(dir: &Path) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        copy
    }

    #[test]
    fn a_directory_whose_identity_names_no_inode_is_opened_and_known_from_then_on() {
        let dir = tempfile::tempdir().unwrap();
        let previous = [
            2, 0x86, 0x0a, 0xe5, 0xbc, // format, crc32
            251, 2, 1, 251, 44, 1, 1, 1, 5,
        ];
        files::replace(dir.path(), FILE_NAME, &previous).unwrap();
        let opened = DataDir::open_for(dir.path(), 1, 5).unwrap();
        assert_eq!((opened.store_id(), opened.starts(), opened.owner()), (258, 301, Some(5)));
        drop(opened);
        let copy = copy_of(dir.path());
        let refused = DataDir::open_for(copy.path(), 1, 5).unwrap_err();
        assert!(matches!(refused, StorageError::Copied { .. }), "{refused}");
    }

    #[test]
    fn a_copy_is_refused_unchanged_until_it_is_said_to_have_moved() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open_for(dir.path(), 1, 5).unwrap());
        let copy = copy_of(dir.path());
        let before = fs::read(copy.path().join(FILE_NAME)).unwrap();
        for _ in 0..2 {
            let refused = DataDir::open_for(copy.path(), 1, 5).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("mintleaf restore") && text.contains("--moved"), "{text}");
            assert!(refused.needs_operator() && !text.contains("wipe"), "{text}");
        }
        assert_eq!(fs::read(copy.path().join(FILE_NAME)).unwrap(), before);
        // The owner is checked first: an operator must never declare another node's directory as moved.
        let refused = DataDir::open_moved(copy.path(), 1, 3).unwrap_err();
        assert!(matches!(refused, StorageError::OtherNode { owner: 5, .. }), "{refused}");
        assert_eq!(DataDir::open_moved(copy.path(), 1, 5).unwrap().starts(), 2);
        assert_eq!(DataDir::open_for(copy.path(), 1, 5).unwrap().starts(), 3);
        assert_eq!(DataDir::open_for(dir.path(), 1, 5).unwrap().starts(), 2);
    }

    #[test]
    fn a_directory_that_was_renamed_is_no_copy() {
        let parent = tempfile::tempdir().unwrap();
        let (before, after) = (parent.path().join("before"), parent.path().join("after"));
        drop(DataDir::open_for(&before, 1, 5).unwrap());
        fs::rename(&before, &after).unwrap();
        assert_eq!(DataDir::open_for(&after, 1, 5).unwrap().starts(), 2);
    }

    #[test]
    fn directory_of_a_later_release_is_refused_by_its_format() {
        let dir = tempfile::tempdir().unwrap();
        let later = codec::encode(identity::FORMAT + 1, &("another layout", 1_u64));
        files::replace(dir.path(), FILE_NAME, &later).unwrap();
        let refused = DataDir::open(dir.path(), 1);
        assert!(matches!(refused, Err(StorageError::Format { found: 4, supported: 3 })));
    }
}
