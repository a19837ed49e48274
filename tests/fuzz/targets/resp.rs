//! Whole connections of Redis clients, byte by byte, to a node that serves: the real loop and
//! service, in simulated time.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use mintleaf::resp::fuzzing::serve;
use mintleaf_fuzz::Server;

/// More than the slowest client can take: one that keeps a connection open and says nothing more.
const SECONDS_MAX: u64 = 2_000;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::default();
}

fuzz_target!(|bytes: &[u8]| {
    let answers = SERVER.with_borrow_mut(|server| {
        server.converse(bytes, SECONDS_MAX, async |stream, services| {
            serve(stream, &services, None).await
        })
    });
    // Every type that there is begins with one of these.
    assert!(answers.first().is_none_or(|kind| b"+-:$*%_#".contains(kind)), "{answers:?}");
});
