//! Directories of release 0.1, each left by a kill. They open with everything that they hold, even if the power goes
//! repeatedly while they are taken over.
//!
//! `release-0.1/` has them packed, as that release wrote them; [`unpack`] describes the format. `DESIGN.md`,
//! "Directories of release 0.1", explains what a *shell* is.

use crate::common::{
    CHECKPOINTS, Random, WAL_FILES, content, copy, differs, open, quick_dir, records, reopened,
    replace, scatter,
};
use mintleaf_storage::{LogEngine, MetaKey, StorageError};
use std::fs;
use std::path::Path;

/// The content of a directory: first and last index, the index purged, the vote, the cluster.
struct Known {
    name: &'static str,
    packed: &'static [u8],
    bounds: Option<(u64, u64)>,
    purged: Option<u64>,
    vote: Option<&'static str>,
    cluster: Option<&'static str>,
}

macro_rules! known {
    ($name:literal, $bounds:expr, $purged:expr, $vote:expr, $cluster:expr) => {
        Known {
            name: $name,
            packed: include_bytes!(concat!("release-0.1/", $name)),
            bounds: $bounds,
            purged: $purged,
            vote: $vote,
            cluster: $cluster,
        }
    };
}

const ONE: Option<&str> = Some("term 1");
const TWO: Option<&str> = Some("term 2");

const KNOWN: [Known; 8] = [
    known!("made", None, None, None, None),
    // The directory has seen several starts, a truncation, a purge and values.
    known!("busy", Some((26, 62)), Some(25), TWO, Some("c")),
    // The vote is in the newest batch, which is the first of its file.
    known!("vote-first", Some((1, 62)), None, TWO, None),
    // After another start, one file has the batch with the vote and the other has its shell.
    known!("shell-beside", Some((1, 62)), None, TWO, None),
    // One file later only the shell is left, and sled's own manifest.
    known!("shell-alone", Some((1, 128)), None, TWO, None),
    // The first batch of a file is a purge, which has no value either.
    known!("purge-first", Some((41, 62)), Some(40), ONE, None),
    known!("purge-first-and-more", Some((41, 64)), Some(40), ONE, None),
    known!("purge-shell", Some((41, 64)), Some(40), ONE, None),
];

/// Takes a number off the front of a packed directory.
fn number(packed: &mut &[u8]) -> usize {
    let (number, rest) = packed.split_first_chunk::<4>().unwrap();
    *packed = rest;
    u32::from_le_bytes(*number) as usize
}

/// Writes the files of a packed directory. A packed file is the length of its path, the length of its pieces, its
/// path, and its pieces. A piece is a kind, a length and its data: `=` has that many bytes, `*` one byte to repeat
/// that many times, `^` nothing, since it repeats that many of the bytes before, and `@` the path of a file with the
/// same content.
fn unpack(mut packed: &[u8], dir: &Path) {
    while !packed.is_empty() {
        let (path, len) = (number(&mut packed), number(&mut packed));
        let (path, rest) = packed.split_at(path);
        let (mut pieces, rest) = rest.split_at(len);
        packed = rest;
        let mut file = Vec::new();
        while let Some((kind, rest)) = pieces.split_first() {
            pieces = rest;
            let len = number(&mut pieces);
            let taken = match kind {
                b'*' => 1,
                b'^' => 0,
                _ => len,
            };
            let (taken, rest) = pieces.split_at(taken);
            pieces = rest;
            match kind {
                b'=' => file.extend_from_slice(taken),
                b'*' => file.resize(file.len() + len, taken[0]),
                b'^' => file.extend_from_within(file.len() - len..),
                _ => file = fs::read(dir.join(str::from_utf8(taken).unwrap())).unwrap(),
            }
        }
        let path = dir.join(str::from_utf8(path).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
}

impl Known {
    fn check(&self, dir: &Path, what: &str) -> Result<(), StorageError> {
        let engine = open(dir)?;
        let value =
            |key| engine.get_meta(key).unwrap().map(|value| String::from_utf8(value).unwrap());
        let what = format!("{}, {what}", self.name);
        assert_eq!(engine.bounds(), self.bounds, "{what}");
        assert_eq!(engine.purge_mark().map(|(index, _)| index), self.purged, "{what}");
        assert_eq!(value(MetaKey::Vote).as_deref(), self.vote, "{what}");
        assert_eq!(value(MetaKey::Cluster).as_deref(), self.cluster, "{what}");
        if let Some((first, last)) = self.bounds {
            let expected = records("record ", first..last + 1);
            assert_eq!(engine.read(first..last + 1, usize::MAX).unwrap(), expected, "{what}");
        }
        Ok(())
    }
}

#[test]
fn directories_of_release_0_1_open_and_go_on() {
    for known in KNOWN {
        let dir = quick_dir();
        unpack(known.packed, dir.path());
        for start in 1..4 {
            known.check(dir.path(), &format!("start {start}")).unwrap();
        }
        assert!(!dir.path().join("log").exists());
        let engine = open(dir.path()).unwrap();
        let next = engine.bounds().map_or(1, |(_, last)| last + 1);
        for index in next..next + 200 {
            engine.append(index, records("later", index..index + 1)).unwrap();
            engine.sync().unwrap();
        }
        let expected = content(&engine);
        drop(engine);
        assert_eq!(reopened(dir.path()).unwrap(), expected);
    }
}

#[test]
fn cuts_while_a_directory_is_taken_over_lose_nothing() {
    for known in KNOWN {
        let root = quick_dir();
        let [before, after, dir] =
            ["before", "after", "crashed"].map(|name| root.path().join(name));
        unpack(known.packed, &before);
        copy(&before, &after);
        drop(open(&after).unwrap());
        let other = WAL_FILES.iter().position(|[copy, _]| differs(&before, &after, copy)).unwrap();
        let (other_log, intact_log) = (CHECKPOINTS[other], CHECKPOINTS[1 - other]);
        // The opening has renamed the database and done nothing else.
        fs::rename(before.join("log"), before.join(intact_log)).unwrap();
        let random = &mut Random(other as u64);
        for cut in 0..24 {
            let _ = fs::remove_dir_all(&dir);
            copy(&before, &dir);
            match cut % 4 {
                0 if cut == 0 => {}
                0 => {
                    // The cut hits while the database is copied.
                    copy(&dir.join(intact_log), &before.join("copy"));
                    scatter(&root.path().join("nothing"), &before, &dir, "copy", random);
                    fs::remove_dir_all(before.join("copy")).unwrap();
                    let _ = fs::rename(dir.join("copy"), dir.join(format!("{other_log}.tmp")));
                }
                1 => {
                    // The cut hits while the copy is advanced.
                    copy(&dir.join(intact_log), &dir.join(other_log));
                    let copied = root.path().join("copied");
                    copy(&dir, &copied);
                    scatter(&copied, &after, &dir, other_log, random);
                    fs::remove_dir_all(copied).unwrap();
                }
                2 => {
                    // The cut hits while the other file is begun.
                    replace(&after, &dir, other_log);
                    let torn = |copy: &&str| scatter(&before, &after, &dir, copy, random);
                    WAL_FILES[other].iter().for_each(torn);
                }
                _ => {
                    // The cut hits while the original is advanced.
                    replace(&after, &dir, other_log);
                    WAL_FILES[other].iter().for_each(|copy| replace(&after, &dir, copy));
                    scatter(&before, &after, &dir, intact_log, random);
                }
            }
            known.check(&dir, &format!("cut {cut}")).unwrap();
        }
    }
}

#[test]
fn flipped_bit_in_a_directory_of_release_0_1_is_harmless_or_refused() {
    let (mut refused, mut whole) = (0, 0);
    for known in KNOWN {
        let root = quick_dir();
        let [store, dir] = ["store", "flipped"].map(|name| root.path().join(name));
        unpack(known.packed, &store);
        let bytes = fs::read(store.join("log/db")).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != bytes[bytes.len() - 1]).unwrap_or(0);
        for at in (0..=end).step_by(end / 60 + 1) {
            let _ = fs::remove_dir_all(&dir);
            copy(&store, &dir);
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(dir.join("log/db"), bad).unwrap();
            match known.check(&dir, &format!("byte {at}")) {
                Ok(()) => whole += 1,
                Err(StorageError::Damaged { .. }) => refused += 1,
                Err(error) => panic!("{}, byte {at}: {error}", known.name),
            }
        }
    }
    println!("{refused} refused, {whole} harmless");
    assert!(refused > 20 && whole > 20, "{refused} refused, {whole} harmless");
}
