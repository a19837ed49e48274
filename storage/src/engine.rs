//! The log engine on sled. Why each step is where it is: `DESIGN.md`.

use crate::codec::Blob;
use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::planted;
use crate::recover::{Trees, key, missing};
use crate::state::{Extent, Group, State};
use crate::tail::{Tail, group_bytes, twice};
use crate::{GROUP_BYTES_MAX, LogEngine, META_BYTES_MAX, MetaKey, RECORD_BYTES_MAX};
use crate::{files, record};
use parking_lot::{Mutex, RwLock};
use sled::Db;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Memory for sled's page cache, in bytes. The log in use is smaller.
const CACHE_BYTES: u64 = 64 << 20;

/// The log engine on sled, with a [`LogEngine::sync`] that is a real one, and a side file that
/// notices what sled would silently lose.
pub struct SledEngine {
    trees: Trees,
    disk: Disk,
    /// Taken before `live` where both are needed. Held for a whole sync: groups reach the disk
    /// one after the other.
    durable: Mutex<Durable>,
    live: RwLock<Live>,
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

/// What is on disk.
struct Durable {
    tail: Tail,
    /// The state after the last group in the tail.
    state: State,
}

/// sled, and the file it keeps its data in.
struct Disk {
    db: Db,
    file: File,
}

/// How long an engine of this process that was just dropped may take to let go of its files.
const UNLOCK_TRIES_MAX: u32 = 500;
const UNLOCK_INTERVAL: Duration = Duration::from_millis(10);

impl Disk {
    fn open(dir: &Path) -> Result<Disk, StorageError> {
        let path = dir.join("db");
        // sled takes what it cannot read for the end of its log, and writes over it.
        files::read_through(&path)?;
        let config = sled::Config::new().path(dir).flush_every_ms(None).cache_capacity(CACHE_BYTES);
        let mut opened = config.open();
        for _ in 0..UNLOCK_TRIES_MAX {
            if !is_locked(&opened) {
                break;
            }
            // Nothing tells when sled has let go, and nobody opens a log where a wait would hurt.
            #[expect(clippy::disallowed_methods)]
            std::thread::sleep(UNLOCK_INTERVAL);
            opened = config.open();
        }
        if is_locked(&opened) {
            return Err(StorageError::Locked { dir: dir.to_owned() });
        }
        let db = opened.context(|| format!("open the log in {}", dir.display()))?;
        let file = File::open(&path).context(|| format!("open {}", path.display()))?;
        Ok(Disk { db, file })
    }

    fn trees(&self) -> Result<Trees, StorageError> {
        let tree = |name| self.db.open_tree(name).context(|| format!("open tree {name}"));
        Ok(Trees { log: tree("log")?, meta: tree("meta")? })
    }

    /// sled's `flush` hands its buffers to the kernel and goes no further; the sync is ours.
    fn sync(&self) -> Result<(), StorageError> {
        self.db.flush().map(|_| ()).context(|| "flush the log".into())?;
        self.file.sync_data().context(|| "sync the log".into())
    }
}

impl SledEngine {
    /// Opens the log in `dir`, or makes it in a new directory, and brings it to exactly the state
    /// that was synced last (or one group of operations further, when a crash hit the sync that
    /// would have acknowledged them). Appends and values that were never synced are gone.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when anything that was acknowledged is missing or altered.
    pub fn open(dir: &DataDir) -> Result<Self, StorageError> {
        // sled panics on some files that were altered.
        catch_unwind(AssertUnwindSafe(|| Self::open_or_make(dir)))
            .unwrap_or_else(|_| Err(StorageError::damaged("the log cannot be opened")))
    }

    fn open_or_make(dir: &DataDir) -> Result<Self, StorageError> {
        let mut made = None;
        if !dir.log_made() {
            made = Some(make(dir.path())?);
            dir.note_log_made()?;
        }
        let log = dir.path().join("log");
        if !log.join("db").exists() {
            return Err(StorageError::damaged("the log is missing"));
        }
        let (mut tail, found) = Tail::open(dir.path())?;
        let disk = made.map_or_else(|| Disk::open(&log), Ok)?;
        let trees = disk.trees()?;
        let state = trees.recover(found)?;
        // What was read may so far be in the kernel's memory only, and the tail is written over.
        disk.sync()?;
        let last = Group { state: state.without_values(), ..Group::default() };
        tail.begin(&last).context(|| "write the tail".into())?;
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
            trees,
            disk,
            durable: Mutex::new(Durable { tail, state }),
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
                self.fatal(self.catch_up(&durable.state))?;
            }
            durable.tail.turn();
        }
        let written = durable.tail.write(group.state.group, &bytes);
        self.fatal(written.context(|| "write the tail".into()))?;
        durable.state.follow(group.state);
        Ok(())
    }

    /// Makes sled durable up to a state that the tail has. In sled's order it comes after its records;
    /// those of later groups, of which sled may have some by now, lie outside its extent.
    fn catch_up(&self, state: &State) -> Result<(), StorageError> {
        self.trees.put_state(state)?;
        self.disk.sync()
    }

    fn append_one(&self, live: &mut Live, index: u64, payload: &[u8]) -> Result<(), StorageError> {
        live.state.check_append(index)?;
        let link = live.state.extent.map_or(record::NO_LINK, |extent| extent.last_crc);
        let (stored, crc) = record::seal(index, link, payload);
        self.fatal(self.trees.put_record(index, &stored))?;
        live.state.push(index, crc);
        if live.pending.is_empty() {
            live.pending_first = index;
        }
        live.pending_bytes += stored.len();
        live.pending.push(Blob(stored));
        live.dirty = true;
        Ok(())
    }

    /// The log as it is when it ends before `index`, which lies inside it.
    fn extent_before(&self, extent: Extent, index: u64) -> Result<Option<Extent>, StorageError> {
        if index <= extent.first {
            return Ok(None);
        }
        let last = index - 1;
        let stored = self.trees.log.get(key(last)).context(|| format!("read log record {last}"))?;
        let stored = stored.ok_or_else(|| missing(last))?;
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
        let mut stored = self.trees.log.range(key(range.start)..);
        let mut payloads = Vec::new();
        let mut bytes = 0_usize;
        for index in range.start..end {
            let next = stored.next().ok_or_else(|| missing(index))?;
            let (at, value) = next.context(|| format!("read log record {index}"))?;
            if *at != key(index) {
                return Err(missing(index));
            }
            let payload = record::open(index, &value)?.payload;
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
        self.fatal(self.trees.remove_from(index))
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
        drop(durable);
        // No lock is needed: nothing reads or writes below the mark any more.
        self.fatal(self.trees.remove_below(index + 1))
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

/// Makes the empty log and its tail, from scratch: what an earlier try left behind goes first.
fn make(dir: &Path) -> Result<Disk, StorageError> {
    let log = dir.join("log");
    if log.exists() {
        fs::remove_dir_all(&log).context(|| format!("remove {}", log.display()))?;
    }
    files::create_dir(&log)?;
    let disk = Disk::open(&log)?;
    disk.trees()?.put_state(&State::default())?;
    disk.sync()?;
    sync_conf(&log)?;
    files::sync_dir(&log)?;
    Tail::create(dir)?;
    Ok(disk)
}

/// sled writes its settings once, in two writes that it never syncs, and opens no log whose settings
/// are there in part.
fn sync_conf(log: &Path) -> Result<(), StorageError> {
    let path = log.join("conf");
    let synced = File::open(&path).and_then(|conf| conf.sync_all());
    synced.context(|| format!("sync {}", path.display()))
}

/// Whether sled found its file locked. The data directory's own lock is ours already, so that is an
/// engine of this very process on its way out: sled's threads let go a little after they were told.
fn is_locked(opened: &sled::Result<sled::Db>) -> bool {
    matches!(opened, Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock"))
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
