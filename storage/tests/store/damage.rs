//! One flipped bit anywhere in a store that was killed. In a checkpoint or in the write-ahead log it is harmless.
//! Elsewhere it is harmless, or the store is refused.
//!
//! The environment variable `MINTLEAF_HISTORIES` sets how many histories are tried, 8 by default.

use crate::common::{
    CHECKPOINTS, Content, Random, content, copy, files_in, open, quick_dir, records, reopened,
};
use mintleaf_storage::{LogEngine, MetaKey, SledEngine, StorageError};
use std::fs;
use std::path::{Path, PathBuf};

const SEED: u64 = 0x6d69_6e74;
const FLIPS: usize = 30;

fn histories() -> u64 {
    #[expect(clippy::disallowed_methods)] // A test takes its size from the environment.
    let wanted = std::env::var("MINTLEAF_HISTORIES").ok();
    wanted.map_or(8, |wanted| wanted.parse().expect("MINTLEAF_HISTORIES is a number"))
}

/// Up to 90 batches of a random history: values, records of all sizes, truncations, purges.
fn live_on(engine: &SledEngine, random: &mut Random) {
    const KEYS: [MetaKey; 4] = [MetaKey::Vote, MetaKey::Starts, MetaKey::Cluster, MetaKey::Refused];
    for _ in 0..random.below(90) {
        let next = engine.bounds().map_or_else(
            || engine.purge_mark().map_or(1, |(purged, _)| purged + 1),
            |(_, last)| last + 1,
        );
        let value = (random.0 ^ next).to_le_bytes();
        match random.below(12) {
            0 => {
                let back = random.below(6) as u64;
                let floor = engine.purge_mark().map_or(1, |(purged, _)| purged + 1);
                engine.truncate_from(next.saturating_sub(back).max(floor)).unwrap();
            }
            1 => engine
                .purge_upto((next + 1).saturating_sub(random.below(9) as u64), &value)
                .unwrap(),
            2..5 => engine.put_meta(KEYS[random.below(KEYS.len())], &value).unwrap(),
            _ => {
                let size = [20, 20, 20, 3000, 30_000][random.below(5)];
                let record = |index: u64| format!("{index} {}", "x".repeat(size)).into_bytes();
                let count = 1 + random.below(5) as u64;
                engine.append(next, (next..next + count).map(record).collect()).unwrap();
                if random.coin() {
                    engine.put_meta(KEYS[random.below(KEYS.len())], &value).unwrap();
                }
            }
        }
        engine.sync().unwrap();
    }
}

/// A store that was opened and killed several times, and what it acknowledged.
fn killed_store(root: &Path, random: &mut Random) -> (PathBuf, Content) {
    let mut dir = root.join("0");
    for start in 1..=1 + random.below(5) {
        let engine = open(&dir).unwrap();
        live_on(&engine, random);
        let acknowledged = content(&engine);
        let next = engine.bounds().map_or(u64::MAX - 9, |(_, last)| last + 1);
        engine.append(next, records("never synced", 0..3)).unwrap();
        let killed = root.join(start.to_string());
        copy(&dir, &killed);
        drop(engine);
        assert_eq!(reopened(&dir).unwrap(), acknowledged);
        // The history continues from the copy: the state that the kill left, never opened since.
        dir = killed;
    }
    let copied = root.join("copied");
    copy(&dir, &copied);
    let acknowledged = reopened(&copied).unwrap();
    (dir, acknowledged)
}

/// Flips one bit of a file and returns its offset in bits. Most flips hit bytes that are in use.
fn flip(path: &Path, random: &mut Random) -> usize {
    let mut bytes = fs::read(path).unwrap();
    let mut byte = random.below(bytes.len());
    if random.below(8) != 0 {
        let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        byte = *used.get(random.below(used.len().max(1))).unwrap_or(&byte);
    }
    let bit = byte * 8 + random.below(8);
    bytes[byte] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
    bit
}

#[test]
fn flipped_bit_is_harmless_or_refused_in_every_history() {
    println!("seed {SEED:#x}");
    let (mut refused, mut whole) = (0, 0);
    for history in 0..histories() {
        let random = &mut Random(SEED + history);
        let root = quick_dir();
        let (store, acknowledged) = killed_store(root.path(), random);
        let mut files = files_in(&store);
        files.retain(|file| fs::metadata(store.join(file)).unwrap().len() > 0);
        for _ in 0..FLIPS {
            let dir = root.path().join("flipped");
            copy(&store, &dir);
            let file = &files[random.below(files.len())];
            let bit = flip(&dir.join(file), random);
            let what = format!("history {history}, bit {bit} of {}", file.display());
            match reopened(&dir) {
                Ok(found) => {
                    assert_eq!(found, acknowledged, "{what} lost something");
                    whole += 1;
                }
                Err(StorageError::Damaged { .. }) if file == Path::new("identity") => refused += 1,
                Err(error) => panic!("{what}: {error}"),
            }
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    println!("{refused} refused, {whole} harmless");
    assert!(refused > 0 && whole > 10 * refused, "{refused} refused, {whole} harmless");
}

/// The newest vote is in the first batch of a file, the process is killed, and the next incarnation fills one more
/// file. That overwrites the batch with the vote, so only the checkpoints have it.
#[test]
fn no_flipped_bit_brings_an_older_vote_back() {
    let root = quick_dir();
    let [a, b, store, dir] = ["a", "b", "store", "flipped"].map(|name| root.path().join(name));
    let push = |engine: &SledEngine, count| {
        for _ in 0..count {
            let next = engine.bounds().map_or(1, |(_, last)| last + 1);
            engine.append(next, records("record ", next..next + 1)).unwrap();
            engine.sync().unwrap();
        }
    };
    let vote = |engine: &SledEngine, vote: &[u8]| {
        engine.put_meta(MetaKey::Vote, vote).unwrap();
        engine.sync().unwrap();
    };
    for lead in [61, 62, 63] {
        [&a, &b, &store].iter().for_each(|dir| drop(fs::remove_dir_all(dir)));
        let engine = open(&a).unwrap();
        vote(&engine, b"term 1");
        push(&engine, lead);
        vote(&engine, b"term 2");
        copy(&a, &b);
        drop(engine);
        let engine = open(&b).unwrap();
        push(&engine, 66);
        let acknowledged = content(&engine);
        copy(&b, &store);
        drop(engine);
        for checkpoint in CHECKPOINTS {
            let db = Path::new(checkpoint).join("db");
            let bytes = fs::read(store.join(&db)).unwrap();
            let used = (0..bytes.len()).filter(|at| bytes[*at] != 0);
            for at in used.step_by(101) {
                copy(&store, &dir);
                let mut bad = bytes.clone();
                bad[at] ^= 1 << (at % 8);
                fs::write(dir.join(&db), bad).unwrap();
                assert_eq!(reopened(&dir).unwrap(), acknowledged, "byte {at} of {}", db.display());
                fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
}
