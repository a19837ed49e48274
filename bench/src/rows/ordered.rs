//! Ids in strict order, on three nodes: numbers of a sequence's keys, and ids of a strict tag.

use serde_json::json;

use super::{gets, warm_up};
use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Protocol};
use crate::node::{Cluster, Node};
use crate::peers::Etcd;
use crate::slices::{Measure, Slice, alternate, slice, thousands};
use crate::stats::Spread;

/// The kind of ids that are asked for.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Numbers of many keys of one sequence, in turn.
    Sequence,
    /// Ids of one strict tag.
    Strict,
}

/// The node that is asked.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    Leader,
    Follower,
}

/// Requests in flight on each of 64 connections.
const DEPTH: u64 = 16;

/// Thousands of ids a second under full load, one id in each request.
pub(crate) fn rate(bench: &Bench, kind: Kind, asked: Asked) -> Result<Finding> {
    let cluster = Cluster::start(bench)?;
    let load = load(bench, &cluster, kind, asked)?;
    // A key's first number reserves a range of its section, but the bound is about keys that are in use.
    ask_for_all(bench, &load)?;
    let rounds = (0..bench.options.rounds()).map(|_| slice(bench, &cluster.processes(), &load));
    let rounds: Vec<Slice> = rounds.collect::<Result<_>>()?;
    let rates = Spread::of(rounds.iter().map(|round| round.outcome.per_second / 1e3));
    let cpu = Spread::of(rounds.iter().map(|round| round.cpu_us)).median;
    let ours = format!("{}/s, {cpu:.2} µs CPU of three nodes", thousands(rates.median * 1e3));
    Ok(Finding { ours, reference: "–".to_owned(), figure: rates })
}

/// The time of one id for a single caller. Both services send messages to a quorum once for every answer, and
/// write nothing.
pub(crate) fn one_caller(bench: &Bench, kind: Kind) -> Result<Finding> {
    let (cluster, etcd) = (Cluster::start(bench)?, Etcd::start(bench)?);
    let ours = load(bench, &cluster, kind, Asked::Leader)?;
    let ours = Load { keys: ours.keys.min(1_000), ..alone(&ours) };
    ask_for_all(bench, &ours)?;
    let request = "key-{key}".to_owned();
    let theirs = Load { request, target: etcd.leader()?, ..ours.clone() };
    ask_for_all(bench, &Load { protocol: Protocol::Etcd, ..theirs.clone() })?;
    let theirs = Load { protocol: Protocol::EtcdRead, ..theirs };
    let mut ours = || slice(bench, &cluster.processes(), &ours);
    let mut theirs = || slice(bench, &etcd.processes(), &theirs);
    Ok(Measure::P50.finding(&alternate(bench, [&mut ours, &mut theirs])?))
}

fn alone(load: &Load) -> Load {
    Load { connections: 1, depth: 1, ..load.clone() }
}

/// Makes the tag, and returns the load of requests for it.
fn load(bench: &Bench, cluster: &Cluster, kind: Kind, asked: Asked) -> Result<Load> {
    let (leader, _) = cluster.leader()?;
    let at = match asked {
        Asked::Leader => leader,
        Asked::Follower => (leader + 1) % cluster.nodes.len(),
    };
    let (body, request, keys) = match kind {
        Kind::Sequence => {
            let tag = json!({ "tag": "chats", "kind": "sequence" });
            (tag, "HINCRBY chats key-{key} 1", bench.options.tags())
        }
        Kind::Strict => (json!({ "tag": "tickets", "order": "strict" }), "INCR tickets", 1),
    };
    let node: &Node = &cluster.nodes[at];
    node.create(&body)?;
    let request = request.to_owned();
    Ok(Load { protocol: Protocol::Resp, request, keys, depth: DEPTH, ..gets(bench, node.resp, "") })
}

/// Asks for every key; for few keys, several times.
fn ask_for_all(bench: &Bench, load: &Load) -> Result<()> {
    const ASKED_MIN: u64 = 1_000;
    warm_up(bench, load, load.keys.max(ASKED_MIN))
}
