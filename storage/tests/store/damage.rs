//! One flipped bit, anywhere in a store that was not closed: it opens with everything that was
//! acknowledged, or not at all.

use crate::common::{Content, content, copy, open, records, reopened};
use mintleaf_storage::{LogEngine, MetaKey, StorageError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const SEED: u64 = 0x6d69_6e74;
const FLIPS: usize = 300;

/// Splitmix: enough for choosing offsets.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// A store with a history: several opens, purges, truncations, and a log of some sled segments.
/// Returns what it had acknowledged when `to` was copied from it.
fn crashed_store(to: &Path) -> Content {
    let live = tempdir().unwrap();
    for round in 0..4 {
        let engine = open(live.path()).unwrap();
        for batch in 0..20 {
            let next = engine.bounds().map_or(1, |(_, last)| last + 1);
            let payload = |index| format!("{index} {}", "x".repeat(1500)).into_bytes();
            engine.append(next, (next..next + 10).map(payload).collect()).unwrap();
            engine.put_meta(MetaKey::Vote, format!("{round}.{batch}").as_bytes()).unwrap();
            engine.sync().unwrap();
        }
        let (first, last) = engine.bounds().unwrap();
        engine.truncate_from(last - 15).unwrap();
        engine.purge_upto(first + 40, b"mark").unwrap();
    }
    let engine = open(live.path()).unwrap();
    let next = engine.bounds().unwrap().1 + 1;
    engine.append(next, records("last", next..next + 3)).unwrap();
    engine.sync().unwrap();
    let acknowledged = content(&engine);
    engine.append(next + 3, records("never synced", 0..3)).unwrap();
    copy(live.path(), to);
    acknowledged
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_in(&path));
        } else if fs::metadata(&path).unwrap().len() > 0 {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Flips one bit and returns its offset in bits. Half of the flips hit bytes that are in use.
fn flip(path: &Path, random: &mut Random) -> usize {
    let mut bytes = fs::read(path).unwrap();
    let mut byte = random.below(bytes.len());
    if random.below(2) == 0 {
        byte = (byte..bytes.len()).find(|at| bytes[*at] != 0).unwrap_or(byte);
    }
    let bit = byte * 8 + random.below(8);
    bytes[byte] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
    bit
}

#[test]
fn flipped_bit_is_refused_or_harmless_and_never_loses_an_acknowledged_record() {
    println!("seed {SEED:#x}");
    let mut random = Random(SEED);
    let root = tempdir().unwrap();
    let store = root.path().join("store");
    let acknowledged = crashed_store(&store);
    let files = files_in(&store);
    assert!(files.len() >= 5, "{files:?}");
    let (mut refused, mut whole) = (0, 0);
    for flipped in 0..FLIPS {
        let dir = root.path().join(format!("flip{flipped}"));
        copy(&store, &dir);
        // Two of three hit sled's file.
        let file = match flipped % 3 {
            0 => files[random.below(files.len())].strip_prefix(&store).unwrap(),
            _ => Path::new("log/db"),
        };
        let bit = flip(&dir.join(file), &mut random);
        match reopened(&dir) {
            Ok(found) if found == acknowledged => whole += 1,
            Err(StorageError::Damaged { .. }) => refused += 1,
            Ok(_) => panic!("bit {bit} of {} lost something", file.display()),
            Err(error) => panic!("bit {bit} of {}: {error}", file.display()),
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    println!("{refused} refused, {whole} harmless");
    assert!(refused > FLIPS / 10 && whole > FLIPS / 10, "{refused} refused, {whole} harmless");
}
