//! Wall clocks of nodes, set while they run.
//!
//! libfaketime stands between a node and the machine's wall clock and reads how far to shift it
//! from a file. The monotonic clock, and with it every timer, is left alone: nobody can set it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::Cluster;

/// Where distributions put the library; of the two that it comes as, the one for threads.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The wall clocks of a cluster's nodes.
pub(crate) struct WallClocks {
    dir: PathBuf,
}

impl WallClocks {
    /// Takes hold of the clocks of nodes that do not run yet. Without the library there is nothing
    /// to test: `None`, and the test's `name` is told to whoever watches, captured or not.
    pub(crate) fn of(cluster: &mut Cluster, name: &str) -> Option<Self> {
        let Some(library) = LIBRARIES.iter().find(|path| Path::new(path).exists()) else {
            let line = format!("SKIPPED: {name} needs libfaketime (apt-get install faketime)\n");
            // Not by the macro, whose output a passing test keeps to itself.
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        };
        sweep();
        let clocks = Self { dir: cluster.dir().to_owned() };
        for id in cluster.ids() {
            clocks.shift(id, 0);
            cluster.set_env(id, "LD_PRELOAD", library);
            cluster.set_env(id, "FAKETIME_DONT_FAKE_MONOTONIC", "1");
            cluster.set_env(id, "FAKETIME_NO_CACHE", "1");
            cluster.set_env(id, "FAKETIME_TIMESTAMP_FILE", clocks.file(id).to_str().unwrap());
        }
        Some(clocks)
    }

    /// Sets the clock of a node, running or not, to `by_ms` ahead of the machine's.
    pub(crate) fn shift(&self, id: u64, by_ms: i64) {
        let (file, new) = (self.file(id), self.dir.join(format!("clock-{id}.new")));
        let (sign, by_ms) = (if by_ms < 0 { '-' } else { '+' }, by_ms.unsigned_abs());
        fs::write(&new, format!("{sign}{}.{:03}", by_ms / 1_000, by_ms % 1_000)).unwrap();
        // At once: a node must never read half of it.
        fs::rename(new, file).unwrap();
    }

    fn file(&self, id: u64) -> PathBuf {
        self.dir.join(format!("clock-{id}"))
    }
}

/// A killed process leaves the library's shared memory behind, named after its process id; one that
/// is given the same id later would not start.
fn sweep() {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = ["faketime_shm_", "sem.faketime_sem_"].iter().find_map(|p| name.strip_prefix(p));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another test may sweep, too.
            let _ = fs::remove_file(entry.path());
        }
    }
}
