//! The file `identity`: which store a directory holds, whose it is, and how often it was opened.

use crate::codec;
use crate::error::StorageError;
use crate::files;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Format of the whole directory: identity, write-ahead log, checkpoints and snapshot together.
pub(super) const FORMAT: u8 = 2;
/// The previous format, in which the identity does not name the node that owns the directory.
const FORMAT_WITHOUT_OWNER: u8 = 1;

pub(super) const FILE_NAME: &str = "identity";

/// The content of the identity file. The file is replaced as a whole on each open, and a directory
/// without it was never used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) store_id: u128,
    /// How often the directory was opened.
    pub(super) starts: u64,
    /// Whether the log was ever made completely. From then on a missing log is damage; before that
    /// it is a first start that was cut short.
    pub(super) log_made: bool,
    /// The node that the directory belongs to: the first that opened it as its own.
    pub(super) owner: Option<u64>,
}

/// The content of an identity file of [`FORMAT_WITHOUT_OWNER`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IdentityWithoutOwner {
    store_id: u128,
    starts: u64,
    log_made: bool,
}

impl From<IdentityWithoutOwner> for Identity {
    fn from(old: IdentityWithoutOwner) -> Self {
        let IdentityWithoutOwner { store_id, starts, log_made } = old;
        Self { store_id, starts, log_made, owner: None }
    }
}

/// Reads the identity of a directory; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<Identity>, StorageError> {
    let Some(bytes) = files::read(&path.join(FILE_NAME))? else {
        return Ok(None);
    };
    // The checksum is verified before the format is judged: an altered format byte is damage, not
    // the sign of another release.
    let decoded = match codec::format_of(&bytes) {
        Some(FORMAT_WITHOUT_OWNER) => {
            codec::decode_as::<IdentityWithoutOwner>(FORMAT_WITHOUT_OWNER, &bytes)
                .map(|old| (FORMAT, Identity::from(old)))
        }
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

/// Replaces the identity of a directory. It is on disk when this returns.
pub(super) fn write(path: &Path, identity: &Identity) -> Result<(), StorageError> {
    files::replace(path, FILE_NAME, &codec::encode(FORMAT, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_bytes_never_change() {
        let golden = [
            FORMAT, 0x86, 0x0a, 0xe5, 0xbc, // crc32
            251, 2, 1, // store id
            251, 44, 1, // openings
            1, // log made
            1, 5, // owner
        ];
        let identity = Identity { store_id: 258, starts: 300, log_made: true, owner: Some(5) };
        assert_eq!(codec::encode(FORMAT, &identity), golden);
        assert_eq!(codec::decode::<Identity>(&golden).unwrap(), (FORMAT, identity));
    }
}
