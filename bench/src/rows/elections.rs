//! Elections under full load, while no leader dies.

use super::{LEAF, gets};
use crate::Result;
use crate::bench::{Bench, outcome};
use crate::catalog::Finding;
use crate::load::Load;
use crate::node::Cluster;
use crate::slices::thousands;
use crate::stats::Spread;

/// Three generators on one core, three nodes on another: no process gets as much time as it could use.
pub(crate) fn under_load(bench: &Bench) -> Result<Finding> {
    let cluster = Cluster::start(bench)?;
    cluster.nodes[0].create_tag("orders", 1_000)?;
    let (_, before) = cluster.leader()?;
    let mut loading = Vec::new();
    for node in &cluster.nodes {
        node.warm_up("orders")?;
        let load = gets(bench, node.http, &format!("{LEAF}/orders"));
        let load = Load { depth: 16, time: bench.options.full_load(), ..load };
        loading.push(bench.generator(&load)?.spawn()?);
    }
    let mut rate = 0.0;
    for loading in loading {
        rate += outcome(&loading.wait_with_output()?)?.per_second;
    }
    let (_, after) = cluster.leader()?;
    let seconds = bench.options.full_load().as_secs();
    let ours = format!("over {seconds} s at {}/s", thousands(rate));
    let terms = Spread::once((after - before) as f64);
    Ok(Finding { ours, reference: "–".to_owned(), figure: terms })
}
