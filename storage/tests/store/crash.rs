//! Crash points of a sync, each built from copies of a directory made before and after it. Each copy of the
//! write-ahead log's file is taken from before or from after the sync, as a crash may leave it.

use crate::common::{
    CHECKPOINTS, Content, content, copy, is_damaged, open, quick_dir, records, reopened, replace,
};
use mintleaf_storage::{LogEngine, MetaKey, SledEngine};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A sync that a crash interrupts, with the directory before and after it. The sync writes batch 3; batches 1 and 2
/// were acknowledged.
struct Step {
    root: TempDir,
    before: Content,
    after: Content,
}

impl Step {
    /// Runs the operations `unsynced`, and then `last`, which makes them durable.
    fn new(unsynced: impl FnOnce(&SledEngine), last: impl FnOnce(&SledEngine)) -> Step {
        let root = quick_dir();
        let engine = open(&root.path().join("live")).unwrap();
        engine.append(1, records("r", 1..9)).unwrap();
        engine.put_meta(MetaKey::Vote, b"one").unwrap();
        engine.sync().unwrap();
        engine.append(9, records("r", 9..12)).unwrap();
        engine.put_meta(MetaKey::Vote, b"two").unwrap();
        engine.sync().unwrap();
        let step = |name: &str| copy(&root.path().join("live"), &root.path().join(name));
        step("before");
        let before = content(&engine);
        unsynced(&engine);
        last(&engine);
        step("after");
        let after = content(&engine);
        Step { root, before, after }
    }

    fn append() -> Step {
        Step::new(
            |engine| {
                engine.append(12, records("r", 12..15)).unwrap();
                engine.put_meta(MetaKey::Vote, b"three").unwrap();
            },
            |engine| engine.sync().unwrap(),
        )
    }

    fn truncate() -> Step {
        Step::new(|_| (), |engine| engine.truncate_from(7).unwrap())
    }

    fn purge() -> Step {
        Step::new(|_| (), |engine| engine.purge_upto(4, b"mark").unwrap())
    }

    fn every() -> [Step; 3] {
        [Step::append(), Step::truncate(), Step::purge()]
    }

    /// The directory that a crash leaves: each copy of the file with batch 3 is taken from the given side.
    fn crashed(&self, copies: [&str; 2]) -> PathBuf {
        let dir = self.root.path().join("crashed");
        let _ = fs::remove_dir_all(&dir);
        copy(&self.root.path().join("before"), &dir);
        for (copy, side) in WAL_FILE.into_iter().zip(copies) {
            replace(&self.root.path().join(side), &dir, copy);
        }
        dir
    }
}

/// The copies of the file that holds the batches since the directory was made.
const WAL_FILE: [&str; 2] = ["tail-b0", "tail-b1"];

/// Corrupts a batch in one copy, as a torn write would. Each batch here takes one block, twice.
fn tear(dir: &Path, copy: &str, batch: usize) {
    let path = dir.join(copy);
    let mut bytes = fs::read(&path).unwrap();
    for block in [2 * batch, 2 * batch + 1] {
        bytes[block * 4096 + 12..][..8].fill(0xa5);
    }
    fs::write(path, bytes).unwrap();
}

fn tear_both(dir: &Path, batch: usize) {
    WAL_FILE.iter().for_each(|copy| tear(dir, copy, batch));
}

#[test]
fn crash_before_a_batch_is_written_forgets_it() {
    for step in Step::every() {
        let dir = step.crashed(["before", "before"]);
        assert_eq!(reopened(&dir).unwrap(), step.before);
    }
}

#[test]
fn crash_while_both_copies_are_written_forgets_the_batch() {
    for step in Step::every() {
        let dir = step.crashed(["after", "after"]);
        tear_both(&dir, 3);
        assert_eq!(reopened(&dir).unwrap(), step.before);
    }
}

#[test]
fn crash_after_one_copy_keeps_the_batch() {
    for step in Step::every() {
        for copies in [["before", "after"], ["after", "before"]] {
            let dir = step.crashed(copies);
            assert_eq!(reopened(&dir).unwrap(), step.after);
        }
        for copy in WAL_FILE {
            let dir = step.crashed(["after", "after"]);
            tear(&dir, copy, 3);
            assert_eq!(reopened(&dir).unwrap(), step.after);
        }
    }
}

#[test]
fn crash_after_the_wal_is_synced_replays_every_batch_since_the_checkpoint() {
    for step in Step::every() {
        let dir = step.crashed(["after", "after"]);
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn second_crash_right_after_recovery_loses_nothing() {
    for step in Step::every() {
        // Batch 3 is in one copy only. The opening must bring it to a checkpoint before it overwrites the file that
        // holds it.
        let dir = step.crashed(["after", "before"]);
        drop(open(&dir).unwrap());
        tear(&dir, "tail-b0", 3);
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn lost_batch_between_others_is_refused() {
    let step = Step::append();
    let dir = step.crashed(["after", "after"]);
    tear_both(&dir, 2);
    assert!(is_damaged(&reopened(&dir)));
}

#[test]
fn value_that_changed_long_ago_outlives_every_later_batch() {
    let root = quick_dir();
    let (live, crashed) = (root.path().join("live"), root.path().join("crashed"));
    let engine = open(&live).unwrap();
    engine.put_meta(MetaKey::Cluster, b"old").unwrap();
    for vote in 0..200_u64 {
        engine.put_meta(MetaKey::Vote, &vote.to_le_bytes()).unwrap();
        engine.sync().unwrap();
        if vote % 40 == 39 {
            copy(&live, &crashed);
            // The second opening starts from the batch that the first one wrote.
            drop(open(&crashed).unwrap());
            let again = open(&crashed).unwrap();
            assert_eq!(again.get_meta(MetaKey::Cluster).unwrap().unwrap(), b"old");
            assert_eq!(again.get_meta(MetaKey::Vote).unwrap().unwrap(), vote.to_le_bytes());
            drop(again);
            fs::remove_dir_all(&crashed).unwrap();
        }
    }
}

#[test]
fn both_wal_files_are_used_in_turn_and_a_checkpoint_is_advanced_before() {
    let root = quick_dir();
    let (live, crashed) = (root.path().join("live"), root.path().join("crashed"));
    let engine = open(&live).unwrap();
    for index in 1..300 {
        engine.append(index, records("r", index..index + 1)).unwrap();
        engine.sync().unwrap();
        if index % 20 == 9 || (120..140).contains(&index) {
            copy(&live, &crashed);
            assert_eq!(reopened(&crashed).unwrap(), content(&engine));
            fs::remove_dir_all(&crashed).unwrap();
        }
    }
}

#[test]
fn store_goes_on_after_every_crash() {
    for step in Step::every() {
        for copies in [["after"; 2], ["before"; 2], ["before", "after"]] {
            let dir = step.crashed(copies);
            let engine = open(&dir).unwrap();
            let next = engine.bounds().unwrap().1 + 1;
            engine.append(next, records("next", 0..5)).unwrap();
            engine.sync().unwrap();
            engine.truncate_from(next + 3).unwrap();
            let expected = content(&engine);
            let copied = dir.with_extension("again");
            let _ = fs::remove_dir_all(&copied);
            copy(&dir, &copied);
            drop(engine);
            assert_eq!(reopened(&dir).unwrap(), expected);
            assert_eq!(reopened(&copied).unwrap(), expected);
        }
    }
}

#[test]
fn records_that_a_truncation_left_behind_do_not_come_back() {
    // The truncation is durable in the write-ahead log, but not in any checkpoint.
    let step = Step::truncate();
    let dir = step.crashed(["after", "after"]);
    let engine = open(&dir).unwrap();
    assert_eq!(engine.bounds(), Some((1, 6)));
    engine.append(7, records("new", 7..9)).unwrap();
    engine.sync().unwrap();
    drop(engine);
    let engine = open(&dir).unwrap();
    let expected = [records("r", 1..7), records("new", 7..9)].concat();
    assert_eq!(engine.read(1..99, usize::MAX).unwrap(), expected);
}

/// A directory at one moment, and the same directory after its write-ahead log has switched files
/// several times.
fn gone_on(step: &Step, go_on: impl Fn(&SledEngine, u64)) -> (PathBuf, PathBuf) {
    let now = step.crashed(["after", "after"]);
    let old = step.root.path().join("old");
    copy(&now, &old);
    let engine = open(&now).unwrap();
    (15..300).for_each(|index| go_on(&engine, index));
    (old, now)
}

#[test]
fn checkpoints_that_are_older_than_the_wal_are_refused() {
    let step = Step::append();
    let (old, now) = gone_on(&step, |engine, index| {
        engine.append(index, records("r", index..index + 1)).unwrap();
        engine.sync().unwrap();
    });
    CHECKPOINTS.iter().for_each(|checkpoint| replace(&old, &now, checkpoint));
    assert!(is_damaged(&reopened(&now)));
}

#[test]
fn checkpoints_that_lost_batches_are_refused_even_when_no_record_is_missing() {
    let step = Step::append();
    let (old, now) = gone_on(&step, |engine, vote| {
        engine.put_meta(MetaKey::Vote, &vote.to_le_bytes()).unwrap();
        engine.sync().unwrap();
    });
    for copy in ["tail-a0", "tail-a1", "tail-b0", "tail-b1"] {
        replace(&now, &old, copy);
    }
    assert!(is_damaged(&reopened(&old)));
}

#[test]
fn wal_that_is_older_than_both_checkpoints_is_refused() {
    let step = Step::append();
    let (old, now) = gone_on(&step, |engine, vote| {
        engine.put_meta(MetaKey::Vote, &vote.to_le_bytes()).unwrap();
        engine.sync().unwrap();
    });
    for copy in ["tail-a0", "tail-a1", "tail-b0", "tail-b1"] {
        replace(&old, &now, copy);
    }
    assert!(is_damaged(&reopened(&now)));
}

#[test]
fn store_without_a_wal_is_refused() {
    let step = Step::append();
    let dir = step.crashed(["after", "after"]);
    tear(&dir, "tail-a0", 0);
    tear(&dir, "tail-a1", 0);
    (0..4).for_each(|batch| tear_both(&dir, batch));
    let refused = reopened(&dir);
    assert!(is_damaged(&refused));
    assert!(refused.unwrap_err().to_string().contains("write-ahead log is damaged"));
}
