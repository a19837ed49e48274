use mintleaf_storage::{DataDir, SNAPSHOT_META_BYTES_MAX, Snapshots, StorageError};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use tempfile::{TempDir, tempdir};

fn snapshots() -> (TempDir, Snapshots) {
    let dir = tempdir().unwrap();
    let snapshots = reopened(&dir);
    (dir, snapshots)
}

fn reopened(dir: &TempDir) -> Snapshots {
    Snapshots::open(&DataDir::open(dir.path(), 1).unwrap()).unwrap()
}

fn write(snapshots: &Snapshots, meta: &[u8], body: &[u8]) {
    snapshots.write(meta, &mut |out| out.write_all(body)).unwrap();
}

fn whole(mut input: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn snapshot_bytes_never_change() {
    let (dir, snapshots) = snapshots();
    write(&snapshots, b"meta", b"body!");
    let golden =
        [&b"MLSN\x01\x04\0\0\0metabody!"[..], &[5, 0, 0, 0, 0, 0, 0, 0], &[0xfb, 0xd8, 0x2f, 0xcf]];
    assert_eq!(fs::read(dir.path().join("snapshot/current")).unwrap(), golden.concat());
}

#[test]
fn latest_is_the_one_written_last_and_older_ones_stay_readable() {
    let (dir, snapshots) = snapshots();
    assert!(snapshots.latest().unwrap().is_none());
    let large = vec![7; 1 << 20];
    write(&snapshots, b"one", &large);
    let one = snapshots.latest().unwrap().unwrap();
    write(&snapshots, b"", b"");
    let two = snapshots.latest().unwrap().unwrap();
    assert_eq!((two.meta.as_slice(), whole(two.body())), (&b""[..], vec![]));
    assert_eq!((one.meta.as_slice(), whole(one.body())), (&b"one"[..], large));
    assert_eq!(fs::read_dir(dir.path().join("snapshot")).unwrap().count(), 1);
}

#[test]
fn body_and_file_are_read_independently() {
    let (_dir, snapshots) = snapshots();
    write(&snapshots, b"m", b"body");
    let snapshot = snapshots.latest().unwrap().unwrap();
    assert_eq!(whole(snapshot.body()), b"body");
    assert!(whole(&snapshot.file).starts_with(b"MLSN"));
    assert_eq!(whole(snapshot.body()), b"body");
}

#[test]
fn received_file_is_installed_once_it_is_whole() {
    let (_dir, sender) = snapshots();
    write(&sender, b"meta", b"0123456789");
    let sent = whole(sender.latest().unwrap().unwrap().file);

    let (dir, receiver) = snapshots();
    write(&receiver, b"old", b"old");
    let mut temp = receiver.create().unwrap();
    temp.write_all(&sent[..9]).unwrap();
    temp.seek(SeekFrom::Start(9)).unwrap();
    temp.write_all(&sent[9..]).unwrap();
    temp.rewind().unwrap();
    assert_eq!(whole(&mut temp), sent);
    receiver.install(temp).unwrap();
    let installed = receiver.latest().unwrap().unwrap();
    assert_eq!(
        (installed.meta.as_slice(), whole(installed.body())),
        (&b"meta"[..], b"0123456789".to_vec())
    );
    assert_eq!(fs::read_dir(dir.path().join("snapshot")).unwrap().count(), 1);
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let (dir, snapshots) = snapshots();
    write(&snapshots, b"meta", b"some body");
    let good = whole(snapshots.latest().unwrap().unwrap().file);
    let cuts = (0..good.len()).map(|len| good[..len].to_vec());
    let flips = (0..good.len() * 8).map(|bit| {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        bad
    });
    for bad in cuts.chain(flips) {
        let mut temp = snapshots.create().unwrap();
        temp.write_all(&bad).unwrap();
        let refused = snapshots.install(temp);
        assert!(matches!(refused, Err(StorageError::BadSnapshot { .. })), "{bad:?}");
        assert_eq!(whole(snapshots.latest().unwrap().unwrap().file), good);
    }
    drop(snapshots);
    fs::write(dir.path().join("snapshot/current"), &good[1..]).unwrap();
    assert!(matches!(reopened(&dir).latest(), Err(StorageError::Damaged { .. })));
}

#[test]
fn failed_writer_leaves_the_current_snapshot() {
    let (dir, snapshots) = snapshots();
    write(&snapshots, b"good", b"good");
    let failed = snapshots.write(b"bad", &mut |out| {
        out.write_all(b"half")?;
        Err(io::Error::other("no more"))
    });
    assert!(matches!(failed, Err(StorageError::Io { .. })));
    let long = vec![0; SNAPSHOT_META_BYTES_MAX + 1];
    let failed = snapshots.write(&long, &mut |_| Ok(()));
    assert!(matches!(failed, Err(StorageError::TooLarge { .. })));
    assert_eq!(snapshots.latest().unwrap().unwrap().meta, b"good");
    assert_eq!(fs::read_dir(dir.path().join("snapshot")).unwrap().count(), 1);
}

#[test]
fn open_removes_what_unfinished_writers_left() {
    let (dir, snapshots) = snapshots();
    let mut temp = snapshots.create().unwrap();
    temp.write_all(b"half").unwrap();
    std::mem::forget(temp);
    drop(snapshots);
    let snapshots = Snapshots::open(&DataDir::open(dir.path(), 1).unwrap()).unwrap();
    assert!(snapshots.latest().unwrap().is_none());
    assert_eq!(fs::read_dir(dir.path().join("snapshot")).unwrap().count(), 0);
}
