//! Two builds of Mintleaf compared, for `--against`: does a change make anything slower?
//!
//! Each row appears twice. The second time its name ends with `-aa`, and the other build runs on both sides. A
//! difference is real only if it lies outside what that row finds.

use super::{LEAF, commits, counters, gets, ids, latency, tags};
use crate::Result;
use crate::bench::Bench;
use crate::catalog::{ALONE, Finding, Row};
use crate::load::Load;
use crate::node::{Build, Cluster, Node};
use crate::slices::{Measure, compare};

/// Which builds a row compares.
#[derive(Clone, Copy)]
enum Pair {
    /// The measured build with the other.
    Change,
    /// The other build with itself.
    Same,
}
use Pair::{Change, Same};

/// Every row, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    row("single", "one id a request; CPU a request", |bench| single(bench, Change)),
    row("single-aa", "the same, one build", |bench| single(bench, Same)),
    row("pipe16", "one id a request, pipelined by 16; requests/s", |bench| {
        pipelined(bench, Change)
    }),
    row("pipe16-aa", "the same, one build", |bench| pipelined(bench, Same)),
    row("snowflake", "one snowflake id a request; CPU a request", |bench| snowflake(bench, Change)),
    row("snowflake-aa", "the same, one build", |bench| snowflake(bench, Same)),
    row("batch", "1,000 ids a request as text; CPU a request", |bench| batch(bench, Change)),
    row("batch-aa", "the same, one build", |bench| batch(bench, Same)),
    row("keys1", "INCR of 1,000 keys in turn; CPU a request", |bench| {
        increments(bench, Change, Measure::Cpu, 1)
    }),
    row("keys1-aa", "the same, one build", |bench| increments(bench, Same, Measure::Cpu, 1)),
    row("keys16", "the same pipelined by 16; requests/s", |bench| {
        increments(bench, Change, Measure::Rate, 16)
    }),
    row("keys16-aa", "the same, one build", |bench| increments(bench, Same, Measure::Rate, 16)),
    row("p99", "p99 at half of bare hyper's rate while segments refill", |bench| {
        latency::of_nodes(bench, &nodes(bench, Change)?)
    }),
    row("p99-aa", "the same, one build", |bench| latency::of_nodes(bench, &nodes(bench, Same)?)),
    row("grab", "one durable change on three nodes, one caller; p50", |bench| {
        commits::of_clusters(bench, &clusters(bench, Change)?, Measure::P50, 1)
    }),
    row("grab-aa", "the same, one build", |bench| {
        commits::of_clusters(bench, &clusters(bench, Same)?, Measure::P50, 1)
    }),
    row("grabs50", "the same by 50 callers; changes/s", |bench| {
        commits::of_clusters(bench, &clusters(bench, Change)?, Measure::Rate, 50)
    }),
    row("grabs50-aa", "the same, one build", |bench| {
        commits::of_clusters(bench, &clusters(bench, Same)?, Measure::Rate, 50)
    }),
    row("p99kill", "p99 on one of three nodes while the leader is killed", |bench| {
        latency::of_clusters(bench, &mut clusters(bench, Change)?)
    }),
    row("p99kill-aa", "the same, one build", |bench| {
        latency::of_clusters(bench, &mut clusters(bench, Same)?)
    }),
    row("memory", "resident memory after all the tags were created", |bench| {
        tags::memory_of(&nodes_with_tags(bench, Change)?)
    }),
    row("memory-aa", "the same, one build", |bench| {
        tags::memory_of(&nodes_with_tags(bench, Same)?)
    }),
    row("idle", "a node with all the tags at rest; share of a core", |bench| {
        tags::idle_of(bench, &nodes_with_tags(bench, Change)?)
    }),
    row("idle-aa", "the same, one build", |bench| {
        tags::idle_of(bench, &nodes_with_tags(bench, Same)?)
    }),
    row("start", "its start until it is ready", |bench| {
        tags::starts_of(bench, &mut nodes_with_tags(bench, Change)?)
    }),
    row("start-aa", "the same, one build", |bench| {
        tags::starts_of(bench, &mut nodes_with_tags(bench, Same)?)
    }),
];

const fn row(id: &'static str, work: &'static str, measure: fn(&Bench) -> Result<Finding>) -> Row {
    Row { id, work, goal: None, needs: ALONE, measure }
}

impl Pair {
    /// The builds on both sides.
    fn builds<'a>(self, bench: &'a Bench) -> Result<[Build<'a>; 2]> {
        let against = bench.options.against.as_ref().ok_or("--against names no build")?;
        let other = Build { binary: against, name: "other", ..Build::measured(bench) };
        Ok(match self {
            Change => [Build::measured(bench), other],
            Same => [Build { name: "other-again", ..other }, other],
        })
    }
}

fn nodes(bench: &Bench, pair: Pair) -> Result<[Node; 2]> {
    let [one, other] = pair.builds(bench)?;
    Ok([Node::alone_of(bench, one)?, Node::alone_of(bench, other)?])
}

/// A node of each build that has created all the tags.
fn nodes_with_tags(bench: &Bench, pair: Pair) -> Result<[Node; 2]> {
    let nodes = nodes(bench, pair)?;
    nodes.iter().try_for_each(|node| tags::create_all(bench, node))?;
    Ok(nodes)
}

fn clusters(bench: &Bench, pair: Pair) -> Result<[Cluster; 2]> {
    let [one, other] = pair.builds(bench)?;
    Ok([Cluster::start_of(bench, one)?, Cluster::start_of(bench, other)?])
}

fn single(bench: &Bench, pair: Pair) -> Result<Finding> {
    of_loads(bench, pair, Measure::Cpu, |node| {
        gets(bench, node.http, &format!("{LEAF}/{}", ids::TAG))
    })
}

fn pipelined(bench: &Bench, pair: Pair) -> Result<Finding> {
    of_loads(bench, pair, Measure::Rate, |node| Load {
        depth: 16,
        ..gets(bench, node.http, &format!("{LEAF}/{}", ids::TAG))
    })
}

fn snowflake(bench: &Bench, pair: Pair) -> Result<Finding> {
    of_loads(bench, pair, Measure::Cpu, |node| gets(bench, node.http, "/api/snowflake/get/any"))
}

fn batch(bench: &Bench, pair: Pair) -> Result<Finding> {
    of_loads(bench, pair, Measure::Cpu, |node| {
        let headers = "accept: text/plain\r\n".to_owned();
        Load { headers, ..gets(bench, node.http, &format!("/v1/segment/{}?count=1000", ids::TAG)) }
    })
}

fn increments(bench: &Bench, pair: Pair, by: Measure, depth: u64) -> Result<Finding> {
    const KEYS: u64 = 1_000;
    let nodes = nodes(bench, pair)?;
    nodes.iter().try_for_each(|node| counters::create_keys(node, KEYS))?;
    let loads = nodes.each_ref().map(|node| counters::increments(bench, node.resp, KEYS, depth));
    counters::ask_for_all(bench, loads.each_ref())?;
    compare(bench, by, (&[&nodes[0].process], &loads[0]), (&[&nodes[1].process], &loads[1]))
}

/// One load on a node of each side. Both nodes hold a segment of the tag.
fn of_loads(
    bench: &Bench,
    pair: Pair,
    by: Measure,
    load: impl Fn(&Node) -> Load,
) -> Result<Finding> {
    let [one, other] = nodes(bench, pair)?;
    let (one, other) = (ids::with_tag(one)?, ids::with_tag(other)?);
    compare(bench, by, (&[&one.process], &load(&one)), (&[&other.process], &load(&other)))
}
