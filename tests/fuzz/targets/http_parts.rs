//! Paths, queries and bodies of HTTP requests, and plain requests for ids, as their parsers see them.
#![no_main]

use std::str;

use libfuzzer_sys::fuzz_target;
use mintleaf::http::fuzzing::{count, key, path, plain_requests, step_and_start};

const MAX: u64 = 1_000_000;

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"GET ") {
        let [by_the_fast_path, by_hyper] = plain_requests(bytes);
        return assert_eq!(by_the_fast_path, by_hyper, "one request smuggles another");
    }
    let Some((&kind, rest)) = bytes.split_first() else { return };
    if kind % 4 == 0 {
        let fields = step_and_start(rest, MAX);
        let numbers = fields.into_iter().flatten().flatten();
        return numbers.for_each(|number| assert!((1..=MAX).contains(&number)));
    }
    let Ok(text) = str::from_utf8(rest) else { return };
    match kind % 4 {
        1 => {
            if let Some(key) = key(text) {
                assert!(!key.is_empty() && key.len() <= text.len());
            }
        }
        2 => {
            let [tag, node] = path(text);
            assert!(!node || tag, "a number is a name");
        }
        _ => {
            if let Some(count) = count(text, MAX) {
                assert!((1..=MAX).contains(&count));
            }
        }
    }
});
