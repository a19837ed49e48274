use crate::common::{content, open, quick_dir, records, reopened};
use mintleaf_storage::{LogEngine, META_BYTES_MAX, MetaKey, RECORD_BYTES_MAX, StorageError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

#[test]
fn append_is_readable_at_once_and_there_after_sync() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, records("r", 1..4)).unwrap();
    engine.put_meta(MetaKey::Vote, b"v1").unwrap();
    assert_eq!(engine.bounds(), Some((1, 3)));
    assert_eq!(engine.read(2..9, usize::MAX).unwrap(), records("r", 2..4));
    engine.sync().unwrap();
    let before = content(&engine);
    drop(engine);
    assert_eq!(reopened(dir.path()).unwrap(), before);
}

#[test]
fn what_was_never_synced_is_gone_after_reopen() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, records("r", 1..3)).unwrap();
    engine.sync().unwrap();
    let synced = content(&engine);
    engine.append(3, records("r", 3..5)).unwrap();
    engine.put_meta(MetaKey::Vote, b"v2").unwrap();
    drop(engine);
    assert_eq!(reopened(dir.path()).unwrap(), synced);
}

#[test]
fn read_stops_at_bytes_max_but_returns_one_record() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(5, vec![vec![0; 10]; 4]).unwrap();
    assert_eq!(engine.read(5..9, 0).unwrap().len(), 1);
    assert_eq!(engine.read(5..9, 29).unwrap().len(), 2);
    assert_eq!(engine.read(5..9, 30).unwrap().len(), 3);
    assert!(engine.read(5..5, 30).unwrap().is_empty());
    assert!(engine.read(4..9, 30).unwrap().is_empty());
    assert!(engine.read(9..12, 30).unwrap().is_empty());
}

#[test]
fn append_out_of_order_is_refused_and_changes_nothing() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, records("r", 1..3)).unwrap();
    for index in [0, 1, 2, 4, u64::MAX] {
        let refused = engine.append(index, records("x", 0..1));
        assert!(matches!(refused, Err(StorageError::OutOfOrder { .. })), "{index}");
    }
    assert_eq!(engine.bounds(), Some((1, 2)));
    engine.append(3, records("r", 3..4)).unwrap();
}

#[test]
fn oversized_values_are_refused() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, vec![vec![1; RECORD_BYTES_MAX]]).unwrap();
    let too_large = [
        engine.append(2, vec![vec![1; RECORD_BYTES_MAX + 1]]),
        engine.put_meta(MetaKey::Vote, &[0; META_BYTES_MAX + 1]),
        engine.purge_upto(1, &[0; META_BYTES_MAX + 1]),
    ];
    for refused in too_large {
        assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    }
    engine.sync().unwrap();
    assert_eq!(engine.bounds(), Some((1, 1)));
}

#[test]
fn largest_values_of_every_name_fit_together() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    let value = vec![3; META_BYTES_MAX];
    let keys = [MetaKey::Vote, MetaKey::Committed, MetaKey::Cluster, MetaKey::Members];
    for key in keys {
        engine.put_meta(key, &value).unwrap();
    }
    engine.purge_upto(9, &value).unwrap();
    drop(engine);
    let engine = open(dir.path()).unwrap();
    for key in keys {
        assert_eq!(engine.get_meta(key).unwrap().unwrap(), value);
    }
    for blobs in ["log-a/blobs", "log-b/blobs"] {
        assert_eq!(fs::read_dir(dir.path().join(blobs)).unwrap().count(), 0);
    }
}

#[test]
fn truncate_is_durable_without_a_sync() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, records("old", 1..6)).unwrap();
    engine.truncate_from(3).unwrap();
    assert_eq!(engine.bounds(), Some((1, 2)));
    drop(engine);
    let engine = open(dir.path()).unwrap();
    assert_eq!(engine.bounds(), Some((1, 2)));
    engine.append(3, records("new", 3..5)).unwrap();
    engine.sync().unwrap();
    drop(engine);
    let engine = open(dir.path()).unwrap();
    let expected = [records("old", 1..3), records("new", 3..5)].concat();
    assert_eq!(engine.read(1..9, usize::MAX).unwrap(), expected);
}

#[test]
fn truncate_may_empty_the_log_and_ignores_what_lies_beyond() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.truncate_from(0).unwrap();
    engine.append(4, records("r", 4..6)).unwrap();
    engine.truncate_from(6).unwrap();
    assert_eq!(engine.bounds(), Some((4, 5)));
    engine.truncate_from(1).unwrap();
    assert_eq!(engine.bounds(), None);
    drop(engine);
    assert_eq!(open(dir.path()).unwrap().bounds(), None);
}

#[test]
fn purge_keeps_its_mark_and_the_rest_of_the_log() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, records("r", 1..9)).unwrap();
    engine.purge_upto(5, b"mark").unwrap();
    engine.purge_upto(3, b"older").unwrap();
    let refused = engine.truncate_from(5);
    assert!(matches!(refused, Err(StorageError::OutOfOrder { .. })));
    drop(engine);
    let engine = open(dir.path()).unwrap();
    assert_eq!(engine.bounds(), Some((6, 8)));
    assert_eq!(engine.purge_mark(), Some((5, b"mark".to_vec())));
    assert_eq!(engine.read(6..9, usize::MAX).unwrap(), records("r", 6..9));
}

#[test]
fn purge_beyond_the_end_empties_the_log_and_lifts_its_start() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    engine.append(1, records("r", 1..4)).unwrap();
    engine.purge_upto(100, b"snapshot").unwrap();
    assert_eq!(engine.bounds(), None);
    drop(engine);
    let engine = open(dir.path()).unwrap();
    assert_eq!((engine.bounds(), engine.purge_mark().unwrap().0), (None, 100));
    engine.append(100, records("r", 100..101)).unwrap_err();
    engine.append(101, records("r", 101..103)).unwrap();
    engine.sync().unwrap();
    drop(engine);
    assert_eq!(open(dir.path()).unwrap().bounds(), Some((101, 102)));
}

#[test]
fn many_unsynced_megabytes_are_synced_in_bounded_batches() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    let count = 300;
    engine.append(1, vec![vec![5; RECORD_BYTES_MAX]; count]).unwrap();
    for copy in ["tail-a0", "tail-a1", "tail-b0", "tail-b1"] {
        let len = fs::metadata(dir.path().join(copy)).unwrap().len();
        assert!((1 << 20..=16 << 20).contains(&len), "{copy} has {len} bytes");
    }
    engine.sync().unwrap();
    drop(engine);
    assert_eq!(open(dir.path()).unwrap().bounds(), Some((1, count as u64)));
}

#[test]
fn syncs_and_reads_run_beside_appends() {
    let dir = quick_dir();
    let engine = open(dir.path()).unwrap();
    let (appended, synced) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for index in 1..=500 {
                engine.append(index, records("r", index..index + 1)).unwrap();
                appended.store(index, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            while synced.load(Ordering::SeqCst) < 500 {
                let reached = appended.load(Ordering::SeqCst);
                engine.sync().unwrap();
                synced.store(reached, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            while synced.load(Ordering::SeqCst) < 500 {
                let Some((first, last)) = engine.bounds() else { continue };
                let read = engine.read(first..last + 1, usize::MAX).unwrap();
                assert_eq!(read, records("r", first..last + 1));
            }
        });
    });
    drop(engine);
    assert_eq!(open(dir.path()).unwrap().bounds(), Some((1, 500)));
}
