//! A node that has a great many tags, all of them unused.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use mintleaf_harness::pause;

use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Protocol};
use crate::node::Node;
use crate::peers::{Peer, redis};
use crate::process::Process;
use crate::slices::thousands;
use crate::stats::Spread;

/// How long creating all tags may take.
const MAKING_MAX: Duration = Duration::from_secs(1_800);
/// How often a start is measured. Starts are short.
const STARTS: u32 = 3;
/// The pause before memory and processor time are read. By then the node has finished the work that creating
/// tags caused.
const SETTLE: Duration = Duration::from_secs(2);

/// The node.
pub(crate) struct ManyTags(RefCell<Node>);

impl ManyTags {
    /// Creates all tags through the API, with one request for each.
    pub(crate) fn make(bench: &Bench) -> Result<Self> {
        let node = Node::alone(bench)?;
        create_all(bench, &node)?;
        Ok(Self(RefCell::new(node)))
    }
}

/// Creates all tags, and waits until the node has done the work that this causes.
pub(super) fn create_all(bench: &Bench, node: &Node) -> Result<()> {
    let began = Instant::now();
    let create = r#"POST /v1/tags {"tag":"tag-{key}"}"#;
    bench.load(&every_tag(bench, Protocol::Http, node.http, create))?;
    let rate = bench.options.tags() as f64 / began.elapsed().as_secs_f64();
    eprintln!("{} tags, {} created a second", bench.options.tags(), thousands(rate));
    pause(SETTLE);
    Ok(())
}

/// A load with one request for each key.
fn every_tag(
    bench: &Bench,
    protocol: Protocol,
    target: std::net::SocketAddr,
    request: &str,
) -> Load {
    Load {
        target,
        protocol,
        request: request.to_owned(),
        headers: String::new(),
        login: String::new(),
        ca: None,
        servers: Vec::new(),
        keys: bench.options.tags(),
        connections: 256,
        depth: 4,
        time: MAKING_MAX,
        requests: Some(bench.options.tags()),
        rate: None,
    }
}

/// Compares with Redis' the memory of the node that created all tags, including the logs and caches which that left.
pub(crate) fn memory(bench: &Bench) -> Result<Finding> {
    let redis: Peer = redis(bench)?;
    bench.load(&every_tag(bench, Protocol::Resp, redis.address, "INCR tag-{key}"))?;
    let many_tags = bench.many_tags()?;
    let mut node = many_tags.0.borrow_mut();
    let [ours, theirs] = [&node.process, &redis.process].map(Process::resident);
    let (ours, theirs) = (ours? as f64, theirs? as f64);
    restart(bench, &mut node)?;
    let restarted = node.process.resident()? as f64;
    Ok(Finding {
        ours: format!("{}; {} after a restart", mb(ours), mb(restarted)),
        reference: mb(theirs),
        figure: Spread::once(ours / theirs),
    })
}

/// Compares the memory of two nodes that have just created all tags.
pub(super) fn memory_of([one, other]: &[Node; 2]) -> Result<Finding> {
    let (one, other) = (one.process.resident()? as f64, other.process.resident()? as f64);
    Ok(Finding { ours: mb(one), reference: mb(other), figure: Spread::once(one / other) })
}

fn mb(bytes: f64) -> String {
    format!("{:.0} MB", bytes / 1e6)
}

pub(crate) fn idle(bench: &Bench) -> Result<Finding> {
    let many_tags = bench.many_tags()?;
    let percent = percent_at_rest(bench, &many_tags.0.borrow())?;
    let ours = format!("over {} s", bench.options.idle().as_secs());
    Ok(Finding { ours, reference: "–".to_owned(), figure: Spread::once(percent) })
}

/// Compares two nodes at rest.
pub(super) fn idle_of(bench: &Bench, [one, other]: &[Node; 2]) -> Result<Finding> {
    let (one, other) = (percent_at_rest(bench, one)?, percent_at_rest(bench, other)?);
    let shown = |percent| format!("{percent:.2} %");
    Ok(Finding { ours: shown(one), reference: shown(other), figure: Spread::once(one / other) })
}

/// The share of a core that a node at rest uses.
fn percent_at_rest(bench: &Bench, node: &Node) -> Result<f64> {
    pause(SETTLE);
    let (began, before) = (Instant::now(), node.process.cpu_ns()?);
    pause(bench.options.idle());
    let used = node.process.cpu_ns()? - before;
    Ok(used as f64 / began.elapsed().as_nanos() as f64 * 100.0)
}

pub(crate) fn start(bench: &Bench) -> Result<Finding> {
    let many_tags = bench.many_tags()?;
    let mut node = many_tags.0.borrow_mut();
    let starts = (0..STARTS).map(|_| Ok(restart(bench, &mut node)?.as_secs_f64()));
    let seconds: Vec<f64> = starts.collect::<Result<_>>()?;
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let ours = format!("{STARTS} starts, {longest:.2} s at most");
    Ok(Finding { ours, reference: "–".to_owned(), figure: Spread::of(seconds) })
}

/// Compares the starts of two nodes, which take turns.
pub(super) fn starts_of(bench: &Bench, [one, other]: &mut [Node; 2]) -> Result<Finding> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..bench.options.kills() {
        ours.push(restart(bench, one)?.as_secs_f64());
        theirs.push(restart(bench, other)?.as_secs_f64());
    }
    let shown = |seconds: &[f64]| format!("{:.3} s", Spread::of(seconds.iter().copied()).median);
    Ok(Finding {
        ours: shown(&ours),
        reference: shown(&theirs),
        figure: Spread::of(ours.iter().zip(&theirs).map(|(one, other)| one / other)),
    })
}

/// Restarts a node, and returns how long its start took.
fn restart(bench: &Bench, node: &mut Node) -> Result<Duration> {
    node.process.stop()?;
    let began = Instant::now();
    node.restart(bench)?;
    node.await_ready()?;
    Ok(began.elapsed())
}
