//! Durable changes on three nodes, against three nodes of etcd on the same disk and core.
//!
//! A change of Mintleaf is `PATCH /v1/tags/TAG` with a step: exactly one command in the log, as a
//! grab is. (Several changes at the same time may share an entry and its sync; so may etcd's puts.)

use std::net::SocketAddr;

use super::gets;
use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Protocol};
use crate::node::Cluster;
use crate::peers::Etcd;
use crate::slices::{Measure, alternate, slice};

pub(crate) fn one_caller(bench: &Bench) -> Result<Finding> {
    changes(bench, Measure::P50, 1)
}

/// Many callers, and as many tags: each caller changes one tag after the other, and no two callers change the same
/// tag at a time.
pub(crate) fn many_callers(bench: &Bench) -> Result<Finding> {
    changes(bench, Measure::Rate, 50)
}

fn changes(bench: &Bench, by: Measure, callers: u64) -> Result<Finding> {
    let (cluster, etcd) = (Cluster::start(bench)?, Etcd::start(bench)?);
    for key in 0..callers {
        cluster.nodes[0].create_tag(&format!("tag-{key:07}"), 1_000)?;
    }
    let load = |target: SocketAddr| Load {
        keys: callers,
        connections: callers as usize,
        time: bench.options.slice() * 2,
        ..gets(bench, target, "")
    };
    let mut ours = || {
        let (leader, _) = cluster.leader()?;
        let request = r#"PATCH /v1/tags/tag-{key} {"step":2000}"#.to_owned();
        let load = Load { request, ..load(cluster.nodes[leader].http) };
        slice(bench, &cluster.processes(), &load)
    };
    let mut theirs = || {
        let request = "tag-{key}".to_owned();
        let load = Load { request, protocol: Protocol::Etcd, ..load(etcd.leader()?) };
        slice(bench, &etcd.processes(), &load)
    };
    Ok(by.finding(&alternate(bench, [&mut ours, &mut theirs])?))
}
