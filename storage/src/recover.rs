//! Bringing a checkpoint to the state that was acknowledged last: does it lead there, and is it all
//! there? The reasoning, crash point by crash point, is in `DESIGN.md`.

use crate::codec;
use crate::error::{Context, StorageError};
use crate::groups::Groups;
use crate::planted;
use crate::record;
use crate::state::{Extent, FORMAT, Group, State};
use sled::{IVec, Tree};

/// Key of the state in the `meta` tree.
const STATE: [u8; 1] = [0];

/// The two trees of a checkpoint.
#[derive(Clone)]
pub(crate) struct Trees {
    /// Records by index.
    pub(crate) log: Tree,
    /// The state.
    pub(crate) meta: Tree,
}

/// Key of a record: big-endian, so that sled's order is the log's.
fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

impl Trees {
    /// Stores the state. It must come after the records it vouches for.
    pub(crate) fn put_state(&self, state: &State) -> Result<(), StorageError> {
        let put = self.meta.insert(STATE, codec::encode(FORMAT, state));
        put.map(|_| ()).context(|| "write the state".into())
    }

    pub(crate) fn put_record(&self, index: u64, stored: &[u8]) -> Result<(), StorageError> {
        let put = self.log.insert(key(index), stored);
        put.map(|_| ()).context(|| format!("write log record {index}"))
    }

    pub(crate) fn record(&self, index: u64) -> Result<Option<IVec>, StorageError> {
        self.log.get(key(index)).context(|| format!("read log record {index}"))
    }

    /// Removes every record at `index` and above, the last one first: a crash leaves no hole.
    pub(crate) fn remove_from(&self, index: u64) -> Result<(), StorageError> {
        self.remove_all(self.log.range(key(index)..).rev())
    }

    /// Removes every record below `index`, the first one first: a crash leaves no hole.
    pub(crate) fn remove_below(&self, index: u64) -> Result<(), StorageError> {
        self.remove_all(self.log.range(..key(index)))
    }

    fn remove_all(
        &self,
        records: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    ) -> Result<(), StorageError> {
        for record in records {
            let (key, _) = record.context(|| "list log records".into())?;
            self.log.remove(key).context(|| "remove a log record".into())?;
        }
        Ok(())
    }

    fn state(&self) -> Result<State, StorageError> {
        let stored = self.meta.get(STATE).context(|| "read the state".into())?;
        let stored = stored.ok_or_else(|| StorageError::damaged("the log's state is missing"))?;
        match codec::decode::<State>(&stored) {
            Ok((FORMAT, state)) if state.is_sound() => Ok(state),
            _ => Err(StorageError::damaged("the log's state is damaged")),
        }
    }

    /// Brings the trees to exactly the state after the newest group, and returns it. The caller makes
    /// it durable.
    pub(crate) fn recover(&self, groups: &Groups) -> Result<State, StorageError> {
        let state = self.state()?;
        let missed = match groups.since(&state) {
            None if planted("tail-dropped-silently") => Vec::new(),
            None => {
                let what = format!("the log leaves off after group {}", state.group);
                return Err(StorageError::damaged(what));
            }
            Some(missed) => missed,
        };
        let state = if missed.is_empty() { state } else { self.repeat(state, missed)? };
        if !planted("left-overs-kept") {
            self.cut(state.extent)?;
        }
        self.verify(state.extent)?;
        Ok(state)
    }

    /// Repeats the groups since sled's state, which may have reached sled in part, in whole, or not
    /// at all.
    fn repeat(&self, mut state: State, groups: Vec<&Group>) -> Result<State, StorageError> {
        for group in groups {
            let lost = if planted("group-not-repeated") { usize::MAX } else { 0 };
            for (index, stored) in (group.first..).zip(&group.records).skip(lost) {
                self.put_record(index, &stored.0)?;
            }
            state.follow(group.state.clone());
        }
        self.put_state(&state)?;
        Ok(state)
    }

    /// Removes what is not part of the log: appended but never synced, truncated or purged but
    /// not yet removed.
    fn cut(&self, extent: Option<Extent>) -> Result<(), StorageError> {
        let Some(extent) = extent else {
            return self.remove_from(0);
        };
        self.remove_from(extent.last + 1)?;
        self.remove_below(extent.first)
    }

    /// Walks the chain from the first record to the last and compares its end.
    fn verify(&self, extent: Option<Extent>) -> Result<(), StorageError> {
        let Some(extent) = extent else {
            return Ok(());
        };
        let mut before = None;
        let mut records = self.log.iter();
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
}

pub(crate) fn missing(index: u64) -> StorageError {
    StorageError::damaged(format!("log record {index} is missing"))
}
