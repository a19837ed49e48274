//! The time from the kill of a leader to the next grab.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mintleaf_harness::{Api, pause};

use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::node::Cluster;
use crate::stats::Spread;

/// Longer than any election.
const GRAB_MAX: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// From the moment of the kill, both other nodes are asked for an id of a tag that they hold no ids of. The
/// first answer comes from the first new grab that was committed.
pub(crate) fn after_kill(bench: &Bench) -> Result<Finding> {
    let mut cluster = Cluster::start(bench)?;
    let mut seconds = Vec::new();
    for kill in 0..bench.options.kills() {
        let (leader, _) = cluster.leader()?;
        let tag = format!("tag-{kill}");
        cluster.nodes[leader].create_tag(&tag, 1_000)?;
        let path = format!("/v1/segment/{tag}");
        let others = cluster.nodes.iter().enumerate().filter(|(at, _)| *at != leader);
        let others: Vec<SocketAddr> = others.map(|(_, node)| node.http).collect();
        for other in &others {
            await_ok(*other, &format!("/v1/tags/{tag}?consistency=stale"));
        }
        let (answered, first) = mpsc::channel();
        let began = Instant::now();
        cluster.nodes[leader].process.kill();
        for other in others {
            let (path, answered) = (path.clone(), answered.clone());
            thread::spawn(move || {
                await_ok(other, &path);
                // Only the first answer is received.
                let _ = answered.send(began.elapsed());
            });
        }
        let took = first.recv_timeout(GRAB_MAX).map_err(|_| "no node could grab any more")?;
        eprintln!("  grabbed {:.0} ms after the kill", took.as_secs_f64() * 1e3);
        seconds.push(took.as_secs_f64());
        cluster.nodes[leader].restart(bench)?;
        cluster.await_ready()?;
    }
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let ours = format!("{} kills, {longest:.2} s at most", seconds.len());
    Ok(Finding { ours, reference: "–".to_owned(), figure: Spread::of(seconds) })
}

/// Asks again until the answer is a success, for at most [`GRAB_MAX`].
fn await_ok(node: SocketAddr, path: &str) {
    let began = Instant::now();
    while !Api(node).try_get(path).is_ok_and(|answer| answer.is_ok()) && began.elapsed() < GRAB_MAX
    {
        pause(RETRY_PAUSE);
    }
}
