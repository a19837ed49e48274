//! The surroundings of a run, and what its seed decides in addition to the faults.

use std::io;
use std::path::Path;
use std::sync::Arc;

use mintleaf_harness::SlowSyncs;

use crate::climate::{CLIMATES, Climate};
use crate::links::{Links, NodeId};
use crate::namespaces::Namespaces;
use crate::options::Options;
use crate::preflight::Machine;
use crate::proxy::Proxies;
use crate::random::Random;

/// The longest windows of snowflakes that a run may have.
pub(crate) const WINDOW_LONGEST: &str = "60s";

/// The surroundings of a run.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) climate: Climate,
    pub(crate) syncs: Option<SlowSyncs>,
    pub(crate) machine: Machine,
}

/// The climate that was named or drawn, and the library that slows its syncs. If it cannot be built, the
/// climate is mild.
pub(crate) fn climate(
    options: &Options,
    seed: u64,
    dir: &Path,
) -> (Climate, Result<Option<SlowSyncs>, String>) {
    let climate = options.climate.unwrap_or_else(|| Climate::drawn(seed));
    match climate.has_slow_disks().then(|| SlowSyncs::build(dir)).transpose() {
        Ok(syncs) => (climate, Ok(syncs)),
        Err(why) => {
            let skipped = format!("climate {}: {why}", climate.name);
            eprintln!("SKIPPED: {skipped}");
            (CLIMATES[0], Err(skipped))
        }
    }
}

/// The links between nodes: packets if the machine supports them, otherwise streams.
///
/// # Errors
/// When neither works.
pub(crate) async fn links(packets: bool, ids: &[NodeId], seed: u64) -> io::Result<Arc<dyn Links>> {
    if packets {
        return Ok(Arc::new(Namespaces::new(ids.len() as u64)?));
    }
    Ok(Arc::new(Proxies::start(ids, seed).await?))
}

/// Chooses the length of windows. Short ones are renewed often, long ones bridge outages, and each kind can
/// fail in a different way.
pub(crate) fn window(seed: u64) -> &'static str {
    let &length = Random::new(seed, "window").pick(&["3s", "10s", WINDOW_LONGEST]);
    length
}

/// Chooses how long a node drains when it is asked to stop.
pub(crate) fn drain(seed: u64) -> &'static str {
    let &length = Random::new(seed, "drain").pick(&["0", "1s", "3s"]);
    length
}

/// Chooses how soon a snapshot replaces the log. With a short log, nodes that were away are sent the snapshot;
/// with a long one they replay it.
pub(crate) fn snapshot_entries(seed: u64) -> u64 {
    *Random::new(seed, "snapshots").pick(&[100, 1_000, 20_000])
}
