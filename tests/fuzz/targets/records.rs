//! Records on disk, one by one: the log's, the tail's, Raft's own, commands and responses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mintleaf_core::encoding::{decode_command, decode_response, encode_command, encode_response};
use mintleaf_core::state::LEVEL_MAX;
use mintleaf_fuzz::{sealed, stays_the_same};
use mintleaf_raft::fuzzing as raft;
use mintleaf_storage::fuzzing as storage;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    // The formats of this release, the previous and the next one; or bytes without a checksum.
    let framed = match (kind >> 6) & 3 {
        3 => body.to_vec(),
        format => sealed(format, body),
    };
    match kind % 8 {
        0 => stays_the_same(raft::entry, &framed),
        1 => stays_the_same(raft::vote, &framed),
        2 => stays_the_same(raft::log_id, &framed),
        3 => stays_the_same(raft::snapshot_meta, &framed),
        4 => stays_the_same(command, &framed),
        5 => stays_the_same(response, &framed),
        6 => stays_the_same(storage::batch, &[&length(&framed), &framed[..]].concat()),
        _ => {
            stays_the_same(storage::batch, body);
            stays_the_same(|bytes| storage::record(u64::from(kind), bytes), body);
        }
    }
});

fn command(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(encode_command(&decode_command(bytes).ok()?))
}

fn response(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(encode_response(&decode_response(bytes).ok()?, LEVEL_MAX))
}

fn length(frame: &[u8]) -> [u8; 4] {
    u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes()
}
