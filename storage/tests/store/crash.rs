//! Crash points, each built from copies of a directory taken around the step it falls into.
//! A `log/` and each slot are taken from before or after a sync, as a crash could leave them.

use crate::common::{Content, content, copy, copy_file, is_damaged, open, records, reopened};
use mintleaf_storage::{LogEngine, MetaKey, SledEngine};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

/// A store that did one sync (groups 1 and 2 lie behind it, group 3 is the one that crashes),
/// with the directory as it was on either side.
struct Step {
    root: TempDir,
    before: Content,
    after: Content,
}

impl Step {
    /// `unsynced` operations reach sled's file or do not; `last` makes them durable.
    fn new(unsynced: impl FnOnce(&SledEngine), last: impl FnOnce(&SledEngine)) -> Step {
        let root = tempdir().unwrap();
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

    /// The directory a crash leaves: sled's part and the slot of group 3, each from either side.
    fn crashed(&self, log: &str, slot: &str) -> PathBuf {
        let dir = self.root.path().join("crashed");
        let _ = fs::remove_dir_all(&dir);
        copy(&self.root.path().join(log), &dir);
        copy_file(&self.root.path().join(slot), &dir, "tail-b");
        dir
    }
}

/// Cuts what was written of a slot, as a torn write would.
fn tear(dir: &Path, slot: &str) {
    let path = dir.join(slot);
    let mut bytes = fs::read(&path).unwrap();
    bytes[12..20].fill(0xa5);
    fs::write(path, bytes).unwrap();
}

#[test]
fn crash_before_either_half_of_a_sync_forgets_the_group() {
    for step in Step::every() {
        let dir = step.crashed("before", "before");
        assert_eq!(reopened(&dir).unwrap(), step.before);
    }
}

#[test]
fn crash_while_the_slot_is_written_forgets_the_group() {
    for step in Step::every() {
        let dir = step.crashed("before", "after");
        tear(&dir, "tail-b");
        assert_eq!(reopened(&dir).unwrap(), step.before);
    }
}

#[test]
fn crash_after_the_slot_but_before_sled_repeats_the_group_from_the_slot() {
    for step in Step::every() {
        let dir = step.crashed("before", "after");
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn crash_after_sled_but_before_the_slot_keeps_the_group_from_sled() {
    for step in Step::every() {
        let dir = step.crashed("after", "before");
        assert_eq!(reopened(&dir).unwrap(), step.after);
        let dir = step.crashed("after", "after");
        tear(&dir, "tail-b");
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn crash_after_both_keeps_the_group() {
    for step in Step::every() {
        let dir = step.crashed("after", "after");
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn crash_while_the_next_slot_is_written_loses_nothing() {
    for step in Step::every() {
        let dir = step.crashed("after", "after");
        tear(&dir, "tail-a");
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn second_crash_right_after_recovery_loses_nothing() {
    for step in Step::every() {
        // Group 3 came from sled alone; the slot it goes to is whole before slot a is touched.
        let dir = step.crashed("after", "after");
        tear(&dir, "tail-b");
        drop(open(&dir).unwrap());
        tear(&dir, "tail-a");
        assert_eq!(reopened(&dir).unwrap(), step.after);
    }
}

#[test]
fn store_goes_on_after_every_crash() {
    for step in Step::every() {
        for (log, slot) in [("before", "after"), ("after", "before"), ("after", "after")] {
            let dir = step.crashed(log, slot);
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
    // Durable truncation, its removals lost: sled's part is from before, the slot from after.
    let step = Step::truncate();
    let dir = step.crashed("before", "after");
    let engine = open(&dir).unwrap();
    assert_eq!(engine.bounds(), Some((1, 6)));
    engine.append(7, records("new", 7..9)).unwrap();
    engine.sync().unwrap();
    drop(engine);
    let engine = open(&dir).unwrap();
    let expected = [records("r", 1..7), records("new", 7..9)].concat();
    assert_eq!(engine.read(1..99, usize::MAX).unwrap(), expected);
}

#[test]
fn log_that_is_older_than_its_tail_is_refused() {
    let step = Step::append();
    let live = step.root.path().join("old");
    copy(&step.crashed("before", "before"), &live);
    let engine = open(&step.crashed("after", "after")).unwrap();
    for index in 15..18 {
        engine.append(index, records("r", index..index + 1)).unwrap();
        engine.sync().unwrap();
    }
    let now = step.root.path().join("now");
    copy(&step.root.path().join("crashed"), &now);
    drop(engine);
    fs::remove_dir_all(now.join("log")).unwrap();
    copy(&live.join("log"), &now.join("log"));
    assert!(is_damaged(&reopened(&now)));
}

#[test]
fn log_that_lost_groups_is_refused_even_when_no_record_is_missing() {
    let step = Step::append();
    let dir = step.crashed("after", "after");
    let engine = open(&dir).unwrap();
    let old = step.root.path().join("old");
    copy(&dir, &old);
    for vote in [b"four", b"five"] {
        engine.put_meta(MetaKey::Vote, vote).unwrap();
        engine.sync().unwrap();
    }
    copy_file(&dir, &old, "tail-a");
    copy_file(&dir, &old, "tail-b");
    assert!(is_damaged(&reopened(&old)));
}

#[test]
fn store_with_both_slots_torn_is_refused() {
    let step = Step::append();
    let dir = step.crashed("after", "after");
    tear(&dir, "tail-a");
    tear(&dir, "tail-b");
    let refused = reopened(&dir);
    assert!(is_damaged(&refused));
    assert!(refused.unwrap_err().to_string().contains("both slots"));
}
