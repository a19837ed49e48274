//! The manifest: everything that the store holds besides the records, in one small value.

use mintleaf_codec::Blob;

use crate::error::StorageError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Format of [`Manifest`] on disk.
pub(crate) const MANIFEST_FORMAT: u8 = 1;

/// The store after a batch of operations. The write-ahead log has one with every batch, and a checkpoint has one
/// beside its records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Number of the batch, one more with each. 0 is the empty store.
    pub(crate) batch: u64,
    /// The log, or `None` if it is empty. A record outside the extent is a leftover and void.
    pub(crate) extent: Option<Extent>,
    pub(crate) purged: Option<Purged>,
    /// The named values, by the byte of their key. In the write-ahead log a batch has the values that it changed; the
    /// batch that an opening writes has all of them.
    pub(crate) meta: BTreeMap<u8, Blob>,
}

/// A non-empty log. Records are chained by their checksums, so `last_crc` vouches for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// Index of the first record held.
    pub(crate) first: u64,
    /// Index of the last record held, `first` or above.
    pub(crate) last: u64,
    /// Checksum of the last record.
    pub(crate) last_crc: u32,
}

/// The head of the log, which was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purged {
    /// Last index purged.
    pub(crate) index: u64,
    /// The note that the caller left for the purged records.
    pub(crate) mark: Blob,
}

impl Extent {
    pub(crate) fn contains(&self, index: u64) -> bool {
        (self.first..=self.last).contains(&index)
    }
}

impl Manifest {
    /// Whether this crate could have written this manifest: every number has a successor, and the log lies above the
    /// purged index.
    pub(crate) fn is_sound(&self) -> bool {
        let purged = self.purged.as_ref().map(|purged| purged.index);
        let in_order =
            |Extent { first, last, .. }| first <= last && last < u64::MAX && purged < Some(first);
        self.batch < u64::MAX && purged < Some(u64::MAX) && self.extent.is_none_or(in_order)
    }

    /// Checks that a record may be appended at `index`: right after the last one, or, if the log is empty, anywhere
    /// above the purged index. The largest index is never used, so that the index past the end is always a number.
    pub(crate) fn check_append(&self, index: u64) -> Result<(), StorageError> {
        let (fits, expected) = match (self.extent, &self.purged) {
            (Some(extent), _) => (index == extent.last + 1, format!("{} is next", extent.last + 1)),
            (None, Some(purged)) => {
                (index > purged.index, format!("the log was purged up to {}", purged.index))
            }
            (None, None) => (true, "below the largest integer".into()),
        };
        if fits && index < u64::MAX {
            return Ok(());
        }
        Err(StorageError::OutOfOrder { index, expected })
    }

    /// Extends the log by one appended record.
    pub(crate) fn push(&mut self, index: u64, crc: u32) {
        let first = self.extent.map_or(index, |extent| extent.first);
        self.extent = Some(Extent { first, last: index, last_crc: crc });
    }

    /// A copy without the named values.
    pub(crate) fn without_values(&self) -> Manifest {
        let Manifest { batch, extent, purged, meta: _ } = self;
        Manifest { batch: *batch, extent: *extent, purged: purged.clone(), meta: BTreeMap::new() }
    }

    /// Advances to the manifest of the next batch, which has the values that the batch changed; the other values
    /// stay.
    pub(crate) fn advance(&mut self, next: Manifest) {
        let mut meta = std::mem::take(&mut self.meta);
        meta.extend(next.meta);
        *self = Manifest { meta, ..next };
    }

    /// Removes the head of the log up to and including `index`.
    pub(crate) fn purge(&mut self, index: u64, mark: &[u8]) {
        self.purged = Some(Purged { index, mark: Blob(mark.to_vec()) });
        self.extent = self
            .extent
            .filter(|extent| extent.last > index)
            .map(|extent| Extent { first: extent.first.max(index + 1), ..extent });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(batch: u64, purged: u64, first: u64, last: u64) -> Manifest {
        let extent = Some(Extent { first, last, last_crc: 0 });
        let purged = Some(Purged { index: purged, mark: Blob::default() });
        Manifest { batch, extent, purged, ..Manifest::default() }
    }

    #[test]
    fn manifest_that_no_store_writes_is_not_sound() {
        assert!(Manifest::default().is_sound() && manifest(5, 1, 2, 2).is_sound());
        assert!(!manifest(u64::MAX, 1, 2, 2).is_sound());
        assert!(!manifest(5, 2, 2, 2).is_sound());
        assert!(!manifest(5, 1, 3, 2).is_sound());
        assert!(!manifest(5, 1, 2, u64::MAX).is_sound());
        assert!(!Manifest { extent: None, ..manifest(5, u64::MAX, 2, 2) }.is_sound());
    }
}
