//! Wall clocks of a test's nodes, set while they run.

use std::io::Write;

use super::Cluster;
use super::clocks::Clocks;

/// The wall clocks of a cluster's nodes.
pub(crate) struct WallClocks(Clocks);

impl WallClocks {
    /// Takes hold of the clocks of nodes that do not run yet. Without libfaketime there is nothing
    /// to test: `None`, and the test's `name` is told to whoever watches, captured or not.
    pub(crate) fn of(cluster: &mut Cluster, name: &str) -> Option<Self> {
        let Some(clocks) = Clocks::find(cluster.dir()) else {
            let line = format!("SKIPPED: {name} needs libfaketime (apt-get install faketime)\n");
            // Not by the macro, whose output a passing test keeps to itself.
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        };
        for id in cluster.ids() {
            clocks.shift(id, 0).unwrap();
            for (name, value) in clocks.environment(id) {
                cluster.set_env(id, name, value.to_str().unwrap());
            }
        }
        Some(Self(clocks))
    }

    /// Sets the clock of a node, running or not, to `by_ms` ahead of the machine's.
    pub(crate) fn shift(&self, id: u64, by_ms: i64) {
        self.0.shift(id, by_ms).unwrap();
    }
}
