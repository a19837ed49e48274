//! Latency under a steady load, below what the server can handle.

use std::time::Duration;

use mintleaf_harness::pause;

use super::{LEAF, gets};
use crate::Result;
use crate::bench::{Bench, outcome};
use crate::catalog::Finding;
use crate::load::Load;
use crate::node::{Cluster, Node};
use crate::peers::{Peer, hyper};
use crate::slices::{Measure, Slice, alternate, slice};
use crate::stats::Spread;

/// The step of the tags. Every slice has a new tag. Its segments are short at first, and are refilled every few
/// milliseconds.
const STEP: u32 = 1_000;
/// How many slices determine the rate.
const RATE_SLICES: u32 = 3;

pub(crate) fn hyper_itself(bench: &Bench) -> Result<Finding> {
    let (one, other) = (hyper(bench)?, hyper(bench)?);
    let rate = half_rate(bench, &one)?;
    let [one, other] = [&one, &other]
        .map(|peer| move || slice(bench, &[&peer.process], &steady(&plain(bench, peer), rate)));
    let (mut one, mut other) = (one, other);
    Ok(Measure::P99.finding(&alternate(bench, [&mut one, &mut other])?))
}

pub(crate) fn refilling(bench: &Bench) -> Result<Finding> {
    let (node, hyper) = (Node::alone(bench)?, hyper(bench)?);
    let rate = half_rate(bench, &hyper)?;
    let mut fresh = Fresh::default();
    let mut ours = || {
        let load = steady(&fresh.tag(bench, &node, &node)?, rate);
        slice(bench, &[&node.process], &load)
    };
    let mut theirs = || slice(bench, &[&hyper.process], &steady(&plain(bench, &hyper), rate));
    Ok(Measure::P99.finding(&alternate(bench, [&mut ours, &mut theirs])?))
}

/// Two nodes at the same rate, each with fresh tags.
pub(super) fn of_nodes(bench: &Bench, nodes: &[Node; 2]) -> Result<Finding> {
    let rate = half_rate(bench, &hyper(bench)?)?;
    let [mut one, mut other] = nodes.each_ref().map(|node| {
        let mut fresh = Fresh::default();
        move || {
            let load = steady(&fresh.tag(bench, node, node)?, rate);
            slice(bench, &[&node.process], &load)
        }
    });
    Ok(Measure::P99.finding(&alternate(bench, [&mut one, &mut other])?))
}

pub(crate) fn leader_killed(bench: &Bench) -> Result<Finding> {
    let (mut cluster, hyper) = (Cluster::start(bench)?, hyper(bench)?);
    let rate = half_rate(bench, &hyper)?;
    let mut ours = while_leader_dies(bench, &mut cluster, rate);
    let mut theirs = || slice(bench, &[&hyper.process], &steady(&plain(bench, &hyper), rate));
    Ok(Measure::P99.finding(&alternate(bench, [&mut ours, &mut theirs])?))
}

/// Two clusters at the same rate, whose leaders are killed.
pub(super) fn of_clusters(bench: &Bench, clusters: &mut [Cluster; 2]) -> Result<Finding> {
    let rate = half_rate(bench, &hyper(bench)?)?;
    let [mut one, mut other] =
        clusters.each_mut().map(|cluster| while_leader_dies(bench, cluster, rate));
    Ok(Measure::P99.finding(&alternate(bench, [&mut one, &mut other])?))
}

/// Measures a follower while the leader is killed. All three nodes share its core, so an election delays it more
/// than it would if each node had its own machine.
fn while_leader_dies(
    bench: &Bench,
    cluster: &mut Cluster,
    rate: f64,
) -> impl FnMut() -> Result<Slice> {
    let mut fresh = Fresh::default();
    move || {
        let (leader, _) = cluster.leader()?;
        let follower = (leader + 1) % cluster.nodes.len();
        let node = &cluster.nodes[follower];
        let load = steady(&fresh.tag(bench, &cluster.nodes[leader], node)?, rate);
        let loading = bench.generator(&load)?.spawn()?;
        pause(load.time / 2);
        cluster.nodes[leader].process.kill();
        let outcome = outcome(&loading.wait_with_output()?)?;
        cluster.nodes[leader].restart(bench)?;
        cluster.await_ready()?;
        Ok(Slice { outcome, cpu_us: 0.0 })
    }
}

/// Half the rate that hyper reaches in a closed loop.
fn half_rate(bench: &Bench, hyper: &Peer) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..RATE_SLICES {
        rates.push(bench.load(&plain(bench, hyper))?.per_second);
    }
    Ok(Spread::of(rates).median / 2.0)
}

fn plain(bench: &Bench, hyper: &Peer) -> Load {
    gets(bench, hyper.address, &format!("{LEAF}/any"))
}

/// A load at this rate that lasts until a leader has been killed and replaced.
fn steady(load: &Load, rate: f64) -> Load {
    let time = load.time.max(Duration::from_millis(100)) * 2;
    Load { rate: Some(rate), time, ..load.clone() }
}

/// Numbers the tags, so that each one is new.
#[derive(Default)]
struct Fresh(u32);

impl Fresh {
    /// A load on a new tag that is created through one node. Another node has buffered a segment of it.
    fn tag(&mut self, bench: &Bench, through: &Node, node: &Node) -> Result<Load> {
        self.0 += 1;
        let tag = format!("fresh-{}", self.0);
        through.create_tag(&tag, STEP)?;
        node.warm_up(&tag)?;
        Ok(gets(bench, node.http, &format!("{LEAF}/{tag}")))
    }
}
