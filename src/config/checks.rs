//! The checks of each setting's value.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use mintleaf_core::snowflake::{Format, Layout, Rules, SnowflakeSettings, WorkerPool};

use super::args::ServeArgs;
use super::byte_size;
use super::defaults::{
    DRAIN_DEFAULT, MAX_CLOCK_SKEW_DEFAULT, REGISTER_KEYS_MAX_DEFAULT, SEQUENCE_MEMORY_DEFAULT,
    SNAPSHOT_ENTRIES_DEFAULT, SNOWFLAKE_WINDOW_DEFAULT, TAGS_MAX_DEFAULT,
};
use super::error::{ConfigError, fault};
use crate::text::address::{PortRule, check_host_port, is_everywhere};

/// Log entries between two snapshots: fewer would write more snapshots than log.
const SNAPSHOT_ENTRIES: RangeInclusive<u64> = 100..=10_000_000;
/// Maximum number of names of tags: more than any machine's memory holds would bound nothing.
const TAGS_MAX: RangeInclusive<u64> = 1..=1_000_000_000;
/// Maximum number of keys of registers, as for names; the places of keys in a register are numbers of 32 bits.
const REGISTER_KEYS_MAX: RangeInclusive<u64> = 1..=100_000_000;
const SEQUENCE_MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 40;
/// Longest time that a node serves after it was asked to stop: no supervisor waits longer.
const DRAIN_LONGEST: Duration = Duration::from_secs(600);
/// Maximum number of configured worker ids: more than one node can ever use up.
const WORKER_IDS_MAX: usize = 16;

/// Reads the list of the first voters.
///
/// # Errors
/// The entry that cannot be used.
pub(super) fn parse_peers(text: &str) -> Result<BTreeMap<u64, String>, ConfigError> {
    let (mut peers, mut addresses) = (BTreeMap::new(), BTreeSet::new());
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let wrong = |why: &str| fault("peers", format_args!("has `{entry}`, which {why}"));
        let (id, address) = entry.split_once('=').ok_or_else(|| wrong("must be ID=HOST:PORT"))?;
        let id = id.parse().ok().filter(|&id| id >= 1);
        let id: u64 = id.ok_or_else(|| wrong("must begin with a node id of 1 or more"))?;
        check_host_port(address, PortRule::Real).map_err(wrong)?;
        if is_everywhere(address) {
            return Err(wrong("names no address that other nodes can reach"));
        }
        if peers.insert(id, address.to_owned()).is_some() {
            return Err(wrong("repeats a node id"));
        }
        if !addresses.insert(address) {
            return Err(wrong("repeats an address"));
        }
    }
    if peers.is_empty() {
        return Err(fault("peers", "is empty: list the first voters as ID=HOST:PORT,…"));
    }
    Ok(peers)
}

/// Reads an address to listen on, which may be a host name.
///
/// # Errors
/// When it is not `HOST:PORT`, or cannot be resolved.
pub(super) fn listen_address(name: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    check_host_port(text, PortRule::OrFree).map_err(|what| fault(name, what))?;
    let unknown = |error| fault(name, format_args!("{text} cannot be resolved: {error}"));
    let found = text.to_socket_addrs().map_err(unknown)?.collect::<Vec<_>>();
    // `localhost` means both families; clients try the older one more often.
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| fault(name, format_args!("{text} has no address")))
}

/// Checks an address for other nodes to use, if one is given.
///
/// # Errors
/// When it is not `HOST:PORT`, or no other node can reach it.
pub(super) fn remote(name: &str, address: Option<String>) -> Result<Option<String>, ConfigError> {
    if let Some(address) = &address {
        check_host_port(address, PortRule::Real).map_err(|what| fault(name, what))?;
        if is_everywhere(address) {
            return Err(fault(name, "must be an address that others can reach"));
        }
    }
    Ok(address)
}

/// Checks the name of a zone; empty if none is given.
///
/// # Errors
/// When it is not one.
pub(super) fn zone(name: Option<String>) -> Result<String, ConfigError> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match &name {
        Some(zone) if zone.is_empty() || zone.len() > 64 || !zone.bytes().all(is_part) => {
            Err(fault("zone", "must be 1 to 64 letters, digits, dots, dashes and underscores"))
        }
        _ => Ok(name.unwrap_or_default()),
    }
}

/// Reads a duration within `bounds`, both inclusive.
///
/// # Errors
/// When it is not a duration, or out of bounds.
pub(super) fn duration(
    name: &str,
    text: &str,
    bounds: [Duration; 2],
) -> Result<Duration, ConfigError> {
    let [shortest, longest] = bounds;
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| (shortest..=longest).contains(duration))
        .ok_or_else(|| {
            let bounds = format_args!(
                "must be a duration from {shortest:?} to {longest:?}, such as 500ms, 60s or 2m"
            );
            fault(name, bounds)
        })
}

/// How long a node goes on serving after it was asked to stop.
///
/// # Errors
/// When it is not a duration, or out of bounds.
pub(super) fn drain(given: Option<&str>) -> Result<Duration, ConfigError> {
    match given.unwrap_or(DRAIN_DEFAULT) {
        "0" => Ok(Duration::ZERO),
        text => duration("drain", text, [Duration::ZERO, DRAIN_LONGEST]),
    }
}

/// How snowflake ids are made, by these settings.
///
/// # Errors
/// The first setting that cannot be used.
pub(super) fn snowflake(args: &ServeArgs) -> Result<SnowflakeSettings, ConfigError> {
    let text = args.snowflake_layout.as_deref();
    let layout = text.map_or(Ok(Layout::LEAF), str::parse);
    let layout = layout.map_err(|why| fault("snowflake-layout", why))?;
    let epoch_ms = args.snowflake_epoch_ms.unwrap_or(Format::LEAF.epoch_ms());
    let format = Format::new(layout, epoch_ms).map_err(|why| fault("snowflake-epoch-ms", why))?;
    let window = duration(
        "snowflake-window",
        args.snowflake_window.as_deref().unwrap_or(SNOWFLAKE_WINDOW_DEFAULT),
        [Duration::from_secs(1), Duration::from_secs(3600)],
    )?;
    let pool = pool(args.service.snowflake_workers.as_deref(), format)?;
    Ok(SnowflakeSettings {
        format,
        window,
        max_clock_skew: duration(
            "max-clock-skew",
            args.max_clock_skew.as_deref().unwrap_or(MAX_CLOCK_SKEW_DEFAULT),
            [Duration::from_millis(10), Duration::from_secs(3600)],
        )?,
        worker_ids: worker_ids(&args.snowflake_worker_id, layout, &pool)?,
        pool,
    })
}

/// The log entries between two snapshots.
///
/// # Errors
/// When they are out of bounds.
pub(super) fn snapshot_entries(given: Option<u64>) -> Result<u64, ConfigError> {
    within("snapshot-entries", given.unwrap_or(SNAPSHOT_ENTRIES_DEFAULT), &SNAPSHOT_ENTRIES)
}

/// Maximum number of names of tags that the cluster keeps.
///
/// # Errors
/// When they are out of bounds.
pub(super) fn tags_max(given: Option<u64>) -> Result<u64, ConfigError> {
    within("tags-max", given.unwrap_or(TAGS_MAX_DEFAULT), &TAGS_MAX)
}

/// Maximum number of keys that all registers together have.
///
/// # Errors
/// When they are out of bounds.
pub(super) fn register_keys_max(given: Option<u64>) -> Result<u64, ConfigError> {
    let given = given.unwrap_or(REGISTER_KEYS_MAX_DEFAULT);
    within("register-keys-max", given, &REGISTER_KEYS_MAX)
}

/// Bytes for the counters of sequences.
///
/// # Errors
/// When they are out of bounds, or not a size.
pub(super) fn sequence_memory(given: Option<&str>) -> Result<usize, ConfigError> {
    let given = given.unwrap_or(SEQUENCE_MEMORY_DEFAULT);
    let size = byte_size::parse(given).filter(|size| SEQUENCE_MEMORY.contains(size));
    size.ok_or_else(|| {
        let why = format_args!("must be 1MiB to 1024GiB, such as 256MiB, and is {given}");
        fault("sequence-memory", why)
    })
}

fn within(name: &str, number: u64, bounds: &RangeInclusive<u64>) -> Result<u64, ConfigError> {
    if bounds.contains(&number) {
        return Ok(number);
    }
    let (min, max) = (bounds.start(), bounds.end());
    Err(fault(name, format_args!("must be from {min} to {max}, and is {number}")))
}

fn pool(given: Option<&str>, format: Format) -> Result<WorkerPool, ConfigError> {
    let wrong = |why: &dyn std::fmt::Display| fault("snowflake-workers", why);
    let Some(given) = given else { return Ok(WorkerPool::all(format.layout())) };
    let pool: WorkerPool = given.parse().map_err(|why| wrong(&why))?;
    Rules::new(format, pool.clone(), 1).map_err(|why| wrong(&why))?;
    Ok(pool)
}

fn worker_ids(given: &[u16], layout: Layout, pool: &WorkerPool) -> Result<Vec<u16>, ConfigError> {
    let wrong = |why: std::fmt::Arguments| Err(fault("snowflake-worker-id", why));
    if let Some(id) = given.iter().find(|&&id| id >= layout.worker_ids()) {
        let highest = layout.worker_ids() - 1;
        return wrong(format_args!("must be at most {highest} in layout {layout}, and is {id}"));
    }
    if let Some(id) = given.iter().find(|&&id| !pool.contains(id)) {
        return wrong(format_args!("must be among --snowflake-workers {pool}, and is {id}"));
    }
    if given.len() > WORKER_IDS_MAX {
        return wrong(format_args!("may be given {WORKER_IDS_MAX} times at most"));
    }
    let distinct = given.iter().copied().collect::<BTreeSet<_>>();
    if distinct.len() < given.len() {
        return wrong(format_args!("must be given once for each worker id"));
    }
    Ok(distinct.into_iter().collect())
}
