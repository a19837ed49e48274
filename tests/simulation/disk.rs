//! A simulated disk under the log. Synced operations survive a power cut; others may be lost.

mod files;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use mintleaf_storage::{LogEngine, MetaKey, StorageError};
use parking_lot::Mutex;

use crate::random::Random;

/// The content of a log.
#[derive(Clone, Default)]
struct Content {
    records: BTreeMap<u64, Vec<u8>>,
    purged: Option<(u64, Vec<u8>)>,
    named: BTreeMap<u8, Vec<u8>>,
}

/// An operation that is visible and not yet durable.
#[derive(Clone)]
enum Unsynced {
    Record(u64, Vec<u8>),
    Named(u8, Vec<u8>),
}

impl Content {
    fn carry_out(&mut self, operation: Unsynced) {
        match operation {
            Unsynced::Record(index, record) => drop(self.records.insert(index, record)),
            Unsynced::Named(key, value) => drop(self.named.insert(key, value)),
        }
    }
}

/// The next failure of a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DiskFault {
    /// The next sync fails, and how much of it is durable is unknown.
    Sync,
    /// There is no room for another record.
    Full,
}

#[derive(Default)]
struct Platter {
    durable: Content,
    visible: Content,
    unsynced: Vec<Unsynced>,
    fault: Option<DiskFault>,
    /// Why the engine has stopped, if it has.
    stopped: Option<String>,
    /// The number of the current opening.
    opened: u64,
}

/// One node's disk, which outlives the node's processes.
pub(crate) struct Disk {
    platter: Arc<Mutex<Platter>>,
    random: Random,
}

impl Disk {
    pub(crate) fn new(random: Random) -> Self {
        Self { platter: Arc::default(), random }
    }

    /// Opens the log. From now on an engine that was opened earlier cannot access the disk.
    pub(crate) fn open(&self) -> DiskEngine {
        let mut platter = self.platter.lock();
        platter.opened += 1;
        DiskEngine { opened: platter.opened, platter: Arc::clone(&self.platter) }
    }

    /// Cuts the power. None of the unsynced operations survive, or all, or the first ones. Returns how many were lost.
    pub(crate) fn crash(&self) -> usize {
        let mut platter = self.platter.lock();
        let unsynced = std::mem::take(&mut platter.unsynced);
        let kept = match self.random.within(0..3) {
            0 => 0,
            1 => unsynced.len(),
            _ => self.random.within(0..unsynced.len() as u64 + 1) as usize,
        };
        let lost = unsynced.len() - kept;
        for operation in unsynced.into_iter().take(kept) {
            platter.durable.carry_out(operation);
        }
        platter.visible = platter.durable.clone();
        (platter.fault, platter.stopped) = (None, None);
        platter.opened += 1;
        lost
    }

    /// Loses every unsynced operation, whatever [`crash`](Self::crash) would keep.
    pub(crate) fn lose_unsynced(&self) {
        self.platter.lock().unsynced.clear();
    }

    /// Makes the disk fail once.
    pub(crate) fn fail(&self, fault: DiskFault) {
        self.platter.lock().fault = Some(fault);
    }

    /// Whether the disk has failed since the last crash.
    pub(crate) fn has_failed(&self) -> bool {
        self.platter.lock().stopped.is_some()
    }

    /// Whether the disk has failed or is about to fail.
    pub(crate) fn is_failing(&self) -> bool {
        let platter = self.platter.lock();
        platter.fault.is_some() || platter.stopped.is_some()
    }

    /// Cancels a failure that has not happened yet.
    pub(crate) fn heal(&self) {
        self.platter.lock().fault = None;
    }

    /// Whether the node has durably voted, or has log entries.
    pub(crate) fn has_taken_part(&self) -> bool {
        let platter = self.platter.lock();
        let Content { records, purged, named } = &platter.durable;
        let voted = named.contains_key(&(MetaKey::Vote as u8));
        voted || !records.is_empty() || purged.is_some()
    }

    /// A named value that is durable.
    pub(crate) fn named(&self, key: MetaKey) -> Option<Vec<u8>> {
        self.platter.lock().durable.named.get(&(key as u8)).cloned()
    }

    /// A copy of the durable content.
    pub(crate) fn image(&self) -> Image {
        Image(self.platter.lock().durable.clone())
    }

    /// Puts a copy back, as a restore does. Without a copy, the disk is empty.
    pub(crate) fn restore(&self, image: Option<Image>) {
        let Image(content) = image.unwrap_or(Image(Content::default()));
        let opened = self.platter.lock().opened + 1;
        let visible = content.clone();
        *self.platter.lock() = Platter { durable: content, visible, opened, ..Platter::default() };
    }
}

/// A copy of a disk.
pub(crate) struct Image(Content);

/// The log on a [`Disk`], as one incarnation has opened it.
pub(crate) struct DiskEngine {
    platter: Arc<Mutex<Platter>>,
    opened: u64,
}

fn failed(action: &str, why: &str) -> StorageError {
    StorageError::Io { action: action.to_owned(), source: io::Error::other(why.to_owned()) }
}

impl DiskEngine {
    /// Acts on the disk, unless it has failed or belongs to a later incarnation.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut Platter) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut platter = self.platter.lock();
        let gone = (platter.opened != self.opened).then(|| "the process has ended".to_owned());
        match platter.stopped.clone().or(gone) {
            Some(cause) => Err(StorageError::Stopped { cause }),
            None => act(&mut platter),
        }
    }
}

impl Platter {
    fn take_fault(&mut self, fault: DiskFault, why: &str) -> Result<(), StorageError> {
        if self.fault != Some(fault) {
            return Ok(());
        }
        self.fault = None;
        self.stopped = Some(why.to_owned());
        Err(failed("write the log", why))
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.take_fault(DiskFault::Sync, "input/output error")?;
        for operation in std::mem::take(&mut self.unsynced) {
            self.durable.carry_out(operation);
        }
        Ok(())
    }

    fn check_next(&self, index: u64) -> Result<(), StorageError> {
        let fits = match (self.visible.records.last_key_value(), &self.visible.purged) {
            (Some((last, _)), _) => index == last + 1,
            (None, Some((purged, _))) => index > *purged,
            (None, None) => true,
        };
        let expected = "the one after the last".to_owned();
        if fits { Ok(()) } else { Err(StorageError::OutOfOrder { index, expected }) }
    }
}

impl LogEngine for DiskEngine {
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        self.with(|platter| {
            platter.take_fault(DiskFault::Full, "no space left on device")?;
            for (index, record) in (first..).zip(records) {
                platter.check_next(index)?;
                platter.visible.records.insert(index, record.clone());
                platter.unsynced.push(Unsynced::Record(index, record));
            }
            Ok(())
        })
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.with(|platter| {
            let (mut read, mut bytes) = (Vec::new(), 0);
            if range.is_empty() {
                return Ok(read);
            }
            for (expected, (&index, record)) in
                (range.start..).zip(platter.visible.records.range(range))
            {
                if index != expected || bytes >= bytes_max {
                    break;
                }
                bytes += record.len();
                read.push(record.clone());
            }
            Ok(read)
        })
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        let platter = self.platter.lock();
        let records = &platter.visible.records;
        Some((*records.first_key_value()?.0, *records.last_key_value()?.0))
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        self.platter.lock().visible.purged.clone()
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.with(|platter| {
            if platter.visible.purged.as_ref().is_some_and(|(purged, _)| index <= *purged) {
                let expected = "above what was purged".to_owned();
                return Err(StorageError::OutOfOrder { index, expected });
            }
            platter.sync()?;
            platter.durable.records.split_off(&index);
            platter.visible.records.split_off(&index);
            Ok(())
        })
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        self.with(|platter| {
            if platter.visible.purged.as_ref().is_some_and(|(purged, _)| index <= *purged) {
                return Ok(());
            }
            platter.sync()?;
            for content in [&mut platter.durable, &mut platter.visible] {
                content.purged = Some((index, mark.to_vec()));
                content.records = content.records.split_off(&(index + 1));
            }
            Ok(())
        })
    }

    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        self.with(|platter| {
            platter.visible.named.insert(key as u8, value.to_vec());
            platter.unsynced.push(Unsynced::Named(key as u8, value.to_vec()));
            Ok(())
        })
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.with(|platter| Ok(platter.visible.named.get(&(key as u8)).cloned()))
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.with(Platter::sync)
    }
}
