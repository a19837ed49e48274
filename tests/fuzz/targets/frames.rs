//! Messages between nodes, as they are decoded before any other check.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mintleaf_fuzz::{sealed, stays_the_same};
use mintleaf_raft::fuzzing::{answer, request};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => stays_the_same(request, &sealed(1, body)),
        1 => stays_the_same(answer, &sealed(1, body)),
        _ => {
            stays_the_same(request, body);
            stays_the_same(answer, body);
        }
    }
});
