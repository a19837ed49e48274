//! The batches that were found in the write-ahead log when it was opened.

use crate::batch::{BATCH_FORMAT, Batch};
use crate::error::StorageError;
use crate::manifest::Manifest;
use crate::wal::Found;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Every batch that the write-ahead log holds, once. There is at least one.
pub(crate) struct Batches {
    by_number: BTreeMap<u64, Batch>,
    /// Numbers of the batches whose values may be lost: see [`shells`].
    shells: BTreeSet<u64>,
    newest: Batch,
}

impl Batches {
    /// Sorts what was found by number.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when no batch was found, or two different ones have the same number.
    pub(crate) fn new(found: Vec<Found>) -> Result<Self, StorageError> {
        let shells = shells(&found);
        let mut by_number: BTreeMap<u64, Batch> = BTreeMap::new();
        for Found { batch, format, .. } in found {
            match by_number.entry(batch.manifest.batch) {
                Entry::Vacant(entry) => drop(entry.insert(batch)),
                Entry::Occupied(mut entry) => {
                    let has = entry.get();
                    let same =
                        if format == BATCH_FORMAT { *has == batch } else { has.ends_as(&batch) };
                    if !same {
                        let number = entry.key();
                        let what =
                            format!("two batches of the write-ahead log have the number {number}");
                        return Err(StorageError::damaged(what));
                    }
                    if has.is_empty() {
                        entry.insert(batch);
                    }
                }
            }
        }
        let newest = by_number.last_key_value().map(|(_, newest)| newest.clone());
        let newest =
            newest.ok_or_else(|| StorageError::damaged("the write-ahead log is damaged"))?;
        Ok(Self { by_number, shells, newest })
    }

    /// The batches that lead from a manifest to the newest batch, in order. `None` if one of them is missing, or if
    /// the manifest contradicts the newest batch.
    pub(crate) fn since(&self, manifest: &Manifest) -> Option<Vec<&Batch>> {
        let last = self.newest.manifest.batch;
        if manifest.batch >= last {
            let newest = &self.newest.manifest;
            let values =
                newest.meta.iter().all(|(key, value)| manifest.meta.get(key) == Some(value));
            let same = values && manifest.without_values() == newest.without_values();
            return same.then(Vec::new);
        }
        let numbers = manifest.batch + 1..=last;
        let batches: Vec<&Batch> =
            self.by_number.range(numbers.clone()).map(|(_, batch)| batch).collect();
        let has_values = |number| !self.shells.contains(&number);
        let all = batches.iter().map(|batch| batch.manifest.batch).eq(numbers.clone());
        (all && { numbers }.all(has_values)).then_some(batches)
    }
}

/// Numbers of the batches that may survive only as a *shell*.
///
/// An opening by release 0.1 wrote the newest batch a second time, without its values, to the head of the file that
/// did not hold it. That copy is a shell. A truncation or a purge without values looks the same. It can be
/// distinguished from a shell if it follows the last batch of the other file. If that file has been overwritten
/// since, the checkpoint already had the truncation or purge.
fn shells(found: &[Found]) -> BTreeSet<u64> {
    let may_be =
        |found: &&Found| found.is_head && found.format < BATCH_FORMAT && found.batch.is_empty();
    let mut shells: BTreeSet<u64> = BTreeSet::new();
    for shell in found.iter().filter(may_be) {
        let number = shell.batch.manifest.batch;
        let elsewhere = found.iter().filter(|other| other.file != shell.file);
        let before = elsewhere.map(|other| other.batch.manifest.batch).max();
        if number > 0 && before != Some(number - 1) {
            shells.insert(number);
        }
    }
    for original in found.iter().filter(|found| !may_be(found)) {
        shells.remove(&original.batch.manifest.batch);
    }
    shells
}
