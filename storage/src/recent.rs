//! The recent records, kept in memory: at least one of the two checkpoints lacks them.

use crate::error::StorageError;
use crate::manifest::Manifest;
use crate::trees::missing;
use sled::IVec;
use std::collections::BTreeMap;

/// The records that at least one of the checkpoints lacks, or has in an older version.
pub(crate) struct Recent {
    records: BTreeMap<u64, IVec>,
    /// For each checkpoint, the lowest index where it may lack a record.
    since: [u64; 2],
}

/// The records that a checkpoint lacks, with their indices, and the lowest index where the checkpoint may differ from
/// the log.
pub(crate) type Lacking = (u64, Vec<(u64, IVec)>);

impl Recent {
    /// No record, because both checkpoints hold the whole log of this manifest.
    pub(crate) fn after(manifest: &Manifest) -> Self {
        Self { records: BTreeMap::new(), since: [end(manifest); 2] }
    }

    /// A recent record as it is stored.
    pub(crate) fn get(&self, index: u64) -> Option<&IVec> {
        self.records.get(&index)
    }

    pub(crate) fn put(&mut self, index: u64, stored: IVec) {
        self.since = self.since.map(|since| since.min(index));
        self.records.insert(index, stored);
    }

    /// Removes every record at `index` and above.
    pub(crate) fn truncate(&mut self, index: u64) {
        self.since = self.since.map(|since| since.min(index));
        self.records.split_off(&index);
    }

    /// Removes every record below `index`.
    pub(crate) fn forget_below(&mut self, index: u64) {
        self.records = self.records.split_off(&index);
    }

    /// One of `shares` of the records of a manifest's log that a checkpoint lacks, from the first one up.
    pub(crate) fn lacking(
        &self,
        checkpoint: usize,
        manifest: &Manifest,
        shares: u64,
    ) -> Result<Lacking, StorageError> {
        let since = self.since[checkpoint];
        let first = manifest.extent.map_or(since, |extent| extent.first.max(since));
        let lacks = end(manifest).saturating_sub(first).div_ceil(shares.max(1));
        let mut records = Vec::new();
        for index in first..first + lacks {
            let stored = self.records.get(&index).ok_or_else(|| missing(index))?;
            records.push((index, stored.clone()));
        }
        Ok((since, records))
    }

    /// Records that these records were put into a checkpoint, which is not on disk yet.
    pub(crate) fn note_put(&mut self, checkpoint: usize, records: &[(u64, IVec)]) {
        if let Some((last, _)) = records.last() {
            self.since[checkpoint] = last + 1;
        }
    }

    /// Records that a checkpoint holds the whole log of this manifest, and removes the records that neither
    /// checkpoint lacks any more.
    pub(crate) fn note_checkpoint(&mut self, checkpoint: usize, manifest: &Manifest) {
        self.since[checkpoint] = end(manifest);
        let both_have = self.since[0].min(self.since[1]);
        self.forget_below(both_have);
    }
}

/// The index after the last record of a manifest's log.
fn end(manifest: &Manifest) -> u64 {
    manifest.extent.map_or(0, |extent| extent.last + 1)
}
