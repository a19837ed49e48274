//! Slow disks without root. A library that is loaded into a node delays each of its syncs, by the number of
//! milliseconds in a file, which may change while the node runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("../preload/slow-syncs.c");
const LIBRARY: &str = "slow-syncs.so";

/// The delays of the disks of a cluster's nodes.
#[derive(Clone, Debug)]
pub struct SlowSyncs {
    dir: PathBuf,
}

impl SlowSyncs {
    /// Builds the library in `dir`, which also gets a file for each node.
    ///
    /// # Errors
    /// What this machine lacks, as text for a line that begins with SKIPPED.
    pub fn build(dir: &Path) -> Result<Self, String> {
        let source = dir.join("slow-syncs.c");
        let told = |error: io::Error| format!("no slow syncs: {error}");
        fs::write(&source, SOURCE).map_err(told)?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(dir.join(LIBRARY)).arg(source).arg("-ldl");
        let built = cc.stdin(Stdio::null()).output();
        let built = built.map_err(|error| format!("slow syncs need a C compiler, cc: {error}"))?;
        if !built.status.success() {
            return Err(format!(
                "cc builds no library: {}",
                String::from_utf8_lossy(&built.stderr)
            ));
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// The library, for `LD_PRELOAD`.
    pub fn shared_object(&self) -> PathBuf {
        self.dir.join(LIBRARY)
    }

    /// The environment variable that a node needs in addition to the library.
    pub fn environment(&self, node: u64) -> (&'static str, PathBuf) {
        ("SLOW_SYNCS_FILE", self.file(node))
    }

    /// Makes each sync of a node take this much longer. The node may be running.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, node: u64, ms: u64) -> io::Result<()> {
        let new = self.dir.join(format!("sync-{node}.new"));
        fs::write(&new, ms.to_string())?;
        // The rename is atomic: a node must never read half of the file.
        fs::rename(new, self.file(node))
    }

    /// Whether a process has loaded the library. A statically linked binary never does.
    pub fn is_loaded(&self, pid: u32) -> bool {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.contains(LIBRARY))
    }

    fn file(&self, node: u64) -> PathBuf {
        self.dir.join(format!("sync-{node}"))
    }
}
