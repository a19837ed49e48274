//! Ids over the Redis protocol.

use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Protocol};
use crate::node::Node;
use crate::peers::redis;
use crate::slices::{Measure, compare};

/// INCR of so many keys in turn, pipelined by `depth`.
pub(crate) fn incr(bench: &Bench, keys: u64, depth: u64) -> Result<Finding> {
    let (node, redis) = (Node::alone(bench)?, redis(bench)?);
    for key in 0..keys {
        node.create_tag(&format!("key-{key:07}"), 1_000)?;
    }
    let [ours, theirs] = [node.resp, redis.address].map(|target| Load {
        target,
        protocol: Protocol::Resp,
        request: "INCR key-{key}".to_owned(),
        headers: String::new(),
        keys,
        connections: 64,
        depth,
        time: bench.options.slice(),
        requests: None,
        rate: None,
    });
    // Both servers know every key before the first round.
    for load in [&ours, &theirs] {
        bench.load(&Load { requests: Some(4 * keys), depth: 1, ..load.clone() })?;
    }
    compare(bench, Measure::Rate, (&[&node.process], &ours), (&[&redis.process], &theirs))
}
