//! Durable changes on three nodes, compared with three nodes of etcd on the same disk and core.
//!
//! A change of Mintleaf is `PATCH /v1/tags/TAG` with a step: exactly one command in the log, as a grab is.
//! (Several changes at the same time may share an entry and its sync; so may etcd's puts.)

use std::net::SocketAddr;

use super::gets;
use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Protocol};
use crate::node::{Build, Cluster};
use crate::peers::Etcd;
use crate::slices::{Measure, Slice, alternate, slice};

pub(crate) fn one_caller(bench: &Bench) -> Result<Finding> {
    changes(bench, Measure::P50, 1)
}

/// Many callers, and as many tags. Each caller changes one tag after the other, and no two callers change the
/// same tag at the same time.
pub(crate) fn many_callers(bench: &Bench) -> Result<Finding> {
    changes(bench, Measure::Rate, 50)
}

fn changes(bench: &Bench, by: Measure, callers: u64) -> Result<Finding> {
    let (cluster, etcd) = (Cluster::start(bench)?, Etcd::start(bench)?);
    create_tags(&cluster, callers)?;
    let load = |target| by_callers(bench, target, callers);
    let mut ours = || change_steps(bench, &cluster, load);
    let mut theirs = || {
        let request = "tag-{key}".to_owned();
        let load = Load { request, protocol: Protocol::Etcd, ..load(etcd.leader()?) };
        slice(bench, &etcd.processes(), &load)
    };
    Ok(by.finding(&alternate(bench, [&mut ours, &mut theirs])?))
}

/// What authentication between nodes costs: three nodes that share a secret, and so speak TLS, and three that do not.
pub(crate) fn one_caller_by_tls(bench: &Bench) -> Result<Finding> {
    of_clusters(bench, &secured_and_plain(bench)?, Measure::P50, 1)
}

/// The same with many callers.
pub(crate) fn many_callers_by_tls(bench: &Bench) -> Result<Finding> {
    of_clusters(bench, &secured_and_plain(bench)?, Measure::Rate, 50)
}

fn secured_and_plain(bench: &Bench) -> Result<[Cluster; 2]> {
    let plain = Build::measured(bench);
    let secured = Build { name: "secured", secured: true, ..plain };
    Ok([Cluster::start_of(bench, secured)?, Cluster::start_of(bench, plain)?])
}

/// Two clusters on the same disk and core. Each has this many callers in its slices.
pub(super) fn of_clusters(
    bench: &Bench,
    clusters: &[Cluster; 2],
    by: Measure,
    callers: u64,
) -> Result<Finding> {
    clusters.iter().try_for_each(|cluster| create_tags(cluster, callers))?;
    let [mut one, mut other] = clusters.each_ref().map(|cluster| {
        move || change_steps(bench, cluster, |target| by_callers(bench, target, callers))
    });
    Ok(by.finding(&alternate(bench, [&mut one, &mut other])?))
}

fn create_tags(cluster: &Cluster, callers: u64) -> Result<()> {
    (0..callers).try_for_each(|key| cluster.nodes[0].create_tag(&format!("tag-{key:07}"), 1_000))
}

fn by_callers(bench: &Bench, target: SocketAddr, callers: u64) -> Load {
    let time = bench.options.slice() * 2;
    Load { keys: callers, connections: callers as usize, time, ..gets(bench, target, "") }
}

/// A slice of changes, sent to the leader.
fn change_steps(
    bench: &Bench,
    cluster: &Cluster,
    load: impl Fn(SocketAddr) -> Load,
) -> Result<Slice> {
    let (leader, _) = cluster.leader()?;
    let request = r#"PATCH /v1/tags/tag-{key} {"step":2000}"#.to_owned();
    let load = Load { request, ..load(cluster.nodes[leader].http) };
    slice(bench, &cluster.processes(), &load)
}
