//! The two sled trees of a checkpoint: its records and its manifest.

use mintleaf_codec as codec;

use crate::error::{Context, StorageError};
use crate::manifest::{MANIFEST_FORMAT, Manifest};
use sled::{IVec, Tree};

/// Key of the manifest in the `meta` tree.
const MANIFEST: [u8; 1] = [0];

/// The two trees of a checkpoint.
#[derive(Clone)]
pub(crate) struct Trees {
    /// Records by index.
    pub(crate) log: Tree,
    /// The manifest.
    pub(crate) meta: Tree,
}

/// Key of a record. It is big-endian, so that sled orders the records by index.
pub(crate) fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

impl Trees {
    /// Stores the manifest. It must be put after the records that it vouches for.
    pub(crate) fn put_manifest(&self, manifest: &Manifest) -> Result<(), StorageError> {
        let put = self.meta.insert(MANIFEST, codec::encode(MANIFEST_FORMAT, manifest));
        put.map(|_| ()).context(|| "write the state".into())
    }

    /// Stores a record.
    pub(crate) fn put_record(&self, index: u64, stored: &[u8]) -> Result<(), StorageError> {
        let put = self.log.insert(key(index), stored);
        put.map(|_| ()).context(|| format!("write log record {index}"))
    }

    /// A record as it is stored, not yet verified; `None` if it does not exist.
    pub(crate) fn record(&self, index: u64) -> Result<Option<IVec>, StorageError> {
        self.log.get(key(index)).context(|| format!("read log record {index}"))
    }

    /// Removes every record at `index` and above, from the last one down, so that a crash leaves no hole.
    pub(crate) fn remove_from(&self, index: u64) -> Result<(), StorageError> {
        self.remove_all(self.log.range(key(index)..).rev())
    }

    /// Removes every record below `index`, from the first one up, so that a crash leaves no hole.
    pub(crate) fn remove_below(&self, index: u64) -> Result<(), StorageError> {
        self.remove_all(self.log.range(..key(index)))
    }

    /// Removes one of `shares` of the records below `index`, from the first one up.
    pub(crate) fn remove_share_below(&self, index: u64, shares: u64) -> Result<(), StorageError> {
        let first = self.log.first().context(|| "list log records".into())?;
        let held =
            first.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)));
        let Some(held) = held.filter(|held| *held < index) else { return Ok(()) };
        self.remove_below(held + (index - held).div_ceil(shares.max(1)))
    }

    fn remove_all(
        &self,
        records: impl Iterator<Item = sled::Result<(IVec, IVec)>>,
    ) -> Result<(), StorageError> {
        for record in records {
            let (key, _) = record.context(|| "list log records".into())?;
            self.log.remove(key).context(|| "remove a log record".into())?;
        }
        Ok(())
    }

    /// The manifest as it is stored.
    pub(crate) fn manifest(&self) -> Result<Manifest, StorageError> {
        let stored = self.meta.get(MANIFEST).context(|| "read the state".into())?;
        let stored = stored.ok_or_else(|| StorageError::damaged("the log's state is missing"))?;
        match codec::decode::<Manifest>(&stored) {
            Ok((MANIFEST_FORMAT, manifest)) if manifest.is_sound() => Ok(manifest),
            _ => Err(StorageError::damaged("the log's state is damaged")),
        }
    }
}

/// The error for a record inside the log that cannot be found.
pub(crate) fn missing(index: u64) -> StorageError {
    StorageError::damaged(format!("log record {index} is missing"))
}
