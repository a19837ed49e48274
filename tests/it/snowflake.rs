//! Snowflake ids of whole clusters: they are unique and rise, and each lies in a window of its node, whatever
//! happens to processes and clocks.

mod before_1970;
mod floor;
mod jumps;
mod leases;
mod restarts;
mod rotation;
mod windows;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::harness::{Api, Cluster, LAYOUT, eventually, from_env, secs};
use windows::Windows;

const HOUR_MS: i64 = 3_600_000;
const TEN_YEARS_MS: i64 = 10 * 365 * 24 * HOUR_MS;

/// The time in an id of the default layout, in Unix milliseconds.
fn shown_ms(id: u64) -> u64 {
    (id >> 22) + LAYOUT.epoch_ms
}

/// The worker id in an id of the default layout.
fn worker_of(id: u64) -> u16 {
    (id >> 12 & 0x3ff) as u16
}

fn true_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// How far the time of an id is from the true time, in milliseconds.
fn off_by_ms(id: u64) -> u64 {
    shown_ms(id).abs_diff(true_ms())
}

/// An id from a node, if it has one to give.
fn id_of(api: Api) -> Option<u64> {
    let answer = api.try_get("/v1/snowflake").ok()?;
    (answer.status == 200).then(|| answer.ids()[0])
}

/// Waits until a node gives ids.
#[track_caller]
fn await_id(api: Api) -> u64 {
    eventually("a snowflake id", secs(15), || id_of(api))
}

/// Waits until a node is not ready, and returns its reasons.
#[track_caller]
fn await_unready(api: Api) -> String {
    eventually("a node to be out of rotation", secs(10), || {
        let answer = api.try_get("/readyz").ok()?;
        (answer.status == 503).then(|| answer.json()["reasons"].to_string())
    })
}

#[track_caller]
fn await_ready(api: Api) {
    eventually("a node to be in rotation", secs(10), || {
        api.try_get("/readyz").ok().filter(|answer| answer.status == 200)
    });
}

/// Whether a node's metrics page raises this alarm.
fn alarm(api: Api, cause: &str) -> bool {
    let page = api.get("/metrics");
    let line = format!("mintleaf_snowflake_alarm{{cause=\"{cause}\"}} ");
    let value = page.text().lines().find_map(|shown| shown.strip_prefix(&line));
    value.unwrap_or_else(|| panic!("no alarm {cause}")) == "1"
}

/// Random numbers that can be repeated from the printed seed.
struct Random(u64);

impl Random {
    /// Numbers from the seed in `MINTLEAF_SEED`, or from a new seed each time.
    fn seeded() -> Self {
        let seed = from_env("MINTLEAF_SEED", true_ms() ^ u64::from(std::process::id()) << 32);
        println!("MINTLEAF_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Kills a node, starts it again, and returns at once.
fn bounce(cluster: &mut Cluster, id: u64) {
    cluster.kill(id);
    cluster.start_node(id);
}
