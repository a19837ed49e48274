//! Whole connections of clients, byte by byte, to a running node: the real loop, router and service, in simulated time.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use mintleaf::http::fuzzing::Connections;
use mintleaf_fuzz::{Server, shows_token, tokens};

/// Longer than the slowest client takes. That client changes the membership in each of its requests, then keeps
/// the connection open and is silent.
const SECONDS_MAX: u64 = 300;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::default();
}

fuzz_target!(|bytes: &[u8]| {
    let tokens = tokens(bytes);
    let is_stranger = tokens.is_some() && !shows_token(bytes);
    let answers = SERVER.with_borrow_mut(|server| {
        server.converse(bytes, SECONDS_MAX, async |stream, services| {
            Connections::new(services, tokens).serve(stream).await;
        })
    });
    check(&answers);
    if is_stranger {
        check_stranger(&answers);
    }
});

/// A client that shows no token gets no id, changes nothing and reads nothing.
fn check_stranger(answers: &[u8]) {
    let text = String::from_utf8_lossy(answers);
    for given in [
        "content-type: text/plain;charset=UTF-8\r\n",
        "content-type: application/json;charset=UTF-8\r\n",
        "\"ids\":[",
        "\"ranges\":[",
        "HTTP/1.1 201",
        "\"leader_id\"",
    ] {
        assert!(!text.contains(given), "{text}");
    }
}

/// Only Leaf's paths answer 500, with Leaf's texts.
fn check(answers: &[u8]) {
    let text = String::from_utf8_lossy(answers);
    assert!(text.is_empty() || text.starts_with("HTTP/1."), "{text}");
    let mut failures = text.split("HTTP/1.1 500").skip(1).peekable();
    while let Some(failure) = failures.next() {
        // A client that does not read in time is cut off, perhaps in the middle of an answer.
        let cut_off = failures.peek().is_none() && !failure.contains('}');
        let words = ["status=EXCEPTION", "Key is none"];
        assert!(cut_off || words.iter().any(|words| failure.contains(words)), "{text}");
    }
}
