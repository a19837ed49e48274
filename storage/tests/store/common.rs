//! Directories, and what a store in one of them holds.

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Everything a reader can see of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) log: BTreeMap<u64, Vec<u8>>,
    pub(crate) purged: Option<(u64, Vec<u8>)>,
    pub(crate) vote: Option<Vec<u8>>,
}

pub(crate) fn open(dir: &Path) -> Result<SledEngine, StorageError> {
    SledEngine::open(&DataDir::open(dir, 7)?)
}

pub(crate) fn content(engine: &SledEngine) -> Content {
    let log = match engine.bounds() {
        Some((first, last)) => {
            let records = engine.read(first..last + 1, usize::MAX).unwrap();
            assert_eq!(records.len() as u64, last + 1 - first);
            (first..).zip(records).collect()
        }
        None => BTreeMap::new(),
    };
    let vote = engine.get_meta(MetaKey::Vote).unwrap();
    Content { log, purged: engine.purge_mark(), vote }
}

/// Opens a directory and reads all of it.
pub(crate) fn reopened(dir: &Path) -> Result<Content, StorageError> {
    Ok(content(&open(dir)?))
}

/// Copies a directory as it is now, while its store is open: what `kill -9` would leave.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Copies one file from one directory to the same place in another.
pub(crate) fn copy_file(from: &Path, to: &Path, name: &str) {
    fs::copy(from.join(name), to.join(name)).unwrap();
}

pub(crate) fn records(prefix: &str, range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range.map(|index| format!("{prefix}{index}").into_bytes()).collect()
}

pub(crate) fn is_damaged<T>(result: &Result<T, StorageError>) -> bool {
    matches!(result, Err(StorageError::Damaged { .. }))
}
