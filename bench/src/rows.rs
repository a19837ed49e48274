//! How each row is measured.

pub(crate) mod builds;
pub(crate) mod commits;
pub(crate) mod counters;
pub(crate) mod doors;
pub(crate) mod elections;
pub(crate) mod failover;
pub(crate) mod ids;
pub(crate) mod latency;
pub(crate) mod ordered;
pub(crate) mod refusals;
pub(crate) mod tags;

use std::net::SocketAddr;
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::load::{Load, Protocol};

/// The path of one id of a tag, without the tag's name.
const LEAF: &str = "/api/segment/get";

/// Sends this many requests of a load before it is measured.
fn warm_up(bench: &Bench, load: &Load, requests: u64) -> Result<()> {
    const WARMING_MAX: Duration = Duration::from_secs(60);
    let requests = Some(requests);
    bench.load(&Load { requests, time: WARMING_MAX, ..load.clone() }).map(drop)
}

/// GETs on 64 connections, for a slice.
fn gets(bench: &Bench, target: SocketAddr, path: &str) -> Load {
    Load {
        target,
        protocol: Protocol::Http,
        request: format!("GET {path}"),
        headers: String::new(),
        login: String::new(),
        ca: None,
        servers: Vec::new(),
        keys: 1,
        connections: 64,
        depth: 1,
        time: bench.options.slice(),
        requests: None,
        rate: None,
    }
}
