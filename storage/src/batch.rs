//! A batch: the operations between two syncs, which become durable together or not at all.

use mintleaf_codec::Blob;

use crate::manifest::Manifest;
use serde::{Deserialize, Serialize};

/// Format of [`Batch`] on disk. Format 1 has the same layout, but an opening by its release wrote the newest batch a
/// second time, without its values.
pub(crate) const BATCH_FORMAT: u8 = 2;

/// The operations between two syncs: the manifest after them, and the records they appended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// Its named values are only those that the batch changed.
    pub(crate) manifest: Manifest,
    /// Index of the first of `records`.
    pub(crate) first: u64,
    /// Stored records with consecutive indices.
    pub(crate) records: Vec<Blob>,
}

impl Batch {
    /// Whether the batch changed only the extent of the log.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.manifest.meta.is_empty()
    }

    /// Whether both batches leave the same log behind.
    pub(crate) fn ends_as(&self, other: &Batch) -> bool {
        self.manifest.without_values() == other.manifest.without_values()
    }

    /// Whether this crate could have written this batch.
    pub(crate) fn is_sound(&self) -> bool {
        let end = self.first.checked_add(self.records.len() as u64);
        self.manifest.is_sound() && end.is_some_and(|end| end < u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Extent, Purged};

    #[test]
    fn batch_with_indices_that_no_store_writes_is_not_sound() {
        let manifest = Manifest {
            batch: 5,
            extent: Some(Extent { first: 2, last: 2, last_crc: 0 }),
            purged: Some(Purged { index: 1, mark: Blob::default() }),
            ..Manifest::default()
        };
        let records = vec![Blob::default(); 2];
        let batch = |first| Batch { manifest: manifest.clone(), first, records: records.clone() };
        assert!(batch(u64::MAX - 3).is_sound() && !batch(u64::MAX - 2).is_sound());
        assert!(!batch(u64::MAX).is_sound());
    }
}
