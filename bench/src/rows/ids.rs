//! Ids over HTTP.

use super::{LEAF, gets};
use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::Load;
use crate::node::Node;
use crate::peers::nginx;
use crate::slices::{Measure, compare};

pub(super) const TAG: &str = "orders";

fn node(bench: &Bench) -> Result<Node> {
    with_tag(Node::alone(bench)?)
}

/// The node, which now holds a segment of the tag.
pub(super) fn with_tag(node: Node) -> Result<Node> {
    node.create_tag(TAG, 1_000)?;
    node.warm_up(TAG)?;
    Ok(node)
}

pub(crate) fn nginx_itself(bench: &Bench) -> Result<Finding> {
    let (one, other) = (nginx(bench, "nginx")?, nginx(bench, "nginx-again")?);
    let [first, second] = [&one, &other].map(|peer| gets(bench, peer.address, "/"));
    compare(bench, Measure::Rate, (&[&one.process], &first), (&[&other.process], &second))
}

/// Compares processor time, because the generator is the slower side with one request at a time.
pub(crate) fn single(bench: &Bench) -> Result<Finding> {
    against_nginx(bench, Measure::Cpu, 1)
}

pub(crate) fn pipelined(bench: &Bench, depth: u64) -> Result<Finding> {
    against_nginx(bench, Measure::Rate, depth)
}

fn against_nginx(bench: &Bench, by: Measure, depth: u64) -> Result<Finding> {
    let (node, nginx) = (node(bench)?, nginx(bench, "nginx")?);
    let path = format!("{LEAF}/{TAG}");
    let [ours, theirs] =
        [node.http, nginx.address].map(|target| Load { depth, ..gets(bench, target, &path) });
    compare(bench, by, (&[&node.process], &ours), (&[&nginx.process], &theirs))
}

pub(crate) fn batch(bench: &Bench) -> Result<Finding> {
    let node = node(bench)?;
    let text = format!("/v1/segment/{TAG}?count=1000");
    let mut many = gets(bench, node.http, &text);
    many.headers = "accept: text/plain\r\n".to_owned();
    let single = gets(bench, node.http, &format!("{LEAF}/{TAG}"));
    compare(bench, Measure::Rate, (&[&node.process], &many), (&[&node.process], &single))
}

pub(crate) fn snowflake(bench: &Bench) -> Result<Finding> {
    let node = node(bench)?;
    let snowflake = gets(bench, node.http, "/api/snowflake/get/any");
    let segment = gets(bench, node.http, &format!("{LEAF}/{TAG}"));
    compare(bench, Measure::CpuAsRate, (&[&node.process], &snowflake), (&[&node.process], &segment))
}
