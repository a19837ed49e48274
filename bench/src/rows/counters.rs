//! Ids over the Redis protocol.

use std::net::SocketAddr;

use super::{gets, warm_up};
use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Protocol};
use crate::node::Node;
use crate::peers::redis;
use crate::slices::{Measure, compare};

/// INCR of `keys` keys in turn, `depth` of them in flight.
pub(crate) fn incr(bench: &Bench, keys: u64, depth: u64) -> Result<Finding> {
    let (node, redis) = (Node::alone(bench)?, redis(bench)?);
    create_keys(&node, keys)?;
    let [ours, theirs] =
        [node.resp, redis.address].map(|target| increments(bench, target, keys, depth));
    // Both servers know every key before the first round.
    ask_for_all(bench, [&ours, &theirs])?;
    compare(bench, Measure::Rate, (&[&node.process], &ours), (&[&redis.process], &theirs))
}

/// Creates the tags that [`increments`] asks for.
pub(super) fn create_keys(node: &Node, keys: u64) -> Result<()> {
    (0..keys).try_for_each(|key| node.create_tag(&format!("key-{key:07}"), 1_000))
}

/// Sends each load's request for every one of its keys, so that each key exists and ids of it are held.
pub(super) fn ask_for_all(bench: &Bench, loads: [&Load; 2]) -> Result<()> {
    let ask = |load: &Load| warm_up(bench, &Load { depth: 1, ..load.clone() }, 4 * load.keys);
    loads.into_iter().try_for_each(ask)
}

/// INCR of `keys` keys in turn, on 64 connections, for a slice.
pub(super) fn increments(bench: &Bench, target: SocketAddr, keys: u64, depth: u64) -> Load {
    let request = "INCR key-{key}".to_owned();
    Load { protocol: Protocol::Resp, request, keys, depth, ..gets(bench, target, "") }
}
