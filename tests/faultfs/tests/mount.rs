//! The mounted disk, as a program sees it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mintleaf_faultfs::{Control, Device, Disk, Mounted, Strictness, serve_control, why_not};
use tempfile::TempDir;

/// A mounted disk; or `None`, with a message that the test is skipped, if mounts do not work here.
fn mounted() -> Option<(Mounted, TempDir)> {
    if let Some(why) = why_not() {
        eprintln!("SKIPPED: {why}");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let device = Device::new(Disk::new(Strictness::Strict, 64 << 20));
    Some((Mounted::new(device, &dir.path().join("disk")).unwrap(), dir))
}

fn write_synced(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

#[test]
fn program_reads_what_it_wrote_and_a_cut_leaves_what_it_synced() {
    let Some((disk, _dir)) = mounted() else { return };
    let path = disk.path().join("a/b/file");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for dir in ["a/b", "a", ""] {
        File::open(disk.path().join(dir)).unwrap().sync_all().unwrap();
    }
    let long: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    write_synced(&path, &long);
    File::options().write(true).open(&path).unwrap().write_all_at(b"unsynced", 500_000).unwrap();
    fs::write(disk.path().join("other"), b"unsynced").unwrap();
    assert_ne!(fs::read(&path).unwrap(), long);
    disk.device().run("cut lose").unwrap();
    assert_eq!(fs::read(&path).unwrap(), long);
    let names: Vec<_> =
        fs::read_dir(disk.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
}

#[test]
fn file_is_replaced_by_rename_and_its_reader_keeps_the_old_one() {
    let Some((disk, _dir)) = mounted() else { return };
    let (path, temp) = (disk.path().join("file"), disk.path().join("temp"));
    write_synced(&path, b"old");
    let reader = File::open(&path).unwrap();
    write_synced(&temp, b"newer");
    fs::rename(&temp, &path).unwrap();
    let mut old = [0; 3];
    reader.read_exact_at(&mut old, 0).unwrap();
    assert_eq!(&old, b"old");
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    assert!(!temp.exists());
    disk.device().run("cut lose").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read(&temp).unwrap(), b"newer");
}

#[test]
fn locks_hold_between_handles() {
    let Some((disk, _dir)) = mounted() else { return };
    let path = disk.path().join("lock");
    let first = File::create(&path).unwrap();
    first.try_lock().unwrap();
    assert!(File::open(&path).unwrap().try_lock().is_err());
    drop(first);
    // The kernel reports a closed handle after the call has returned.
    let deadline = Instant::now() + Duration::from_secs(5);
    while File::open(&path).unwrap().try_lock().is_err() {
        assert!(Instant::now() < deadline, "the lock outlives its handle");
        std::thread::yield_now();
    }
}

#[test]
fn failures_come_by_the_control_socket_and_go_with_healing() {
    let Some((disk, dir)) = mounted() else { return };
    let socket = dir.path().join("control");
    serve_control(Arc::clone(disk.device()), &socket).unwrap();
    let control = Control::new(&socket);
    let path = disk.path().join("file");
    let mut file = File::create(&path).unwrap();
    control.send("fail write ENOSPC").unwrap();
    assert_eq!(file.write_all(b"x").unwrap_err().raw_os_error(), Some(28));
    control.send("heal").unwrap();
    file.write_all(b"x").unwrap();
    control.send("fail fsync EIO nth 2").unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(5));
    file.sync_all().unwrap();
    control.send("flip 1 file").unwrap();
    assert_ne!(fs::read(&path).unwrap(), b"x");
    assert!(control.send("stats").unwrap().contains("failed: 2"));
    assert!(control.send("nonsense").is_err());
}

#[test]
fn mount_ends_with_its_owner() {
    let Some((disk, _dir)) = mounted() else { return };
    let at = disk.path().to_owned();
    fs::write(at.join("file"), b"x").unwrap();
    drop(disk);
    assert!(fs::read_dir(&at).unwrap().next().is_none());
}
