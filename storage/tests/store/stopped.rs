use crate::common::{is_damaged, open};
use mintleaf_storage::{DataDir, LogEngine, MetaKey, NewDir, Snapshots, StoppedDir, StorageError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::{TempDir, tempdir};

/// A directory of node 5 with a log, a named value and a snapshot.
fn used() -> TempDir {
    let dir = tempdir().unwrap();
    drop(DataDir::open_for(dir.path(), 7, 5).unwrap());
    let engine = open(dir.path()).unwrap();
    engine.append(1, (0..50).map(|at| vec![at; 100]).collect()).unwrap();
    engine.put_meta(MetaKey::Cluster, b"cluster").unwrap();
    engine.sync().unwrap();
    drop(engine);
    let snapshots = Snapshots::open(&DataDir::open(dir.path(), 7).unwrap()).unwrap();
    snapshots.write(b"head", &mut |out| out.write_all(b"body")).unwrap();
    dir
}

/// Every file below a directory, with its bytes.
fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
        } else {
            found.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_stopped_directory_is_read_as_it_was_left_and_stays_so() {
    let (dir, beside) = (used(), tempdir().unwrap());
    let before = content(dir.path());
    for _ in 0..2 {
        let stopped = StoppedDir::open(dir.path()).unwrap();
        assert_eq!(stopped.owner(), Some(5));
        assert_eq!(stopped.snapshot().unwrap().unwrap().meta, b"head");
        let log = stopped.copy_log(&beside.path().join("scratch")).unwrap().unwrap();
        assert_eq!(log.engine.bounds(), Some((1, 50)));
        assert_eq!(log.engine.read(50..51, 1 << 20).unwrap(), [vec![49; 100]]);
        assert_eq!(log.engine.get_meta(MetaKey::Cluster).unwrap().unwrap(), b"cluster");
    }
    assert_eq!(content(dir.path()), before);
    assert_eq!(fs::read_dir(beside.path()).unwrap().count(), 0, "the copy is gone");
}

#[test]
fn a_directory_in_use_is_not_read_and_one_that_is_read_is_not_used() {
    let dir = used();
    let running = DataDir::open(dir.path(), 7).unwrap();
    let refused = StoppedDir::open(dir.path()).unwrap_err();
    assert!(matches!(refused, StorageError::Locked { .. }), "{refused}");
    drop(running);
    let reading = StoppedDir::open(dir.path()).unwrap();
    drop(StoppedDir::open(dir.path()).unwrap());
    let refused = DataDir::open(dir.path(), 7).unwrap_err();
    assert!(matches!(refused, StorageError::Locked { .. }), "{refused}");
    drop(reading);
    DataDir::open(dir.path(), 7).unwrap();
}

#[test]
fn a_directory_of_no_node_is_not_read() {
    let dir = tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("none")] {
        let refused = StoppedDir::open(&path).unwrap_err();
        assert!(matches!(refused, StorageError::Missing { .. }), "{refused}");
    }
}

#[test]
fn a_damaged_directory_is_read_for_no_less_than_it_held() {
    let beside = tempdir().unwrap();
    let read = |dir: &Path| -> Result<u64, StorageError> {
        let stopped = StoppedDir::open(dir)?;
        stopped.snapshot()?;
        let log = stopped.copy_log(&beside.path().join("scratch"))?;
        Ok(log.and_then(|log| log.engine.bounds()).map_or(0, |(_, last)| last))
    };
    let mut refused = 0;
    for part in ["identity", "snapshot/current", "tail-a0", "log-a/db"] {
        let dir = used();
        let path = dir.path().join(part);
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len().min(600)).step_by(97) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            match read(dir.path()) {
                Ok(last) => assert_eq!(last, 50, "{part} byte {at}"),
                Err(error) => {
                    assert!(is_damaged(&Err::<(), _>(error)), "{part} byte {at}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1);
}

#[test]
fn a_new_directory_is_whole_or_not_there() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("a/new");
    let fill = |new: &NewDir| {
        let dir = new.open_for(9, 4).unwrap();
        let snapshots = Snapshots::open(&dir).unwrap();
        snapshots.write(b"head", &mut |out| out.write_all(b"body")).unwrap();
        // A node that finds the directory half made cannot start on it.
        let refused = DataDir::open_for(&path, 1, 4).unwrap_err();
        assert!(matches!(refused, StorageError::Foreign { .. }), "{refused}");
    };
    let new = NewDir::begin(&path).unwrap();
    fill(&new);
    drop(new);
    assert!(!path.exists(), "given up, it leaves nothing behind");
    fs::create_dir_all(path.join("lost+found")).unwrap();
    let new = NewDir::begin(&path).unwrap();
    fill(&new);
    new.finish().unwrap();
    let dir = DataDir::open_for(&path, 1, 4).unwrap();
    assert_eq!((dir.store_id(), dir.owner(), dir.starts()), (9, Some(4), 2));
    assert_eq!(Snapshots::open(&dir).unwrap().latest().unwrap().unwrap().meta, b"head");
    assert!(!path.join("restoring.tmp").exists());
}

#[test]
fn a_directory_in_which_something_is_is_left_alone() {
    let dir = used();
    let before = content(dir.path());
    let refused = NewDir::begin(dir.path()).unwrap_err();
    assert!(matches!(refused, StorageError::NotEmpty { .. }), "{refused}");
    assert_eq!(content(dir.path()), before);
}
