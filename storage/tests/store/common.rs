//! Data directories, their copies, and the content of the log in one.

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Everything that a reader can see of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) log: BTreeMap<u64, Vec<u8>>,
    pub(crate) purged: Option<(u64, Vec<u8>)>,
    pub(crate) vote: Option<Vec<u8>>,
    /// The other named values, in the order of [`OTHERS`].
    pub(crate) values: [Option<Vec<u8>>; 6],
}

const OTHERS: [MetaKey; 6] = [
    MetaKey::Committed,
    MetaKey::Cluster,
    MetaKey::Members,
    MetaKey::Removed,
    MetaKey::Refused,
    MetaKey::Starts,
];

/// The directories of both checkpoints.
pub(crate) const CHECKPOINTS: [&str; 2] = ["log-a", "log-b"];
/// The copies of both files of the write-ahead log.
pub(crate) const WAL_FILES: [[&str; 2]; 2] = [["tail-a0", "tail-a1"], ["tail-b0", "tail-b1"]];

/// A directory for tests that sync often: in memory if the machine has such a place.
pub(crate) fn quick_dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).unwrap()
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
    let values = OTHERS.map(|key| engine.get_meta(key).unwrap());
    Content { log, purged: engine.purge_mark(), vote, values }
}

/// Opens a directory and reads all of it.
pub(crate) fn reopened(dir: &Path) -> Result<Content, StorageError> {
    Ok(content(&open(dir)?))
}

/// Copies a directory as it is now, while its log is open. The copy is what `kill -9` would leave.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if let Err(error) = fs::copy(entry.path(), target) {
            // sled replaces its `snap.*` file on a separate thread, at any moment.
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
}

/// Replaces a part of a directory with the same part of another.
pub(crate) fn replace(from: &Path, to: &Path, part: &str) {
    let (from, to) = (from.join(part), to.join(part));
    if from.is_dir() {
        let _ = fs::remove_dir_all(&to);
        copy(&from, &to);
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Splitmix64, which is random enough to choose what breaks.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// Paths of all files in a directory, relative to it, in order.
pub(crate) fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path.strip_prefix(dir).unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// Makes a part of `to` what a power cut between two moments may leave: each name, length and sector is as it was at
/// one of the two.
pub(crate) fn scatter(before: &Path, after: &Path, to: &Path, part: &str, random: &mut Random) {
    let unit = if random.coin() { 512 } else { 4096 };
    let names = |dir: &Path| {
        let files = if dir.join(part).is_dir() { files_in(&dir.join(part)) } else { vec![] };
        let file = dir.join(part).is_file().then(PathBuf::new);
        files.into_iter().chain(file).map(|name| Path::new(part).join(name)).collect::<Vec<_>>()
    };
    let mut all = [names(before), names(after)].concat();
    all.sort();
    all.dedup();
    if to.join(part).is_dir() {
        fs::remove_dir_all(to.join(part)).unwrap();
    }
    for name in all {
        let name = name.components().collect::<PathBuf>();
        let sides = [fs::read(before.join(&name)).ok(), fs::read(after.join(&name)).ok()];
        let has = usize::from(random.coin());
        let Some(len) = sides[has].as_ref().map(Vec::len) else { continue };
        let mut bytes = vec![0; len];
        for at in (0..len).step_by(unit) {
            let side = sides[usize::from(random.coin())].as_ref();
            let from = side.and_then(|side| side.get(at..side.len().min(at + unit).min(len)));
            bytes[at..][..from.map_or(0, <[u8]>::len)].copy_from_slice(from.unwrap_or_default());
        }
        fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        fs::write(to.join(&name), bytes).unwrap();
    }
}

/// Whether a part of two directories has different content.
pub(crate) fn differs(one: &Path, other: &Path, part: &str) -> bool {
    let read = |dir: &Path| {
        let dir = dir.join(part);
        let files = if dir.is_dir() { files_in(&dir) } else { vec![PathBuf::new()] };
        let path = |file: &PathBuf| dir.join(file).components().collect::<PathBuf>();
        files.iter().map(|file| (file.clone(), fs::read(path(file)).ok())).collect::<Vec<_>>()
    };
    read(one) != read(other)
}

pub(crate) fn records(prefix: &str, range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range.map(|index| format!("{prefix}{index}").into_bytes()).collect()
}

pub(crate) fn is_damaged<T>(result: &Result<T, StorageError>) -> bool {
    matches!(result, Err(StorageError::Damaged { .. }))
}
