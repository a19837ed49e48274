//! The log engine: the write-ahead log, the two checkpoints and the recent records together. `DESIGN.md` explains the
//! order of the steps.

use mintleaf_codec::Blob;

use crate::batch::Batch;
use crate::checkpoint::Checkpoint;
use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::limits::{BATCH_BYTES_MAX, META_BYTES_MAX, RECORD_BYTES_MAX};
use crate::log_engine::{LogEngine, MetaKey};
use crate::manifest::{Extent, Manifest};
use crate::open::{self, Opened};
use crate::recent::Recent;
use crate::sync_times::{SyncReadings, SyncTimes};
use crate::trees::{Trees, missing};
use crate::wal::{Wal, encode_batch, twice};
use crate::{files, record};
use parking_lot::{Mutex, RwLock};
use sled::IVec;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The log engine: a write-ahead log, which alone makes a [`LogEngine::sync`] durable, and two checkpoints in sled,
/// which are advanced to its newest batch in turn.
pub struct SledEngine {
    /// If several locks are needed, `durable` is taken first, `live` second and `recent` last. `durable` is held for
    /// a whole sync, so batches reach the disk one after the other.
    durable: Mutex<Durable>,
    live: RwLock<Live>,
    recent: RwLock<Recent>,
    /// The trees of both checkpoints, for reading records that are not recent.
    trees: [Trees; 2],
    /// The first failure of a write or sync. It is set once; every later call returns it.
    failure: OnceLock<String>,
    /// How long each batch took to reach the disk.
    sync_times: SyncTimes,
    _lock: Arc<File>,
}

/// The content of the log, synced or not.
struct Live {
    manifest: Manifest,
    /// The named values put since the last sync.
    changed: BTreeMap<u8, Blob>,
    /// The stored records appended since the last sync.
    pending: Vec<Blob>,
    /// Index of the first record in `pending`.
    pending_first: u64,
    /// Size of `pending` in bytes.
    pending_bytes: usize,
    /// Whether anything has changed since the last sync.
    dirty: bool,
}

/// The content of the disk.
struct Durable {
    dir: PathBuf,
    wal: Wal,
    /// The manifest after the newest batch in the write-ahead log.
    manifest: Manifest,
    checkpoints: [Checkpoint; 2],
}

impl SledEngine {
    /// Opens the log in `dir`, or creates it in a new directory. The log has exactly the content that was synced
    /// last, or that of one batch later if a crash interrupted the sync of that batch. Appends and values that were
    /// never synced are gone.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when anything that was acknowledged is missing or altered.
    pub fn open(dir: &DataDir) -> Result<Self, StorageError> {
        let Opened { wal, manifest, checkpoints } = open::open(dir)?;
        let (batch, dir_path) = (manifest.batch, dir.path().display());
        match manifest.extent {
            Some(Extent { first, last, .. }) => {
                tracing::info!(batch, first, last, dir = %dir_path, "log opened");
            }
            None => tracing::info!(batch, dir = %dir_path, "log opened without entries"),
        }
        let live = Live {
            manifest: manifest.clone(),
            changed: BTreeMap::new(),
            pending: Vec::new(),
            pending_first: 0,
            pending_bytes: 0,
            dirty: false,
        };
        Ok(SledEngine {
            trees: [checkpoints[0].trees.clone(), checkpoints[1].trees.clone()],
            recent: RwLock::new(Recent::after(&manifest)),
            durable: Mutex::new(Durable { dir: dir.path().to_owned(), wal, manifest, checkpoints }),
            live: RwLock::new(live),
            failure: OnceLock::new(),
            sync_times: SyncTimes::default(),
            _lock: dir.share_lock(),
        })
    }

    /// Fails if a write or sync has failed before.
    fn check(&self) -> Result<(), StorageError> {
        match self.failure.get() {
            Some(cause) => Err(StorageError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Stops the engine for good if `result` is a failed write or sync, because it is then unknown what is on disk.
    fn fatal<T>(&self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        result.map_err(|error| {
            let cause = self.failure.get_or_init(|| error.to_string());
            StorageError::Stopped { cause: cause.clone() }
        })
    }

    /// Closes the batch: takes the operations since the last one.
    fn close_batch(live: &mut Live) -> Batch {
        live.manifest.batch += 1;
        live.dirty = false;
        live.pending_bytes = 0;
        let records = std::mem::take(&mut live.pending);
        let meta = std::mem::take(&mut live.changed);
        let manifest = Manifest { meta, ..live.manifest.without_values() };
        Batch { manifest, first: live.pending_first, records }
    }

    /// Makes a batch durable in the write-ahead log. If the current file is full, this first advances a checkpoint,
    /// which frees the other file.
    fn commit(&self, durable: &mut Durable, batch: Batch) -> Result<(), StorageError> {
        let bytes = twice(&encode_batch(&batch));
        if !durable.wal.has_room(bytes.len()) {
            self.fatal(self.checkpoint(durable))?;
            let switched = durable.wal.switch();
            self.fatal(switched.context(|| "grow the write-ahead log".into()))?;
        }
        let began = Instant::now();
        let written = durable.wal.write(batch.manifest.batch, &bytes);
        self.sync_times.record(began.elapsed());
        self.fatal(written.context(|| "write the write-ahead log".into()))?;
        durable.manifest.advance(batch.manifest);
        // The next checkpoint is fed while the last quarter of the file is filled, so that no batch waits for all of it.
        if let Some(batches) = durable.wal.left_when_nearly_full(bytes.len()) {
            self.fatal(self.feed(durable, batches as u64 + 1))?;
        }
        Ok(())
    }

    /// Advances the checkpoint of the file that is filled next to the newest batch. The checkpoint of the full file
    /// is not touched.
    fn checkpoint(&self, durable: &Durable) -> Result<(), StorageError> {
        let next = 1 - durable.wal.current();
        let manifest = &durable.manifest;
        self.feed(durable, 1)?;
        self.usable(durable, durable.checkpoints[next].complete(manifest))?;
        self.recent.write().note_checkpoint(next, manifest);
        Ok(())
    }

    /// Puts one of `shares` of the records that it lacks into the checkpoint of the file that is filled next.
    fn feed(&self, durable: &Durable, shares: u64) -> Result<(), StorageError> {
        let next = 1 - durable.wal.current();
        let manifest = &durable.manifest;
        let (since, records) = self.recent.read().lacking(next, manifest, shares)?;
        let fed = durable.checkpoints[next].feed(manifest, since, &records, shares);
        self.usable(durable, fed)?;
        self.recent.write().note_put(next, &records);
        Ok(())
    }

    /// Passes on how a write to the checkpoint of the next file ended, and removes that checkpoint if it is damaged.
    fn usable(
        &self,
        durable: &Durable,
        written: Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        if written.as_ref().is_err_and(StorageError::is_damage) {
            let next = 1 - durable.wal.current();
            // The next opening copies the other checkpoint in its place. If the removal fails, the next opening finds
            // the damage itself.
            let _ = files::remove_dir(&open::path(&durable.dir, next));
        }
        written
    }

    fn append_one(&self, live: &mut Live, index: u64, payload: &[u8]) -> Result<(), StorageError> {
        live.manifest.check_append(index)?;
        let link = live.manifest.extent.map_or(record::NO_LINK, |extent| extent.last_crc);
        let (stored, crc) = record::seal(index, link, payload);
        self.recent.write().put(index, IVec::from(stored.as_slice()));
        live.manifest.push(index, crc);
        if live.pending.is_empty() {
            live.pending_first = index;
        }
        live.pending_bytes += stored.len();
        live.pending.push(Blob(stored));
        live.dirty = true;
        Ok(())
    }

    /// A record inside the log, as it is stored: from the recent records, or else from either checkpoint that has it
    /// unaltered.
    fn stored(&self, recent: &Recent, index: u64) -> Result<IVec, StorageError> {
        if let Some(stored) = recent.get(index) {
            return Ok(stored.clone());
        }
        let mut failure = None;
        for trees in &self.trees {
            match trees.record(index) {
                Ok(Some(stored)) if record::open(index, &stored).is_ok() => return Ok(stored),
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| missing(index)))
    }

    /// The extent that remains if the log is cut before `index`, which lies inside it.
    fn extent_before(&self, extent: Extent, index: u64) -> Result<Option<Extent>, StorageError> {
        if index <= extent.first {
            return Ok(None);
        }
        let last = index - 1;
        let stored = self.stored(&self.recent.read(), last)?;
        let last_crc = record::open(last, &stored)?.crc;
        Ok(Some(Extent { last, last_crc, ..extent }))
    }
}

impl LogEngine for SledEngine {
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        self.check()?;
        for payload in &records {
            check_size("log record", payload, RECORD_BYTES_MAX)?;
        }
        let mut live = self.live.write();
        for (index, payload) in (first..=u64::MAX).zip(&records) {
            if live.pending_bytes >= BATCH_BYTES_MAX {
                drop(live);
                self.sync()?;
                live = self.live.write();
            }
            self.append_one(&mut live, index, payload)?;
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.check()?;
        let live = self.live.read();
        let held = live.manifest.extent.filter(|extent| extent.contains(range.start));
        let Some(extent) = held else {
            return Ok(Vec::new());
        };
        let end = range.end.min(extent.last + 1);
        let recent = self.recent.read();
        let mut payloads = Vec::new();
        let mut bytes = 0_usize;
        for index in range.start..end {
            let stored = self.stored(&recent, index)?;
            let payload = record::open(index, &stored)?.payload;
            bytes = bytes.saturating_add(payload.len());
            if bytes > bytes_max && !payloads.is_empty() {
                break;
            }
            payloads.push(payload.to_vec());
        }
        Ok(payloads)
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        self.live.read().manifest.extent.map(|extent| (extent.first, extent.last))
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        let live = self.live.read();
        live.manifest.purged.as_ref().map(|purged| (purged.index, purged.mark.0.clone()))
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.check()?;
        let mut durable = self.durable.lock();
        let mut live = self.live.write();
        if let Some(purged) = live.manifest.purged.as_ref().filter(|purged| index <= purged.index) {
            let expected = format!("the log was purged up to {}", purged.index);
            return Err(StorageError::OutOfOrder { index, expected });
        }
        let Some(extent) = live.manifest.extent.filter(|extent| index <= extent.last) else {
            return Ok(());
        };
        live.manifest.extent = self.extent_before(extent, index)?;
        let batch = Self::close_batch(&mut live);
        self.commit(&mut durable, batch)?;
        // The lock on `live` is still held, so no record is appended where records are being removed.
        self.recent.write().truncate(index);
        Ok(())
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        self.check()?;
        check_size("purge mark", mark, META_BYTES_MAX)?;
        if index == u64::MAX {
            let expected = "below the largest integer".into();
            return Err(StorageError::OutOfOrder { index, expected });
        }
        let mut durable = self.durable.lock();
        let mut live = self.live.write();
        if live.manifest.purged.as_ref().is_some_and(|purged| index <= purged.index) {
            return Ok(());
        }
        live.manifest.purge(index, mark);
        let batch = Self::close_batch(&mut live);
        drop(live);
        self.commit(&mut durable, batch)?;
        // The extent now begins above the mark, so these records are no longer read or written.
        self.recent.write().forget_below(index + 1);
        Ok(())
    }

    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        self.check()?;
        check_size("named value", value, META_BYTES_MAX)?;
        let mut live = self.live.write();
        live.manifest.meta.insert(key as u8, Blob(value.to_vec()));
        live.changed.insert(key as u8, Blob(value.to_vec()));
        live.dirty = true;
        Ok(())
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.check()?;
        Ok(self.live.read().manifest.meta.get(&(key as u8)).map(|value| value.0.clone()))
    }

    fn sync(&self) -> Result<(), StorageError> {
        let mut durable = self.durable.lock();
        // The check comes after the lock: the call that held it may have failed with operations of this one.
        self.check()?;
        let mut live = self.live.write();
        if !live.dirty {
            return Ok(());
        }
        let batch = Self::close_batch(&mut live);
        drop(live);
        self.commit(&mut durable, batch)
    }

    fn sync_times(&self) -> Option<SyncReadings> {
        Some(self.sync_times.readings())
    }
}

fn check_size(what: &'static str, value: &[u8], bytes_max: usize) -> Result<(), StorageError> {
    if value.len() <= bytes_max {
        return Ok(());
    }
    Err(StorageError::TooLarge { what, bytes: value.len(), bytes_max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};
    use tempfile::tempdir;

    #[test]
    fn failed_sync_stops_the_engine_for_good() {
        let dir = tempdir().unwrap();
        let engine = SledEngine::open(&DataDir::open(dir.path(), 1).unwrap()).unwrap();
        engine.append(1, vec![b"r".to_vec()]).unwrap();
        engine.sync().unwrap();
        engine.durable.lock().wal = Wal::read_only(dir.path()).unwrap();
        engine.sync().unwrap();
        engine.put_meta(MetaKey::Vote, b"v").unwrap();
        let failed = engine.sync().unwrap_err();
        assert!(matches!(failed, StorageError::Stopped { .. }), "{failed}");
        assert!(!failed.is_retryable());
        // A later sync must not succeed, even if the device has recovered.
        engine.durable.lock().wal = Wal::open(dir.path()).unwrap().0;
        let later = [
            engine.sync(),
            engine.put_meta(MetaKey::Vote, b"w"),
            engine.append(2, vec![b"r".to_vec()]),
            engine.truncate_from(1),
            engine.purge_upto(1, b""),
            engine.get_meta(MetaKey::Vote).map(|_| ()),
            engine.read(1..2, 1).map(|_| ()),
        ];
        for result in later {
            assert_eq!(result.unwrap_err().to_string(), failed.to_string());
        }
    }

    #[test]
    fn a_checkpoint_that_was_fed_holds_exactly_the_log_when_its_file_is_begun() {
        let (dir, seed) = (tempdir().unwrap(), 1);
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let engine = SledEngine::open(&DataDir::open(dir.path(), 1).unwrap()).unwrap();
        let begun = || engine.durable.lock().wal.current();
        let (mut current, mut switches) = (begun(), 0);
        while switches < 5 {
            let (first, last) = engine.bounds().unwrap_or((1, 0));
            match random.gen_range(0..50) {
                0 => engine.truncate_from(random.gen_range(first..=last + 1)).unwrap(),
                1 => engine.purge_upto(random.gen_range(0..=last), b"mark").unwrap(),
                _ => {
                    let next = if last > 0 { last + 1 } else { above_mark(&engine) };
                    let records = (0..random.gen_range(1..30)).map(|_| vec![7; 40]);
                    engine.append(next, records.collect()).unwrap();
                    engine.sync().unwrap();
                }
            }
            if begun() != current {
                current = begun();
                switches += 1;
                let durable = engine.durable.lock();
                let trees = &durable.checkpoints[current].trees;
                let manifest = trees.manifest().unwrap();
                assert_eq!(manifest.batch + 1, durable.manifest.batch);
                replay::verify(trees, manifest.extent).unwrap();
                let held = manifest.extent.map_or(0, |extent| extent.last - extent.first + 1);
                assert_eq!(trees.log.len() as u64, held);
            }
        }
    }

    fn above_mark(engine: &SledEngine) -> u64 {
        engine.purge_mark().map_or(1, |(index, _)| index + 1)
    }
}
