//! A log in memory.

use std::collections::BTreeMap;
use std::ops::Range;

use mintleaf_storage::{LogEngine, MetaKey, StorageError};
use parking_lot::Mutex;

#[derive(Default)]
struct Content {
    records: BTreeMap<u64, Vec<u8>>,
    purged: Option<(u64, Vec<u8>)>,
    named: BTreeMap<u8, Vec<u8>>,
}

/// Writes are complete at once, and are lost when this is dropped.
#[derive(Default)]
pub(crate) struct MemoryLog(Mutex<Content>);

impl LogEngine for MemoryLog {
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        let content = &mut self.0.lock();
        let last = content.records.last_key_value().map(|(last, _)| *last);
        let purged = content.purged.as_ref().map(|(index, _)| *index);
        if last.map_or(purged.is_some_and(|purged| first <= purged), |last| first != last + 1) {
            let expected = "right after the last one".to_owned();
            return Err(StorageError::OutOfOrder { index: first, expected });
        }
        content.records.extend((first..).zip(records));
        Ok(())
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        let content = self.0.lock();
        if !content.records.contains_key(&range.start) || range.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = 0;
        let fits = |record: &&Vec<u8>| {
            let first = bytes == 0;
            bytes += record.len();
            first || bytes <= bytes_max
        };
        Ok(content
            .records
            .range(range)
            .map(|(_, record)| record)
            .take_while(fits)
            .cloned()
            .collect())
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        let content = self.0.lock();
        Some((*content.records.keys().next()?, *content.records.keys().next_back()?))
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        self.0.lock().purged.clone()
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.0.lock().records.split_off(&index);
        Ok(())
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        let content = &mut self.0.lock();
        if content.purged.as_ref().is_none_or(|(purged, _)| *purged < index) {
            content.records = content.records.split_off(&(index + 1));
            content.purged = Some((index, mark.to_owned()));
        }
        Ok(())
    }

    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        self.0.lock().named.insert(key as u8, value.to_owned());
        Ok(())
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.0.lock().named.get(&(key as u8)).cloned())
    }

    fn sync(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
