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
    // The first start ended while the log was being created.
    for checkpoint in ["log-a", "log-b"] {
        fs::create_dir(parent.path().join(checkpoint)).unwrap();
        fs::write(parent.path().join(checkpoint).join("db"), "half").unwrap();
    }
    fs::write(parent.path().join("tail-a0"), "half").unwrap();
    open(parent.path()).unwrap();
}

#[test]
fn missing_part_of_a_used_directory_is_damage_unless_it_is_one_of_the_checkpoints() {
    for part in ["tail-a0", "tail-a1", "tail-b0", "tail-b1"] {
        let parent = tempdir().unwrap();
        drop(open(parent.path()).unwrap());
        fs::remove_file(parent.path().join(part)).unwrap();
        let result = open(parent.path());
        assert!(is_damaged(&result), "{part}: {:?}", result.err());
    }
    for part in ["log-a", "log-b", "log-a/db", "log-b/db", "log-a/conf", "log-b/conf"] {
        let parent = tempdir().unwrap();
        let path = parent.path().join(part);
        drop(open(parent.path()).unwrap());
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap();
        drop(open(parent.path()).unwrap());
        assert!(path.exists(), "{part} was not remade");
    }
    let parent = tempdir().unwrap();
    drop(open(parent.path()).unwrap());
    ["log-a", "log-b"].iter().for_each(|log| fs::remove_dir_all(parent.path().join(log)).unwrap());
    assert!(is_damaged(&open(parent.path())));
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

#[cfg(unix)]
mod mode {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_new_directory_and_its_missing_parents_are_the_owners_alone() {
        let parent = tempdir().unwrap();
        set_mode(parent.path(), 0o755);
        let path = parent.path().join("a/b");
        DataDir::open(&path, 1).unwrap();
        assert_eq!([mode(&path), mode(&parent.path().join("a"))], [0o700, 0o700]);
        assert_eq!(mode(parent.path()), 0o755, "it is not the directory's");
    }

    #[test]
    fn a_directory_that_others_can_enter_is_closed_to_them() {
        for found in [0o755, 0o777, 0o750, 0o701] {
            let parent = tempdir().unwrap();
            DataDir::open(parent.path(), 1).unwrap();
            set_mode(parent.path(), found);
            DataDir::open(parent.path(), 1).unwrap();
            assert_eq!(mode(parent.path()), 0o700, "was {found:o}");
        }
    }

    #[test]
    fn the_directory_of_somebody_else_keeps_its_mode() {
        let parent = tempdir().unwrap();
        set_mode(parent.path(), 0o755);
        fs::write(parent.path().join("thesis.tex"), "x").unwrap();
        DataDir::open(parent.path(), 1).unwrap_err();
        assert_eq!(mode(parent.path()), 0o755);
        fs::remove_file(parent.path().join("thesis.tex")).unwrap();
        DataDir::open_for(parent.path(), 1, 5).unwrap();
        set_mode(parent.path(), 0o755);
        DataDir::open_for(parent.path(), 1, 3).unwrap_err();
        assert_eq!(mode(parent.path()), 0o755);
    }
}
