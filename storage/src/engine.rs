//! The log engine on sled. Why each step is where it is: `DESIGN.md`.

use crate::checkpoint::Checkpoint;
use crate::codec::Blob;
use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::open::{self, Opened};
use crate::planted;
use crate::recover::{Trees, missing};
use crate::state::{Extent, Group, State};
use crate::tail::{Tail, group_bytes, twice};
use crate::{GROUP_BYTES_MAX, LogEngine, META_BYTES_MAX, MetaKey, RECORD_BYTES_MAX};
use crate::{files, record};
use parking_lot::{Mutex, RwLock};
use sled::IVec;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The log engine: a write-ahead log that alone makes a [`LogEngine::sync`] durable, and two checkpoints
/// in sled that are brought up to it by turns.
pub struct SledEngine {
    /// Taken first, `live` second, `recent` last, where several are needed. Held for a whole sync:
    /// groups reach the disk one after the other.
    durable: Mutex<Durable>,
    live: RwLock<Live>,
    recent: RwLock<Recent>,
    /// Of both checkpoints: where to read what is not recent.
    trees: [Trees; 2],
    /// The first failure of a write or sync. Set once; every later call answers with it.
    failure: OnceLock<String>,
    _lock: Arc<File>,
}

/// What the log holds now, synced or not.
struct Live {
    state: State,
    /// The named values put since the last sync.
    changed: BTreeMap<u8, Blob>,
    /// Stored records appended since the last sync, and the index of the first of them.
    pending: Vec<Blob>,
    pending_first: u64,
    pending_bytes: usize,
    /// Whether anything changed since the last sync.
    dirty: bool,
}

/// The records that one of the checkpoints lacks, or has otherwise.
struct Recent {
    records: BTreeMap<u64, IVec>,
    /// For each checkpoint the index from which on that may be so.
    since: [u64; 2],
}

type Lacks = (u64, Vec<(u64, IVec)>);

/// What is on disk.
struct Durable {
    dir: PathBuf,
    tail: Tail,
    /// The state after the last group in the tail.
    state: State,
    checkpoints: [Checkpoint; 2],
}

impl Recent {
    /// Both checkpoints hold this log.
    fn after(state: &State) -> Self {
        Self { records: BTreeMap::new(), since: [after(state); 2] }
    }

    fn put(&mut self, index: u64, stored: IVec) {
        self.since = self.since.map(|since| since.min(index));
        self.records.insert(index, stored);
    }

    /// The log ends before `index` now.
    fn truncate(&mut self, index: u64) {
        self.since = self.since.map(|since| since.min(index));
        self.records.split_off(&index);
    }

    /// What a checkpoint lacks of the log of a state, and the index from which on.
    fn lacks(&self, checkpoint: usize, state: &State) -> Result<Lacks, StorageError> {
        let since = self.since[checkpoint];
        let mut records = Vec::new();
        for index in state.extent.map_or(0..0, |extent| extent.first.max(since)..after(state)) {
            let stored = self.records.get(&index).ok_or_else(|| missing(index))?;
            records.push((index, stored.clone()));
        }
        Ok((since, records))
    }

    /// Forgets what lies below `index`.
    fn forget_below(&mut self, index: u64) {
        self.records = self.records.split_off(&index);
    }
}

/// The index from which on a checkpoint of this state has nothing.
fn after(state: &State) -> u64 {
    state.extent.map_or(0, |extent| extent.last + 1)
}

impl SledEngine {
    /// Opens the log in `dir`, or makes it in a new directory, and brings it to exactly the state
    /// that was synced last (or one group of operations further, when a crash hit the sync that
    /// would have acknowledged them). Appends and values that were never synced are gone.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when anything that was acknowledged is missing or altered.
    pub fn open(dir: &DataDir) -> Result<Self, StorageError> {
        let Opened { tail, state, checkpoints } = open::open(dir)?;
        let (group, extent) = (state.group, state.extent);
        tracing::info!(group, ?extent, dir = %dir.path().display(), "log opened");
        let live = Live {
            state: state.clone(),
            changed: BTreeMap::new(),
            pending: Vec::new(),
            pending_first: 0,
            pending_bytes: 0,
            dirty: false,
        };
        Ok(SledEngine {
            trees: [checkpoints[0].trees.clone(), checkpoints[1].trees.clone()],
            recent: RwLock::new(Recent::after(&state)),
            durable: Mutex::new(Durable { dir: dir.path().to_owned(), tail, state, checkpoints }),
            live: RwLock::new(live),
            failure: OnceLock::new(),
            _lock: dir.share_lock(),
        })
    }

    /// Fails when any write or sync has failed before.
    fn check(&self) -> Result<(), StorageError> {
        match self.failure.get() {
            Some(_) if planted("failed-sync-forgotten") => Ok(()),
            Some(cause) => Err(StorageError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Stops the engine for good when a write or sync fails: what is on disk is unknown then.
    fn fatal<T>(&self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        result.map_err(|error| {
            let cause = self.failure.get_or_init(|| error.to_string());
            StorageError::Stopped { cause: cause.clone() }
        })
    }

    /// Closes the group of operations since the last one.
    fn close_group(live: &mut Live) -> Group {
        live.state.group += 1;
        live.dirty = false;
        live.pending_bytes = 0;
        let records = std::mem::take(&mut live.pending);
        let meta = std::mem::take(&mut live.changed);
        let state = State { meta, ..live.state.without_values() };
        Group { state, first: live.pending_first, records }
    }

    /// Makes a group durable: in the tail, once there is room for it.
    fn commit(&self, durable: &mut Durable, group: Group) -> Result<(), StorageError> {
        let bytes = twice(&group_bytes(&group));
        if !durable.tail.has_room(bytes.len()) {
            if !planted("tail-overwritten-too-soon") {
                self.fatal(self.catch_up(durable))?;
            }
            durable.tail.turn();
        }
        let written = durable.tail.write(group.state.group, &bytes);
        self.fatal(written.context(|| "write the tail".into()))?;
        durable.state.follow(group.state);
        Ok(())
    }

    /// Brings the checkpoint of the segment that is next to where the tail ends. The other one, of the
    /// segment that is full, is not touched meanwhile.
    fn catch_up(&self, durable: &Durable) -> Result<(), StorageError> {
        let next = if planted("same-checkpoint-always") { 0 } else { 1 - durable.tail.current() };
        let state = &durable.state;
        let (since, records) = self.recent.read().lacks(next, state)?;
        let caught_up = durable.checkpoints[next].catch_up(state, since, &records);
        if caught_up.as_ref().is_err_and(StorageError::is_damage) {
            // The next start copies the other one. What cannot be removed it finds out by itself.
            let _ = files::remove_dir(&open::path(&durable.dir, next));
        }
        caught_up?;
        let mut recent = self.recent.write();
        recent.since[next] = after(state);
        let both_have = recent.since[0].min(recent.since[1]);
        recent.forget_below(both_have);
        Ok(())
    }

    fn append_one(&self, live: &mut Live, index: u64, payload: &[u8]) -> Result<(), StorageError> {
        live.state.check_append(index)?;
        let link = live.state.extent.map_or(record::NO_LINK, |extent| extent.last_crc);
        let (stored, crc) = record::seal(index, link, payload);
        self.recent.write().put(index, IVec::from(stored.as_slice()));
        live.state.push(index, crc);
        if live.pending.is_empty() {
            live.pending_first = index;
        }
        live.pending_bytes += stored.len();
        live.pending.push(Blob(stored));
        live.dirty = true;
        Ok(())
    }

    /// A record inside the log, as it is stored. Either checkpoint will do.
    fn stored(&self, recent: &Recent, index: u64) -> Result<IVec, StorageError> {
        if let Some(stored) = recent.records.get(&index) {
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

    /// The log as it is when it ends before `index`, which lies inside it.
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
            if live.pending_bytes >= GROUP_BYTES_MAX {
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
        let held = live.state.extent.filter(|extent| extent.contains(range.start));
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
        self.live.read().state.extent.map(|extent| (extent.first, extent.last))
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        let live = self.live.read();
        live.state.purged.as_ref().map(|purged| (purged.index, purged.mark.0.clone()))
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.check()?;
        let mut durable = self.durable.lock();
        let mut live = self.live.write();
        if let Some(purged) = live.state.purged.as_ref().filter(|purged| index <= purged.index) {
            let expected = format!("the log was purged up to {}", purged.index);
            return Err(StorageError::OutOfOrder { index, expected });
        }
        let Some(extent) = live.state.extent.filter(|extent| index <= extent.last) else {
            return Ok(());
        };
        live.state.extent = self.extent_before(extent, index)?;
        let group = Self::close_group(&mut live);
        self.commit(&mut durable, group)?;
        // Still under the lock: nothing is appended where records are being removed.
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
        if live.state.purged.as_ref().is_some_and(|purged| index <= purged.index) {
            return Ok(());
        }
        live.state.purge(index, mark);
        let group = Self::close_group(&mut live);
        drop(live);
        self.commit(&mut durable, group)?;
        // Nothing reads or writes below the mark any more.
        self.recent.write().forget_below(index + 1);
        Ok(())
    }

    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        self.check()?;
        check_size("named value", value, META_BYTES_MAX)?;
        let mut live = self.live.write();
        live.state.meta.insert(key as u8, Blob(value.to_vec()));
        live.changed.insert(key as u8, Blob(value.to_vec()));
        live.dirty = true;
        Ok(())
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.check()?;
        Ok(self.live.read().state.meta.get(&(key as u8)).map(|value| value.0.clone()))
    }

    fn sync(&self) -> Result<(), StorageError> {
        let mut durable = self.durable.lock();
        // After the lock: whoever held it may have failed with our operations.
        self.check()?;
        let mut live = self.live.write();
        if !live.dirty {
            return Ok(());
        }
        let group = Self::close_group(&mut live);
        drop(live);
        self.commit(&mut durable, group)
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
    use tempfile::tempdir;

    #[test]
    fn failed_sync_stops_the_engine_for_good() {
        let dir = tempdir().unwrap();
        let engine = SledEngine::open(&DataDir::open(dir.path(), 1).unwrap()).unwrap();
        engine.append(1, vec![b"r".to_vec()]).unwrap();
        engine.sync().unwrap();
        engine.durable.lock().tail = Tail::read_only(dir.path()).unwrap();
        engine.sync().unwrap();
        engine.put_meta(MetaKey::Vote, b"v").unwrap();
        let failed = engine.sync().unwrap_err();
        assert!(matches!(failed, StorageError::Stopped { .. }), "{failed}");
        assert!(!failed.is_retryable());
        // A later sync must not succeed, even if the device has recovered.
        engine.durable.lock().tail = Tail::open(dir.path()).unwrap().0;
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
}
