//! Replay: advancing a checkpoint to the batch that was acknowledged last, and then verifying that nothing is
//! missing. `DESIGN.md` has the argument, crash point by crash point.

use crate::batch::Batch;
use crate::batches::Batches;
use crate::error::{Context, StorageError};
use crate::manifest::{Extent, Manifest};
use crate::record;
use crate::trees::{Trees, key, missing};

/// Advances the trees to exactly the content after the newest batch, and returns its manifest. The
/// caller makes the trees durable.
///
/// # Errors
/// [`StorageError::Damaged`] when the batches do not continue from the checkpoint, or when a record of the log is
/// missing or altered after all of them.
pub(crate) fn recover(trees: &Trees, batches: &Batches) -> Result<Manifest, StorageError> {
    let manifest = trees.manifest()?;
    let Some(missed) = batches.since(&manifest) else {
        let what = format!("the log leaves off after batch {}", manifest.batch);
        return Err(StorageError::damaged(what));
    };
    let manifest = if missed.is_empty() { manifest } else { replay(trees, manifest, missed)? };
    trim(trees, manifest.extent)?;
    verify(trees, manifest.extent)?;
    Ok(manifest)
}

/// Replays the batches since the manifest into sled. Each of them may have reached sled in part, completely, or not
/// at all. Records that a later batch purged or truncated are left out.
fn replay(
    trees: &Trees,
    mut manifest: Manifest,
    batches: Vec<&Batch>,
) -> Result<Manifest, StorageError> {
    let extent = batches.last().and_then(|newest| newest.manifest.extent);
    let remains = |index| extent.is_some_and(|extent| extent.contains(index));
    for batch in batches {
        for (index, stored) in (batch.first..).zip(&batch.records) {
            if remains(index) {
                trees.put_record(index, &stored.0)?;
            }
        }
        manifest.advance(batch.manifest.clone());
    }
    trees.put_manifest(&manifest)?;
    Ok(manifest)
}

/// Removes the records outside the log: those that were appended but never synced, and those that were truncated or
/// purged but not yet removed.
fn trim(trees: &Trees, extent: Option<Extent>) -> Result<(), StorageError> {
    let Some(extent) = extent else {
        return trees.remove_from(0);
    };
    trees.remove_from(extent.last + 1)?;
    trees.remove_below(extent.first)
}

/// Walks the chain of checksums from the first record to the last, and compares its end with the
/// extent.
pub(crate) fn verify(trees: &Trees, extent: Option<Extent>) -> Result<(), StorageError> {
    let Some(extent) = extent else {
        return Ok(());
    };
    let mut before = None;
    let mut records = trees.log.iter();
    for index in extent.first..=extent.last {
        let (at, stored) = records
            .next()
            .ok_or_else(|| missing(index))?
            .context(|| format!("read log record {index}"))?;
        if *at != key(index) {
            return Err(missing(index));
        }
        let record = record::open(index, &stored)?;
        if before.is_some_and(|before| before != record.link) {
            return Err(StorageError::damaged(format!(
                "log record {index} does not follow the one before it"
            )));
        }
        before = Some(record.crc);
    }
    if before != Some(extent.last_crc) {
        return Err(StorageError::damaged(format!(
            "log record {} is not the one acknowledged last",
            extent.last
        )));
    }
    Ok(())
}
