//! What the tests stand on.

mod cluster;
mod dev;
// One piece of code sets clocks, for these tests and for process chaos.
#[path = "../../chaos/src/clocks.rs"]
mod clocks;
mod faketime;
mod history;
mod http;
mod load;
mod ports;
mod process;
mod resp;

use std::time::{Duration, Instant};

pub(crate) use cluster::{Cluster, known_leader};
pub(crate) use dev::Dev;
pub(crate) use faketime::WallClocks;
pub(crate) use history::{History, Op, Outcome};
pub(crate) use http::{Answer, Api, encoded};
pub(crate) use load::{Load, TagWriter};
pub(crate) use ports::Port;
pub(crate) use process::{Finished, Process, mintleaf};
pub(crate) use resp::{RedisClient, Value, command};

/// Pause between two looks at another process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Looks again and again until there is something to see; fails the test after `within`.
pub(crate) fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < within, "waited {within:?} in vain for {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A number from the environment, for those who want more rounds than the default.
pub(crate) fn from_env(name: &str, default: u64) -> u64 {
    let Some(text) = std::env::var_os(name) else { return default };
    text.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name}={text:?}"))
}

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
