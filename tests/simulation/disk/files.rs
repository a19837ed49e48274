//! Converts a simulated log to the files of a real one and back, for code that reads and makes directories of
//! stopped nodes.

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};

use super::{Content, Image};

/// The names of all values.
const KEYS: [MetaKey; 8] = [
    MetaKey::Vote,
    MetaKey::Committed,
    MetaKey::Cluster,
    MetaKey::Members,
    MetaKey::Removed,
    MetaKey::Refused,
    MetaKey::Starts,
    MetaKey::Prepared,
];

impl Image {
    /// Writes the content as the log of a new directory.
    pub(crate) fn write_to(&self, dir: &DataDir) -> Result<(), StorageError> {
        let Self(Content { records, purged, named }) = self;
        let log = SledEngine::open(dir)?;
        if let Some((index, mark)) = purged {
            log.purge_upto(*index, mark)?;
        }
        if let Some((&first, _)) = records.first_key_value() {
            log.append(first, records.values().cloned().collect())?;
        }
        for key in KEYS {
            if let Some(value) = named.get(&(key as u8)) {
                log.put_meta(key, value)?;
            }
        }
        log.sync()
    }

    /// Reads the log of a directory.
    pub(crate) fn read_from(dir: &DataDir) -> Result<Self, StorageError> {
        let log = SledEngine::open(dir)?;
        let mut content = Content { purged: log.purge_mark(), ..Content::default() };
        if let Some((first, last)) = log.bounds() {
            let records = log.read(first..last + 1, usize::MAX)?;
            content.records = (first..).zip(records).collect();
        }
        for key in KEYS {
            if let Some(value) = log.get_meta(key)? {
                content.named.insert(key as u8, value);
            }
        }
        Ok(Self(content))
    }
}
