//! Opening a log after a crash, an accident or an attack, where all checksums are right.
#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use mintleaf_codec as codec;
use mintleaf_fuzz::sealed;
use mintleaf_storage::fuzzing::{Recovered, Recovery, Store};

thread_local! {
    static RECOVERY: LazyCell<Recovery> = LazyCell::new(Recovery::default);
}

fuzz_target!(|bytes: &[u8]| {
    let Ok((_, store)) = codec::decode::<Store>(&sealed(1, bytes)) else { return };
    let recovered = RECOVERY.with(|recovery| recovery.run(store));
    let Some(Recovered { bounds, indices, .. }) = recovered else { return };
    match bounds {
        Some((first, last)) => assert!(indices.into_iter().eq(first..=last)),
        None => assert!(indices.is_empty(), "records outside the log are left"),
    }
});
