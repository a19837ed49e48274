use crate::common::{is_damaged, open};
use mintleaf_storage::{DataDir, StorageError};
use std::fs;
use tempfile::tempdir;

#[test]
fn first_open_creates_the_directory_and_later_ones_count() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("a/b");
    let dir = DataDir::open(&path, 11).unwrap();
    assert_eq!((dir.store_id(), dir.starts(), dir.is_new()), (11, 1, true));
    assert_eq!(dir.path(), path);
    drop(dir);
    let dir = DataDir::open(&path, 22).unwrap();
    assert_eq!((dir.store_id(), dir.starts(), dir.is_new()), (11, 2, false));
}

#[test]
fn second_user_is_refused_while_the_engine_lives() {
    let parent = tempdir().unwrap();
    let engine = open(parent.path()).unwrap();
    let refused = DataDir::open(parent.path(), 1).unwrap_err();
    assert!(matches!(refused, StorageError::Locked { .. }));
    assert!(refused.is_retryable());
    assert!(refused.to_string().contains("in use by another process"));
    drop(engine);
    DataDir::open(parent.path(), 1).unwrap();
}

#[test]
fn directory_of_somebody_else_is_refused_and_left_alone() {
    let parent = tempdir().unwrap();
    fs::write(parent.path().join("thesis.tex"), "x").unwrap();
    let refused = DataDir::open(parent.path(), 1);
    assert!(matches!(refused, Err(StorageError::Foreign { .. })));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn creation_that_was_cut_short_is_taken_up_again() {
    let parent = tempdir().unwrap();
    fs::create_dir(parent.path().join("lost+found")).unwrap();
    fs::write(parent.path().join("lock"), "").unwrap();
    fs::write(parent.path().join("identity.tmp"), "half").unwrap();
    let dir = DataDir::open(parent.path(), 5).unwrap();
    assert_eq!((dir.store_id(), dir.starts(), dir.is_new()), (5, 1, true));
    drop(dir);
    // A first start that ended while the log was being made.
    fs::create_dir(parent.path().join("log")).unwrap();
    fs::write(parent.path().join("log/db"), "half").unwrap();
    fs::write(parent.path().join("tail-a0"), "half").unwrap();
    open(parent.path()).unwrap();
}

#[test]
fn missing_part_of_a_used_directory_is_damage() {
    for part in ["log", "log/db", "log/conf", "tail-a0", "tail-a1", "tail-b0", "tail-b1"] {
        let parent = tempdir().unwrap();
        drop(open(parent.path()).unwrap());
        let path = parent.path().join(part);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap();
        let result = open(parent.path());
        // Without its settings file sled makes a new one with the same content.
        assert!(is_damaged(&result) || part == "log/conf", "{part}: {:?}", result.err());
    }
}

#[test]
fn altered_identity_is_damage_and_says_what_to_do() {
    let parent = tempdir().unwrap();
    drop(open(parent.path()).unwrap());
    let path = parent.path().join("identity");
    let identity = fs::read(&path).unwrap();
    for bit in 0..identity.len() * 8 {
        let mut bad = identity.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, bad).unwrap();
        let refused = DataDir::open(parent.path(), 1).unwrap_err();
        assert!(matches!(refused, StorageError::Damaged { .. }), "bit {bit}: {refused}");
        assert!(refused.to_string().contains("join the node again as a learner"));
    }
}
