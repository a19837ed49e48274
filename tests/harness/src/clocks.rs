//! Wall clocks of nodes, which can be set while the nodes run.
//!
//! libfaketime intercepts a node's reads of the machine's wall clock, and reads from a file how far to shift
//! it. The monotonic clock stays as it is, and with it every timer: it cannot be set.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Cluster;

/// Where distributions install the library. It has two variants; this is the one for threads.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The wall clocks of a cluster's nodes.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// The library, which is loaded before all others.
    preload: &'static str,
    dir: PathBuf,
}

impl Clocks {
    /// `None` on a machine without the library.
    pub fn find(dir: &Path) -> Option<Self> {
        let preload = LIBRARIES.into_iter().find(|path| Path::new(path).exists())?;
        sweep();
        Some(Self { preload, dir: dir.to_owned() })
    }

    /// The library, for `LD_PRELOAD`.
    pub fn shared_object(&self) -> &'static Path {
        Path::new(self.preload)
    }

    /// The environment variables that a node needs.
    pub fn environment(&self, node: u64) -> [(&'static str, PathBuf); 4] {
        [
            ("LD_PRELOAD", self.preload.into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file(node)),
        ]
    }

    /// Sets the clock of a node, running or not, to `by_ms` ahead of the machine's.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn shift(&self, node: u64, by_ms: i64) -> io::Result<()> {
        let new = self.dir.join(format!("clock-{node}.new"));
        let (sign, by_ms) = (if by_ms < 0 { '-' } else { '+' }, by_ms.unsigned_abs());
        fs::write(&new, format!("{sign}{}.{:03}", by_ms / 1_000, by_ms % 1_000))?;
        // The rename is atomic: a node must never read half of the file.
        fs::rename(new, self.file(node))
    }

    fn file(&self, node: u64) -> PathBuf {
        self.dir.join(format!("clock-{node}"))
    }
}

/// The wall clocks of a [`Cluster`].
#[derive(Debug)]
pub struct WallClocks(Clocks);

impl WallClocks {
    /// Takes control of the clocks of nodes that are not running yet. Without libfaketime there is nothing to
    /// test: it returns `None`, and prints the test's `name` even if the output is captured.
    ///
    /// # Panics
    /// When a clock cannot be set.
    pub fn of(cluster: &mut Cluster, name: &str) -> Option<Self> {
        let Some(clocks) = Clocks::find(cluster.dir()) else {
            let line = format!("SKIPPED: {name} needs libfaketime (apt-get install faketime)\n");
            // Not by the macro: the output of a passing test is hidden.
            io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        };
        for id in cluster.ids() {
            clocks.shift(id, 0).unwrap();
            for (name, value) in clocks.environment(id) {
                cluster.set_env(id, name, value);
            }
        }
        Some(Self(clocks))
    }

    /// Sets the clock of a node, running or not, to `by_ms` ahead of the machine's.
    ///
    /// # Panics
    /// When it cannot be set.
    pub fn shift(&self, id: u64, by_ms: i64) {
        self.0.shift(id, by_ms).unwrap();
    }
}

/// Removes the library's shared memory of killed processes. It is named after the process id, and a later
/// process with the same id would not start.
pub fn sweep() {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = ["faketime_shm_", "sem.faketime_sem_"].iter().find_map(|p| name.strip_prefix(p));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another process may remove it at the same time.
            let _ = fs::remove_file(entry.path());
        }
    }
}
