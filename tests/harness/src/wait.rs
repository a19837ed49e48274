//! Waiting for events in another process, which cannot wake this one.

use std::thread;
use std::time::{Duration, Instant};

/// The pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls until `look` returns a value; `None` after `within`.
pub fn await_some<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if began.elapsed() >= within {
            return None;
        }
        pause(POLL_INTERVAL);
    }
}

/// Polls until `look` returns a value.
///
/// # Panics
/// After `within`; the message names `what` was waited for.
#[track_caller]
pub fn eventually<T>(what: &str, within: Duration, look: impl FnMut() -> Option<T>) -> T {
    await_some(within, look).unwrap_or_else(|| panic!("waited {within:?} in vain for {what}"))
}

/// Lets time pass.
pub fn pause(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

/// This many seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// This many milliseconds.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A number from the environment, for runs with more rounds than the default.
///
/// # Panics
/// When the variable is not a number.
pub fn from_env(name: &str, default: u64) -> u64 {
    let Some(text) = std::env::var_os(name) else { return default };
    text.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name}={text:?}"))
}
