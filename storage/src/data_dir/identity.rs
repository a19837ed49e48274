//! The file `identity`: which store a directory holds, its owner, how often it was opened, and the inode of the file
//! itself.

use mintleaf_codec as codec;

use crate::error::{Context, StorageError};
use crate::files;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io::Write;
use std::path::Path;

/// Format of the whole directory: identity, write-ahead log, checkpoints and snapshot together.
pub(super) const FORMAT: u8 = 3;
/// The previous format: the identity does not name its own inode.
const FORMAT_WITHOUT_INODE: u8 = 2;
/// The format before that: the identity does not name the node that owns the directory either.
const FORMAT_WITHOUT_OWNER: u8 = 1;

pub(super) const FILE_NAME: &str = "identity";

/// The content of the identity file. The file is replaced as a whole on each open, and a directory without it was
/// never used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) store_id: u128,
    /// How often the directory was opened.
    pub(super) starts: u64,
    /// Whether the log was ever created completely. From then on a missing log is damage; before that it is a first
    /// start that was cut short.
    pub(super) log_made: bool,
    /// The node that the directory belongs to: the first that opened it as its own.
    pub(super) owner: Option<u64>,
    /// The inode of the file that this was written to. A rename keeps it; a copy has another one.
    pub(super) inode: Option<u64>,
}

/// The content of an identity file of [`FORMAT_WITHOUT_INODE`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IdentityWithoutInode {
    store_id: u128,
    starts: u64,
    log_made: bool,
    owner: Option<u64>,
}

/// The content of an identity file of [`FORMAT_WITHOUT_OWNER`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IdentityWithoutOwner {
    store_id: u128,
    starts: u64,
    log_made: bool,
}

impl From<IdentityWithoutInode> for Identity {
    fn from(old: IdentityWithoutInode) -> Self {
        let IdentityWithoutInode { store_id, starts, log_made, owner } = old;
        Self { store_id, starts, log_made, owner, inode: None }
    }
}

impl From<IdentityWithoutOwner> for Identity {
    fn from(old: IdentityWithoutOwner) -> Self {
        let IdentityWithoutOwner { store_id, starts, log_made } = old;
        Self { store_id, starts, log_made, owner: None, inode: None }
    }
}

/// An identity that was read.
pub(super) struct Found {
    pub(super) identity: Identity,
    /// Whether the file is the very one that was written, as far as it records that.
    pub(super) is_original: bool,
}

/// Reads the identity of a directory; `None` if it has none.
pub(super) fn read(path: &Path) -> Result<Option<Found>, StorageError> {
    let file = path.join(FILE_NAME);
    let Some(bytes) = files::read(&file)? else {
        return Ok(None);
    };
    // The checksum is verified before the format is judged: an altered format byte is damage, not the sign of another
    // release.
    let decoded = match codec::format_of(&bytes) {
        Some(format @ FORMAT_WITHOUT_OWNER) => {
            codec::decode_as::<IdentityWithoutOwner>(format, &bytes)
                .map(|old| (FORMAT, Identity::from(old)))
        }
        Some(format @ FORMAT_WITHOUT_INODE) => {
            codec::decode_as::<IdentityWithoutInode>(format, &bytes)
                .map(|old| (FORMAT, Identity::from(old)))
        }
        _ => codec::decode(&bytes),
    };
    match decoded {
        Ok((FORMAT, identity)) => {
            let metadata = fs::metadata(&file).context(|| format!("look at {}", file.display()))?;
            let inode = inode_of(&metadata);
            let is_original = identity.inode.is_none_or(|written_to| inode == Some(written_to));
            Ok(Some(Found { identity, is_original }))
        }
        Ok((found, _)) => Err(StorageError::Format { found, supported: FORMAT }),
        Err(codec::CodecError::Body(_) | codec::CodecError::Trailing(_)) => {
            let found = codec::format_of(&bytes).unwrap_or_default();
            Err(StorageError::Format { found, supported: FORMAT })
        }
        Err(error) => Err(StorageError::damaged(format!("the identity file is damaged: {error}"))),
    }
}

/// Replaces the identity of a directory, and records the inode of the new file in it. It is on disk when this
/// returns.
pub(super) fn write(path: &Path, identity: &mut Identity) -> Result<(), StorageError> {
    let temp = path.join(format!("{FILE_NAME}.tmp"));
    let mut fill = || {
        let mut file = File::create(&temp)?;
        identity.inode = inode_of(&file.metadata()?);
        file.write_all(&codec::encode(FORMAT, &*identity))?;
        file.sync_all()
    };
    fill().context(|| format!("write {}", temp.display()))?;
    files::rename(&temp, path, FILE_NAME)
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "not every system has inodes")]
fn inode_of(metadata: &Metadata) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(metadata.ino())
}

#[cfg(not(unix))]
fn inode_of(_: &Metadata) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_bytes_never_change() {
        let golden = [
            FORMAT, 0x2d, 0x30, 0x13, 0x77, // crc32
            251, 2, 1, // store id
            251, 44, 1, // openings
            1, // log made
            1, 5, // owner
            1, 251, 0, 2, // inode
        ];
        let identity = Identity {
            store_id: 258,
            starts: 300,
            log_made: true,
            owner: Some(5),
            inode: Some(512),
        };
        assert_eq!(codec::encode(FORMAT, &identity), golden);
        assert_eq!(codec::decode::<Identity>(&golden).unwrap(), (FORMAT, identity));
    }
}
