//! One data directory: whose it is, that nobody else uses it, and how often it was opened.

use crate::codec;
use crate::error::{Context, StorageError};
use crate::files;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Format of the whole directory: identity, log, tail and snapshot files together.
const FORMAT: u8 = 2;
/// The format before: its identity file does not say which node the directory belongs to.
const FORMAT_OF_NOBODY: u8 = 1;

const LOCK: &str = "lock";
const IDENTITY: &str = "identity";

/// What a crash before the identity file can leave behind, and what a fresh file system holds.
const HARMLESS: [&str; 3] = [LOCK, "identity.tmp", "lost+found"];

/// The identity file: written last when a directory is made, so a directory without it was never
/// used, and replaced as a whole on each open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    store_id: u128,
    starts: u64,
    /// Whether the log was ever made completely. From then on a missing log is damage; before, it
    /// is a first start that did not get far.
    log_made: bool,
    /// The node that the directory belongs to; that of the first start which says one.
    owner: Option<u64>,
}

/// The same in [`FORMAT_OF_NOBODY`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IdentityOfNobody {
    store_id: u128,
    starts: u64,
    log_made: bool,
}

impl From<IdentityOfNobody> for Identity {
    fn from(old: IdentityOfNobody) -> Self {
        let IdentityOfNobody { store_id, starts, log_made } = old;
        Self { store_id, starts, log_made, owner: None }
    }
}

/// A data directory, open and locked. The lock is held until this and everything opened from it
/// (the log engine, the snapshots) is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: Mutex<Identity>,
    is_new: bool,
    lock: Arc<File>,
}

impl DataDir {
    /// Opens the data directory at `path`, or creates it together with missing parents, and
    /// durably raises its start counter.
    ///
    /// `fresh_id` becomes the store id of a directory that is new: 128 random bits, so that no
    /// two copies of the data ever share one. It is not used otherwise.
    ///
    /// # Errors
    /// [`StorageError::Locked`] when another process uses the directory,
    /// [`StorageError::Foreign`] when it holds somebody else's files (nothing is changed then),
    /// [`StorageError::Format`] when another release wrote it, and
    /// [`StorageError::Damaged`] when the identity file is altered.
    pub fn open(path: &Path, fresh_id: u128) -> Result<DataDir, StorageError> {
        Self::open_as(path, fresh_id, None)
    }

    /// As [`DataDir::open`], for the node `node_id`: the directory is its own from then on, and one that
    /// is another's already is refused before anything in it is changed.
    ///
    /// # Errors
    /// As [`DataDir::open`], and [`StorageError::OtherNode`] when it belongs to another node.
    pub fn open_for(path: &Path, fresh_id: u128, node_id: u64) -> Result<DataDir, StorageError> {
        Self::open_as(path, fresh_id, Some(node_id))
    }

    fn open_as(path: &Path, fresh_id: u128, node: Option<u64>) -> Result<DataDir, StorageError> {
        files::create_dir(path)?;
        refuse_foreign(path)?;
        let lock = lock(path)?;
        let found = read_identity(path)?;
        let is_new = found.is_none();
        let fresh = Identity { store_id: fresh_id, starts: 0, log_made: false, owner: None };
        let mut identity = found.unwrap_or(fresh);
        if let (Some(owner), Some(node)) = (identity.owner, node)
            && owner != node
        {
            return Err(StorageError::OtherNode { dir: path.to_path_buf(), owner, node });
        }
        identity.owner = identity.owner.or(node);
        identity.starts += 1;
        write_identity(path, &identity)?;
        let (path, identity) = (path.to_path_buf(), Mutex::new(identity));
        Ok(DataDir { path, identity, is_new, lock: Arc::new(lock) })
    }

    /// Where the directory is, as it was given to [`DataDir::open`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of this copy of the data. A wiped directory gets another one.
    pub fn store_id(&self) -> u128 {
        self.identity.lock().store_id
    }

    /// How often the directory was opened, this time included: 1 on the first open. It rises
    /// durably before `open` returns, so a directory restored from an older image shows a number
    /// that was seen before.
    pub fn starts(&self) -> u64 {
        self.identity.lock().starts
    }

    /// The node that the directory belongs to, once one has opened it as its own.
    pub fn owner(&self) -> Option<u64> {
        self.identity.lock().owner
    }

    /// Whether this open created the directory's identity. Says nothing about what the log holds.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    pub(crate) fn log_made(&self) -> bool {
        self.identity.lock().log_made
    }

    /// Durably notes that the log is complete, so that it is missed from now on.
    pub(crate) fn note_log_made(&self) -> Result<(), StorageError> {
        let mut identity = self.identity.lock();
        identity.log_made = true;
        write_identity(&self.path, &identity)
    }

    /// A share of the lock, for what must not outlive it.
    pub(crate) fn share_lock(&self) -> Arc<File> {
        Arc::clone(&self.lock)
    }
}

/// A directory without an identity must hold nothing that could be somebody's.
fn refuse_foreign(path: &Path) -> Result<(), StorageError> {
    if path.join(IDENTITY).exists() {
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

fn read_identity(path: &Path) -> Result<Option<Identity>, StorageError> {
    let Some(bytes) = files::read(&path.join(IDENTITY))? else {
        return Ok(None);
    };
    // The checksum comes first: a format byte that was altered must not pass for another release.
    let decoded = match codec::format_of(&bytes) {
        Some(FORMAT_OF_NOBODY) => codec::decode_as::<IdentityOfNobody>(FORMAT_OF_NOBODY, &bytes)
            .map(|old| (FORMAT, Identity::from(old))),
        _ => codec::decode(&bytes),
    };
    match decoded {
        Ok((FORMAT, identity)) => Ok(Some(identity)),
        Ok((found, _)) => Err(StorageError::Format { found, supported: FORMAT }),
        Err(codec::CodecError::Body(_) | codec::CodecError::Trailing(_)) => {
            let found = codec::format_of(&bytes).unwrap_or_default();
            Err(StorageError::Format { found, supported: FORMAT })
        }
        Err(error) => Err(StorageError::damaged(format!("the identity file is damaged: {error}"))),
    }
}

fn write_identity(path: &Path, identity: &Identity) -> Result<(), StorageError> {
    files::replace(path, IDENTITY, &codec::encode(FORMAT, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_bytes_never_change() {
        let golden = [
            FORMAT, 0x86, 0x0a, 0xe5, 0xbc, // crc32
            251, 2, 1, // store id
            251, 44, 1, // starts
            1, // log made
            1, 5, // owner
        ];
        let identity = Identity { store_id: 258, starts: 300, log_made: true, owner: Some(5) };
        assert_eq!(codec::encode(FORMAT, &identity), golden);
        assert_eq!(codec::decode::<Identity>(&golden).unwrap(), (FORMAT, identity));
    }

    /// As the release wrote it whose directories belong to nobody.
    const OF_NOBODY: [u8; 12] = [
        FORMAT_OF_NOBODY,
        0x9a,
        0x16,
        0x75,
        0xb1, // crc32
        251,
        2,
        1, // store id
        251,
        44,
        1, // starts
        1, // log made
    ];

    #[test]
    fn a_directory_of_the_format_before_opens_and_belongs_to_the_node_of_its_first_start() {
        let dir = tempfile::tempdir().unwrap();
        files::replace(dir.path(), IDENTITY, &OF_NOBODY).unwrap();
        let opened = DataDir::open_for(dir.path(), 1, 5).unwrap();
        assert_eq!((opened.store_id(), opened.starts(), opened.owner()), (258, 301, Some(5)));
        assert!(opened.log_made() && !opened.is_new());
        drop(opened);
        let refused = DataDir::open_for(dir.path(), 1, 3).unwrap_err();
        assert!(matches!(refused, StorageError::OtherNode { owner: 5, node: 3, .. }), "{refused}");
    }

    #[test]
    fn a_flipped_bit_in_the_format_before_is_damage_too() {
        for bit in 0..OF_NOBODY.len() * 8 {
            let dir = tempfile::tempdir().unwrap();
            let mut bytes = OF_NOBODY;
            bytes[bit / 8] ^= 1 << (bit % 8);
            files::replace(dir.path(), IDENTITY, &bytes).unwrap();
            let refused = DataDir::open_for(dir.path(), 1, 5).unwrap_err();
            assert!(matches!(refused, StorageError::Damaged { .. }), "bit {bit}: {refused}");
        }
    }

    #[test]
    fn another_nodes_directory_is_refused_unchanged_and_names_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open_for(dir.path(), 1, 5).unwrap());
        let before = std::fs::read(dir.path().join(IDENTITY)).unwrap();
        let refused = DataDir::open_for(dir.path(), 1, 3).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("belongs to node 5, not to node 3: check --node-id"), "{text}");
        assert!(refused.needs_operator() && !text.contains("wipe"), "{text}");
        assert_eq!(std::fs::read(dir.path().join(IDENTITY)).unwrap(), before);
        assert_eq!(DataDir::open_for(dir.path(), 1, 5).unwrap().starts(), 2);
    }

    #[test]
    fn directory_of_a_later_release_is_refused_by_its_format() {
        let dir = tempfile::tempdir().unwrap();
        let later = codec::encode(FORMAT + 1, &("another layout", 1_u64));
        files::replace(dir.path(), IDENTITY, &later).unwrap();
        let refused = DataDir::open(dir.path(), 1);
        assert!(matches!(refused, Err(StorageError::Format { found: 3, supported: 2 })));
    }
}
