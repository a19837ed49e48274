//! Slow disks without root: a library between a node and the system makes each of its syncs slow, by as many
//! milliseconds as a file says while the node runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("../preload/slow-syncs.c");
const LIBRARY: &str = "slow-syncs.so";

/// How slow the disks of a cluster's nodes are.
#[derive(Clone, Debug)]
pub struct SlowSyncs {
    dir: PathBuf,
}

impl SlowSyncs {
    /// Builds the library in `dir`, which also gets a file for each node.
    ///
    /// # Errors
    /// What this machine lacks, for a line that begins with SKIPPED.
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
    pub fn library(&self) -> PathBuf {
        self.dir.join(LIBRARY)
    }

    /// What a node's environment needs besides the library.
    pub fn environment(&self, node: u64) -> (&'static str, PathBuf) {
        ("SLOW_SYNCS_FILE", self.file(node))
    }

    /// Makes each sync of a node, running or not, take so much longer.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, node: u64, ms: u64) -> io::Result<()> {
        let new = self.dir.join(format!("sync-{node}.new"));
        fs::write(&new, ms.to_string())?;
        // At once: a node must never read half of it.
        fs::rename(new, self.file(node))
    }

    /// Whether a process runs with the library; a binary that is linked statically never does.
    pub fn is_loaded(&self, pid: u32) -> bool {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.contains(LIBRARY))
    }

    fn file(&self, node: u64) -> PathBuf {
        self.dir.join(format!("sync-{node}"))
    }
}
