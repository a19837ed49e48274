//! Power cuts while a checkpoint is written or opened: of what that changes every name, length and
//! sector may be left as it was before or after, or be gone; the other checkpoint is not touched.

use crate::common::{
    CHECKPOINTS, Content, Random, SEGMENTS, content, copy, differs, is_damaged, open, quick_dir,
    reopened, replace, scatter,
};
use mintleaf_storage::{LogEngine, MetaKey, SledEngine, StorageError};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SEED: u64 = 0x706f_7765;
/// Power cuts that each crash point is tried with.
const CUTS: usize = 6;

/// One sync that filled the last segment, with the directory on either side. Four groups fill one.
struct Turn {
    root: TempDir,
    before: Content,
    after: Content,
    /// The checkpoint that was written, and the segment that was begun.
    written: usize,
}

/// One step of a history: a group that is large, and now and then something else.
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

impl Turn {
    /// The turns of a history: three of them, each with another checkpoint.
    fn each(then: impl Fn(&Turn)) {
        let root = quick_dir();
        let (live, dir) = (root.path().join("live"), |name: &str| root.path().join(name));
        let engine = open(&live).unwrap();
        let mut turns = 0;
        for number in 1..40 {
            let before = content(&engine);
            let _ = fs::remove_dir_all(dir("before"));
            copy(&live, &dir("before"));
            step(&engine, number);
            let written = CHECKPOINTS.map(|name| differs(&live, &dir("before"), name));
            let Some(written) = written.iter().position(|written| *written) else { continue };
            let turn = Turn { root: quick_dir(), before, after: content(&engine), written };
            copy(&dir("before"), &turn.side("before"));
            copy(&live, &turn.side("after"));
            then(&turn);
            turns += 1;
        }
        assert!(turns >= 3, "{turns} turns");
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

/// Leaves of a checkpoint what no database is.
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
    Turn::each(|turn| {
        let random = &mut Random(SEED + turn.written as u64);
        for _ in 0..CUTS {
            let dir = turn.crashed();
            turn.scatter(&dir, CHECKPOINTS[turn.written], random);
            assert_eq!(reopened(&dir).unwrap(), turn.before);
            let dir = turn.crashed();
            spoil(&dir.join(CHECKPOINTS[turn.written]), random);
            assert_eq!(reopened(&dir).unwrap(), turn.before);
        }
    });
}

#[test]
fn cut_while_the_other_segment_is_begun_loses_nothing() {
    Turn::each(|turn| {
        let random = &mut Random(SEED);
        for _ in 0..CUTS {
            let dir = turn.crashed();
            replace(&turn.side("after"), &dir, CHECKPOINTS[turn.written]);
            assert_eq!(reopened(&dir).unwrap(), turn.before);
            let dir = turn.crashed();
            replace(&turn.side("after"), &dir, CHECKPOINTS[turn.written]);
            SEGMENTS[turn.written].iter().for_each(|copy| turn.scatter(&dir, copy, random));
            let found = reopened(&dir).unwrap();
            assert!(found == turn.before || found == turn.after);
        }
    });
}

#[test]
fn either_checkpoint_may_be_scrap_but_not_both() {
    Turn::each(|turn| {
        let random = &mut Random(SEED);
        for scrap in CHECKPOINTS {
            let dir = turn.crashed();
            spoil(&dir.join(scrap), random);
            assert_eq!(reopened(&dir).unwrap(), turn.before, "{scrap}");
            assert_eq!(reopened(&dir).unwrap(), turn.before, "{scrap} made anew");
        }
        let dir = turn.crashed();
        CHECKPOINTS
            .iter()
            .for_each(|scrap| fs::write(dir.join(scrap).join("db"), [7; 999]).unwrap());
        assert!(is_damaged(&reopened(&dir)));
    });
}

/// What one opening changes, in the order in which it does: the other checkpoint, the other segment, and
/// the checkpoint that was whole. Returns the directory before and after, and the number of the other.
fn opening(turn: &Turn, dir: &Path) -> (PathBuf, PathBuf, usize) {
    let (before, after) = (turn.side("unopened"), turn.side("opened"));
    for side in [&before, &after] {
        let _ = fs::remove_dir_all(side);
        copy(dir, side);
    }
    drop(open(&after).unwrap());
    let begun = SEGMENTS.map(|[copy, _]| differs(&before, &after, copy));
    assert!(begun[0] != begun[1], "an opening begins one segment");
    (before, after, usize::from(begun[1]))
}

#[test]
fn cuts_while_opening_that_follow_each_other_lose_nothing() {
    Turn::each(|turn| {
        let random = &mut Random(SEED + turn.written as u64);
        let mut dir = turn.crashed();
        turn.scatter(&dir, CHECKPOINTS[turn.written], random);
        for cut in 0..3 * CUTS {
            let (before, after, other) = opening(turn, &dir);
            dir = turn.side("crashed");
            let _ = fs::remove_dir_all(&dir);
            copy(&before, &dir);
            match cut % 3 {
                // While the other checkpoint is brought up, or a copy of the whole one takes its place.
                0 => scatter(&before, &after, &dir, CHECKPOINTS[other], random),
                1 => {
                    replace(&after, &dir, CHECKPOINTS[other]);
                    let torn = |copy: &&str| scatter(&before, &after, &dir, copy, random);
                    SEGMENTS[other].iter().for_each(torn);
                }
                // While the one that was whole is brought up, or made anew.
                _ => {
                    replace(&after, &dir, CHECKPOINTS[other]);
                    SEGMENTS[other].iter().for_each(|copy| replace(&after, &dir, copy));
                    scatter(&before, &after, &dir, CHECKPOINTS[1 - other], random);
                    if random.coin() {
                        let _ = fs::remove_dir_all(dir.join(CHECKPOINTS[1 - other]));
                    }
                }
            }
            let seen = turn.side("seen");
            let _ = fs::remove_dir_all(&seen);
            copy(&dir, &seen);
            assert_eq!(reopened(&seen).unwrap(), turn.before, "cut {cut}");
        }
    });
}

#[test]
fn an_opening_that_cannot_read_one_checkpoint_leaves_the_whole_one_alone() {
    Turn::each(|turn| {
        let dir = turn.crashed();
        // What is being opened first: the one that the next turn writes.
        let unreadable = dir.join(CHECKPOINTS[turn.written]).join("unreadable");
        symlink("unreadable", unreadable).unwrap();
        assert!(matches!(open(&dir).map(drop), Err(StorageError::Io { .. })));
        assert!(!differs(&turn.side("before"), &dir, CHECKPOINTS[1 - turn.written]));
    });
}
