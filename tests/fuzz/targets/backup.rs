//! Backups: a file that an operator passes as one, but that was altered or made by another program.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use mintleaf_core::backup::{BackupCheck, BackupHead, read_backup, write_backup};
use mintleaf_core::encoding::digest;
use mintleaf_core::limits::ID_END;
use mintleaf_core::state::{Raise, State};
use mintleaf_fuzz::sealed;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => judged(body),
        1 => judged(&whole(body.to_vec())),
        _ => judged(&whole(of_parts(body))),
    }
});

/// A backup that can be read is written as the same bytes, and can be raised.
fn judged(backup: &[u8]) {
    let mut checked = 0;
    let Ok((head, state)) = read_backup(Cursor::new(backup), |bytes| checked = bytes) else {
        return;
    };
    assert_eq!(checked, backup.len() as u64, "it was not checked to its end");
    let written = written(&head, &state);
    let (again, restored) = read_backup(Cursor::new(&written), |_| {}).expect("it was written");
    assert_eq!((again, digest(&restored.freeze())), (head, digest(&state.freeze())));
    let all = checked;
    let raised = state.clone().raised(&Raise { all, ..Raise::default() }).expect("no tag is named");
    assert_eq!(raised.advance(), state.advance().saturating_add(all));
    for row in state.tags_after(None, usize::MAX) {
        let max_id = raised.tag(row.tag.as_str()).expect("it is still there").max_id;
        assert_eq!(max_id, row.max_id.saturating_add(all).min(ID_END));
    }
}

fn written(head: &BackupHead, state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_backup(head, &state.freeze(), &mut bytes).expect("a vector takes every byte");
    bytes
}

/// Adds length and checksum.
fn whole(mut content: Vec<u8>) -> Vec<u8> {
    let mut check = BackupCheck::default();
    check.take(&content);
    content.extend(check.trailer());
    content
}

/// Cuts bytes into a head and sections, and seals each with its length in front.
fn of_parts(mut body: &[u8]) -> Vec<u8> {
    let mut content = b"MLBK\x01".to_vec();
    while let Some((&length, rest)) = body.split_first() {
        let (part, rest) = rest.split_at(rest.len().min(usize::from(length)));
        let part = sealed(1, part);
        content.extend_from_slice(&u32::try_from(part.len()).unwrap_or(0).to_le_bytes());
        content.extend_from_slice(&part);
        body = rest;
    }
    content
}
