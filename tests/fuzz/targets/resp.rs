//! Whole connections of Redis clients, byte by byte, to a running node: the real loop and service, in simulated time.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use mintleaf::resp::fuzzing::serve;
use mintleaf_fuzz::{Server, shows_token, tokens};

/// Longer than the slowest client takes. That client keeps a connection open and is silent.
const SECONDS_MAX: u64 = 2_000;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::default();
}

fuzz_target!(|bytes: &[u8]| {
    let tokens = tokens(bytes);
    let is_stranger = tokens.is_some() && !shows_token(bytes);
    let answers = SERVER.with_borrow_mut(|server| {
        server.converse(bytes, SECONDS_MAX, async move |stream, services| {
            serve(stream, &services, tokens.as_deref()).await;
        })
    });
    // A client that shows no token gets errors, or the answer that its session is reset or ended.
    if is_stranger {
        let lines = answers.split_inclusive(|byte| *byte == b'\n');
        let refusals = lines.filter(|line| line.ends_with(b"\r\n"));
        for line in refusals {
            let is_refusal = [&b"-"[..], b"+OK", b"+RESET"].iter().any(|b| line.starts_with(b));
            assert!(is_refusal, "{}", answers.escape_ascii());
        }
    }
    // All types of the protocol begin with one of these.
    assert!(answers.first().is_none_or(|kind| b"+-:$*%_#".contains(kind)), "{answers:?}");
});
