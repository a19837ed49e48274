//! Power cuts while a checkpoint is written or opened. Each affected name, length and sector may be left as it was
//! before or after, or be gone. The other checkpoint is not touched.

use crate::common::{
    CHECKPOINTS, Content, Random, WAL_FILES, content, copy, differs, is_damaged, open, quick_dir,
    reopened, replace, scatter,
};
use mintleaf_storage::{LogEngine, MetaKey, SledEngine, StorageError};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SEED: u64 = 0x706f_7765;
/// Number of power cuts at each crash point.
const CUTS: usize = 6;

/// A sync that found its file of the write-ahead log full and switched files, with the directory before and after it.
/// Four batches fill a file.
struct Switch {
    root: TempDir,
    before: Content,
    after: Content,
    /// The checkpoint that was advanced, which is also the number of the file that was begun.
    written: usize,
}

/// One step of a history: mostly a large batch, sometimes a truncation or a purge.
fn step(engine: &SledEngine, number: u64) {
    let next = engine.bounds().map_or(number + 1, |(_, last)| last + 1);
    let record = |at: u64| format!("{number}.{at} {}", "x".repeat(20_000)).into_bytes();
    engine.put_meta(MetaKey::Vote, &number.to_le_bytes()).unwrap();
    match number % 7 {
        3 => engine.truncate_from(next - 2).unwrap(),
        5 => engine.purge_upto(next - 5, b"mark").unwrap(),
        _ => engine.append(next, (0..3).map(record).collect()).unwrap(),
    }
    engine.sync().unwrap();
}

impl Switch {
    /// The switches of a history: at least three, so each checkpoint is advanced at least once.
    fn each(then: impl Fn(&Switch)) {
        let root = quick_dir();
        let (live, dir) = (root.path().join("live"), |name: &str| root.path().join(name));
        let engine = open(&live).unwrap();
        let mut switches = 0;
        for number in 1..40 {
            let before = content(&engine);
            let _ = fs::remove_dir_all(dir("before"));
            copy(&live, &dir("before"));
            step(&engine, number);
            let written = CHECKPOINTS.map(|name| differs(&live, &dir("before"), name));
            let Some(written) = written.iter().position(|written| *written) else { continue };
            let switch = Switch { root: quick_dir(), before, after: content(&engine), written };
            copy(&dir("before"), &switch.side("before"));
            copy(&live, &switch.side("after"));
            then(&switch);
            switches += 1;
        }
        assert!(switches >= 3, "{switches} switches");
    }

    fn side(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The directory as it was before, to be changed.
    fn crashed(&self) -> PathBuf {
        let dir = self.side("crashed");
        let _ = fs::remove_dir_all(&dir);
        copy(&self.side("before"), &dir);
        dir
    }

    fn scatter(&self, dir: &Path, part: &str, random: &mut Random) {
        scatter(&self.side("before"), &self.side("after"), dir, part, random);
    }
}

/// Corrupts a checkpoint so that it is no longer a sled database.
fn spoil(checkpoint: &Path, random: &mut Random) {
    let db = checkpoint.join("db");
    let mut bytes = fs::read(&db).unwrap();
    match random.below(5) {
        0 => fs::remove_dir_all(checkpoint).unwrap(),
        1 => fs::write(db, []).unwrap(),
        2 => fs::write(db, &bytes[..random.below(bytes.len())]).unwrap(),
        3 => {
            bytes.fill_with(|| random.below(256) as u8);
            fs::write(db, bytes).unwrap();
        }
        _ => fs::write(checkpoint.join("conf"), b"segment_size: ").unwrap(),
    }
}

#[test]
fn cut_while_a_checkpoint_is_written_loses_nothing() {
    Switch::each(|switch| {
        let random = &mut Random(SEED + switch.written as u64);
        for _ in 0..CUTS {
            let dir = switch.crashed();
            switch.scatter(&dir, CHECKPOINTS[switch.written], random);
            assert_eq!(reopened(&dir).unwrap(), switch.before);
            let dir = switch.crashed();
            spoil(&dir.join(CHECKPOINTS[switch.written]), random);
            assert_eq!(reopened(&dir).unwrap(), switch.before);
        }
    });
}

#[test]
fn cut_while_the_other_wal_file_is_begun_loses_nothing() {
    Switch::each(|switch| {
        let random = &mut Random(SEED);
        for _ in 0..CUTS {
            let dir = switch.crashed();
            replace(&switch.side("after"), &dir, CHECKPOINTS[switch.written]);
            assert_eq!(reopened(&dir).unwrap(), switch.before);
            let dir = switch.crashed();
            replace(&switch.side("after"), &dir, CHECKPOINTS[switch.written]);
            WAL_FILES[switch.written].iter().for_each(|copy| switch.scatter(&dir, copy, random));
            let found = reopened(&dir).unwrap();
            assert!(found == switch.before || found == switch.after);
        }
    });
}

#[test]
fn either_checkpoint_may_be_unusable_but_not_both() {
    Switch::each(|switch| {
        let random = &mut Random(SEED);
        for spoilt in CHECKPOINTS {
            let dir = switch.crashed();
            spoil(&dir.join(spoilt), random);
            assert_eq!(reopened(&dir).unwrap(), switch.before, "{spoilt}");
            assert_eq!(reopened(&dir).unwrap(), switch.before, "{spoilt} remade");
        }
        let dir = switch.crashed();
        CHECKPOINTS
            .iter()
            .for_each(|spoilt| fs::write(dir.join(spoilt).join("db"), [7; 999]).unwrap());
        assert!(is_damaged(&reopened(&dir)));
    });
}

/// Opens a copy of a directory. Returns the directory before and after, and the number of the checkpoint that was
/// opened first. An opening changes, in this order, that checkpoint, the file of the same number, and the checkpoint
/// that was taken for intact.
fn opening(switch: &Switch, dir: &Path) -> (PathBuf, PathBuf, usize) {
    let (before, after) = (switch.side("unopened"), switch.side("opened"));
    for side in [&before, &after] {
        let _ = fs::remove_dir_all(side);
        copy(dir, side);
    }
    drop(open(&after).unwrap());
    let begun = WAL_FILES.map(|[copy, _]| differs(&before, &after, copy));
    assert!(begun[0] != begun[1], "an opening begins one file");
    (before, after, usize::from(begun[1]))
}

#[test]
fn cuts_while_opening_that_follow_each_other_lose_nothing() {
    Switch::each(|switch| {
        let random = &mut Random(SEED + switch.written as u64);
        let mut dir = switch.crashed();
        switch.scatter(&dir, CHECKPOINTS[switch.written], random);
        for cut in 0..3 * CUTS {
            let (before, after, other) = opening(switch, &dir);
            dir = switch.side("crashed");
            let _ = fs::remove_dir_all(&dir);
            copy(&before, &dir);
            match cut % 3 {
                // The cut hits while the other checkpoint is advanced or replaced by a copy.
                0 => scatter(&before, &after, &dir, CHECKPOINTS[other], random),
                // The cut hits while the first batch is written to the other file.
                1 => {
                    replace(&after, &dir, CHECKPOINTS[other]);
                    let torn = |copy: &&str| scatter(&before, &after, &dir, copy, random);
                    WAL_FILES[other].iter().for_each(torn);
                }
                // The cut hits while the intact checkpoint is advanced or remade.
                _ => {
                    replace(&after, &dir, CHECKPOINTS[other]);
                    WAL_FILES[other].iter().for_each(|copy| replace(&after, &dir, copy));
                    scatter(&before, &after, &dir, CHECKPOINTS[1 - other], random);
                    if random.coin() {
                        let _ = fs::remove_dir_all(dir.join(CHECKPOINTS[1 - other]));
                    }
                }
            }
            let seen = switch.side("seen");
            let _ = fs::remove_dir_all(&seen);
            copy(&dir, &seen);
            assert_eq!(reopened(&seen).unwrap(), switch.before, "cut {cut}");
        }
    });
}

#[test]
fn an_opening_that_cannot_read_one_checkpoint_leaves_the_intact_one_alone() {
    Switch::each(|switch| {
        let dir = switch.crashed();
        // The checkpoint that an opening opens first is the one that the next switch writes to.
        let unreadable = dir.join(CHECKPOINTS[switch.written]).join("unreadable");
        symlink("unreadable", unreadable).unwrap();
        assert!(matches!(open(&dir).map(drop), Err(StorageError::Io { .. })));
        assert!(!differs(&switch.side("before"), &dir, CHECKPOINTS[1 - switch.written]));
    });
}
