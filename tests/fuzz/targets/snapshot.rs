//! Snapshots: the stream of a state, and the files that hold one.
#![no_main]

use std::io::{Read, Write};

use libfuzzer_sys::fuzz_target;
use mintleaf_core::encoding::{digest, read_snapshot, write_snapshot};
use mintleaf_fuzz::{sealed, temp_dir};
use mintleaf_storage::{DataDir, Snapshots};
use tempfile::TempDir;

struct Files {
    snapshots: Snapshots,
    _dir: TempDir,
}

thread_local! {
    static FILES: Files = {
        let dir = temp_dir();
        let data = DataDir::open(dir.path(), 1).expect("a new directory opens");
        Files { snapshots: Snapshots::open(&data).expect("snapshots open"), _dir: dir }
    };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => restored(body),
        1 | 2 => restored(&sections(body)),
        _ => FILES.with(|files| installed(&files.snapshots, body, kind > 127)),
    }
});

/// A restored state is complete, and writes the bytes that it was read from.
fn restored(stream: &[u8]) {
    let Ok(state) = read_snapshot(stream) else { return };
    let mut written = Vec::new();
    write_snapshot(&state.freeze(), &mut written).expect("a vector takes every byte");
    let again = read_snapshot(&written[..]).expect("what was written is a state");
    assert_eq!(digest(&again.freeze()), digest(&state.freeze()));
    let rows = state.tags_after(None, usize::MAX);
    assert_eq!(rows.len(), state.len());
    assert!(rows.windows(2).all(|pair| pair[0].tag < pair[1].tag));
    for row in &rows {
        assert_eq!(state.tag(row.tag.as_str()).as_ref(), Some(row));
    }
    for worker in state.workers() {
        assert!(worker.floor_ms <= worker.fence_ms);
    }
}

/// Cuts bytes into sections, each with its length in front, and seals them.
fn sections(mut body: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some((&length, rest)) = body.split_first() {
        let (section, rest) = rest.split_at(rest.len().min(usize::from(length)));
        let section = sealed(1, section);
        stream.extend_from_slice(&u32::try_from(section.len()).unwrap_or(0).to_le_bytes());
        stream.extend_from_slice(&section);
        body = rest;
    }
    stream
}

/// A file is installed only if it is exactly as it was sent, and is read back unchanged.
fn installed(snapshots: &Snapshots, content: &[u8], sound: bool) {
    let mut file = content.to_vec();
    if sound {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&file);
        file.extend_from_slice(&hasher.finalize().to_le_bytes());
    }
    let mut temp = snapshots.create().expect("a file can be made");
    temp.write_all(&file).expect("a file can be written");
    if snapshots.install(temp).is_err() {
        return;
    }
    let mut latest = snapshots.latest().expect("it was verified").expect("it was installed");
    let mut body = Vec::new();
    latest.body().read_to_end(&mut body).expect("a body can be read");
    assert!(file.windows(body.len().max(1)).any(|part| part == body) || body.is_empty());
    let mut whole = Vec::new();
    latest.file.read_to_end(&mut whole).expect("a file can be read");
    assert_eq!(whole, file);
}
