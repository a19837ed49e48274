use std::collections::BTreeSet;

use super::settle::PENDING_BYTES_MAX;
use super::*;
use crate::cut::Cut;

fn disk(strictness: Strictness) -> Disk {
    Disk::new(strictness, 1 << 20)
}

/// A disk with one synced file that holds `old`: the start of most tests.
fn disk_with_file(strictness: Strictness) -> (Disk, Ino) {
    let mut disk = disk(strictness);
    let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
    disk.write(ino, 0, b"old").unwrap();
    disk.sync(ino, false).unwrap();
    disk.sync(ROOT, false).unwrap();
    (disk, ino)
}

fn content(disk: &Disk, path: &str) -> Option<Vec<u8>> {
    let (_, ino) = disk.paths().into_iter().find(|(at, _)| at == path)?;
    Some(disk.read(ino, 0, usize::MAX).unwrap().to_vec())
}

const BOTH: [Strictness; 2] = [Strictness::Strict, Strictness::Journal];

#[test]
fn unsynced_writes_are_read_and_lost() {
    for strictness in BOTH {
        let (mut disk, ino) = disk_with_file(strictness);
        disk.write(ino, 3, b" and new").unwrap();
        assert_eq!(content(&disk, "file").unwrap(), b"old and new");
        assert_eq!(disk.unsynced(), (1, 8));
        assert_eq!(disk.cut(Cut::Lose, 0), 1);
        assert_eq!(content(&disk, "file").unwrap(), b"old");
        assert_eq!(disk.unsynced(), (0, 0));
    }
}

#[test]
fn synced_writes_survive_every_cut() {
    for (strictness, seed) in BOTH.into_iter().flat_map(|s| (0..50).map(move |n| (s, n))) {
        let (mut disk, ino) = disk_with_file(strictness);
        disk.write(ino, 0, b"new").unwrap();
        disk.sync(ino, true).unwrap();
        disk.write(ino, 3, b"er").unwrap();
        let cut = [Cut::Lose, Cut::Tear, Cut::Scatter][seed as usize % 3];
        disk.cut(cut, seed);
        assert!(content(&disk, "file").unwrap().starts_with(b"new"), "seed {seed}");
    }
}

#[test]
fn strict_disk_wants_the_sync_of_the_directory_for_a_new_name() {
    let mut disk = disk(Strictness::Strict);
    let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
    disk.write(ino, 0, b"bytes").unwrap();
    disk.sync(ino, false).unwrap();
    disk.cut(Cut::Lose, 0);
    assert_eq!(content(&disk, "file"), None);
}

#[test]
fn journal_commits_a_new_name_with_the_file() {
    for data_only in [false, true] {
        let mut disk = disk(Strictness::Journal);
        let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
        disk.write(ino, 0, b"bytes").unwrap();
        disk.sync(ino, data_only).unwrap();
        disk.cut(Cut::Lose, 0);
        assert_eq!(content(&disk, "file").unwrap(), b"bytes");
    }
}

#[test]
fn fdatasync_of_an_overwrite_commits_no_journal() {
    let (mut disk, ino) = disk_with_file(Strictness::Journal);
    disk.create(ROOT, "other", false, 0o644).unwrap();
    disk.write(ino, 0, b"new").unwrap();
    disk.sync(ino, true).unwrap();
    disk.cut(Cut::Lose, 0);
    assert_eq!(content(&disk, "file").unwrap(), b"new");
    assert_eq!(content(&disk, "other"), None);
}

#[test]
fn name_without_the_bytes_is_an_empty_file() {
    for strictness in BOTH {
        let mut disk = disk(strictness);
        let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
        disk.write(ino, 0, b"bytes").unwrap();
        disk.sync(ROOT, false).unwrap();
        disk.cut(Cut::Lose, 0);
        assert_eq!(content(&disk, "file").unwrap(), b"");
    }
}

#[test]
fn rename_is_lost_or_whole() {
    for synced in [false, true] {
        let (mut disk, _) = disk_with_file(Strictness::Strict);
        let temp = disk.create(ROOT, "temp", false, 0o644).unwrap();
        disk.write(temp, 0, b"new").unwrap();
        disk.sync(temp, false).unwrap();
        disk.rename((ROOT, "temp"), (ROOT, "file")).unwrap();
        assert_eq!(content(&disk, "file").unwrap(), b"new");
        if synced {
            disk.sync(ROOT, false).unwrap();
        }
        disk.cut(Cut::Lose, 0);
        let expected: &[u8] = if synced { b"new" } else { b"old" };
        assert_eq!(content(&disk, "file").unwrap(), expected);
        assert_eq!(content(&disk, "temp"), None);
    }
}

#[test]
fn rename_between_directories_brings_what_it_builds_upon() {
    let mut disk = disk(Strictness::Strict);
    let [from, to] = ["from", "to"].map(|name| disk.create(ROOT, name, true, 0o755).unwrap());
    disk.sync(ROOT, false).unwrap();
    let file = disk.create(from, "file", false, 0o644).unwrap();
    disk.sync(file, false).unwrap();
    disk.rename((from, "file"), (to, "file")).unwrap();
    disk.sync(to, false).unwrap();
    disk.sync(from, false).unwrap();
    disk.cut(Cut::Lose, 0);
    assert_eq!(content(&disk, "from/file"), None);
    assert_eq!(content(&disk, "to/file").unwrap(), b"");
}

#[test]
fn removed_file_returns_when_its_directory_was_not_synced() {
    let (mut disk, ino) = disk_with_file(Strictness::Strict);
    disk.open(ino).unwrap();
    disk.remove(ROOT, "file", false).unwrap();
    disk.write(ino, 0, b"new").unwrap();
    disk.close(ino);
    disk.cut(Cut::Lose, 0);
    assert_eq!(content(&disk, "file").unwrap(), b"old");
}

#[test]
fn removed_file_is_forgotten_once_durable_and_closed() {
    let (mut disk, ino) = disk_with_file(Strictness::Strict);
    disk.open(ino).unwrap();
    disk.remove(ROOT, "file", false).unwrap();
    disk.sync(ROOT, false).unwrap();
    disk.write(ino, 0, b"new").unwrap();
    assert_eq!(disk.read(ino, 0, 9).unwrap(), b"new");
    disk.close(ino);
    assert!(disk.read(ino, 0, 9).is_err());
    assert_eq!(disk.unsynced(), (0, 0));
}

#[test]
fn torn_write_ends_in_its_middle() {
    let old = vec![1; 8192];
    let mut torn = 0;
    let mut within_a_sector = 0;
    for seed in 0..200 {
        let (mut disk, ino) = disk_with_file(Strictness::Strict);
        disk.write(ino, 0, &old).unwrap();
        disk.sync(ino, true).unwrap();
        disk.write(ino, 0, &[2; 8192]).unwrap();
        disk.cut(Cut::Tear, seed);
        let found = content(&disk, "file").unwrap();
        let new = found.iter().take_while(|&&byte| byte == 2).count();
        assert!(found[new..].iter().all(|&byte| byte == 1), "seed {seed}");
        torn += usize::from((1..8192).contains(&new));
        within_a_sector += usize::from(new % 512 != 0);
    }
    assert!(torn > 50 && within_a_sector > 5, "{torn} {within_a_sector}");
}

#[test]
fn tear_keeps_the_order_and_scatter_does_not() {
    let survivors = |cut, seed| {
        let (mut disk, ino) = disk_with_file(Strictness::Strict);
        let other = disk.create(ROOT, "other", false, 0o644).unwrap();
        disk.sync(ROOT, false).unwrap();
        disk.write(ino, 0, b"A").unwrap();
        disk.write(other, 0, b"B").unwrap();
        disk.cut(cut, seed);
        let first = content(&disk, "file").unwrap() == b"Ald";
        let second = content(&disk, "other").unwrap() == b"B";
        (first, second)
    };
    let all = |cut| (0..100).map(|seed| survivors(cut, seed)).collect::<BTreeSet<_>>();
    assert!(!all(Cut::Tear).contains(&(false, true)));
    assert_eq!(all(Cut::Scatter).len(), 4);
}

#[test]
fn scattered_page_is_as_it_was_at_one_moment() {
    for seed in 0..200 {
        let (mut disk, ino) = disk_with_file(Strictness::Strict);
        disk.write(ino, 0, b"one").unwrap();
        disk.write(ino, 3, b"two").unwrap();
        disk.cut(Cut::Scatter, seed);
        let found = content(&disk, "file").unwrap();
        let moments: [&[u8]; 3] = [b"old", b"one", b"onetwo"];
        assert!(moments.contains(&found.as_slice()), "seed {seed}: {found:?}");
    }
}

#[test]
fn same_seed_cuts_the_same() {
    for cut in [Cut::Tear, Cut::Scatter] {
        let run = |seed| {
            let (mut disk, ino) = disk_with_file(Strictness::Journal);
            for n in 0..20_u8 {
                disk.write(ino, u64::from(n) * 700, &[n; 900]).unwrap();
            }
            disk.cut(cut, seed);
            content(&disk, "file")
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}

#[test]
fn flip_changes_one_bit_for_good() {
    let (mut disk, _) = disk_with_file(Strictness::Strict);
    let flipped = disk.flip(Some("fi*"), 3).unwrap();
    let changed = content(&disk, "file").unwrap();
    let bits: u32 = changed.iter().zip(b"old").map(|(new, old)| (new ^ old).count_ones()).sum();
    assert_eq!((bits, flipped.path.as_str()), (1, "file"));
    disk.cut(Cut::Lose, 0);
    assert_eq!(content(&disk, "file").unwrap(), changed);
    assert_eq!(disk.flip(Some("nothing"), 3), None);
}

#[test]
fn full_disk_takes_overwrites_only() {
    let mut disk = Disk::new(Strictness::Strict, 10);
    let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
    disk.write(ino, 0, &[1; 10]).unwrap();
    assert!(matches!(disk.write(ino, 5, &[2; 6]), Err(errno) if errno == Errno::ENOSPC));
    disk.write(ino, 5, &[2; 5]).unwrap();
    disk.resize(ino, 2).unwrap();
    disk.write(ino, 2, &[3; 8]).unwrap();
}

#[test]
fn old_changes_become_durable_when_too_many_wait() {
    let mut disk = Disk::new(Strictness::Strict, 1 << 30);
    let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
    disk.sync(ROOT, false).unwrap();
    let block = vec![7; PENDING_BYTES_MAX / 4];
    for n in 0..6 {
        disk.write(ino, n * block.len() as u64, &block).unwrap();
        assert!(disk.unsynced().1 <= PENDING_BYTES_MAX);
    }
    disk.cut(Cut::Lose, 0);
    assert_eq!(content(&disk, "file").unwrap().len(), 2 * block.len());
}

#[test]
fn names_follow_the_rules_of_directories() {
    let (mut disk, _) = disk_with_file(Strictness::Strict);
    let dir = disk.create(ROOT, "dir", true, 0o755).unwrap();
    disk.create(dir, "inner", false, 0o644).unwrap();
    let refused = |result: Result<(), Errno>, expected: Errno| result.unwrap_err() == expected;
    assert!(refused(disk.remove(ROOT, "dir", true), Errno::ENOTEMPTY));
    assert!(refused(disk.remove(ROOT, "dir", false), Errno::EISDIR));
    assert!(refused(disk.remove(ROOT, "file", true), Errno::ENOTDIR));
    assert!(refused(disk.remove(ROOT, "none", false), Errno::ENOENT));
    assert!(refused(disk.create(ROOT, "file", false, 0).map(drop), Errno::EEXIST));
    assert!(refused(disk.rename((ROOT, "file"), (ROOT, "dir")), Errno::ENOTEMPTY));
    disk.remove(dir, "inner", false).unwrap();
    disk.remove(ROOT, "dir", true).unwrap();
}
