//! Where nodes keep their data: directories of this machine, or disks whose failures are simulated.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mintleaf_faultfs::{Cut, Device, Disk, Failure, Mounted, Operation, Rule, Strictness};

use crate::links::NodeId;

/// Far more than a run writes.
const DISK_BYTES: u64 = 1 << 30;

/// The disks of a cluster. Dropping this unmounts those that are mounted.
pub(crate) struct Disks {
    dir: PathBuf,
    mounted: BTreeMap<NodeId, Mounted>,
}

impl Disks {
    /// Directories below `dir`.
    pub(crate) fn plain(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), mounted: BTreeMap::new() }
    }

    /// Disks mounted below `dir`. In a power cut they lose what was not synced.
    ///
    /// # Errors
    /// When they cannot be mounted; see [`mintleaf_faultfs::why_not`].
    pub(crate) fn mounted(dir: &Path, nodes: &[NodeId]) -> io::Result<Self> {
        let mut disks = Self::plain(dir);
        for &node in nodes {
            let device = Device::new(Disk::new(Strictness::Strict, DISK_BYTES));
            disks.mounted.insert(node, Mounted::new(device, &disks.data(node))?);
        }
        Ok(disks)
    }

    /// A node's data directory.
    pub(crate) fn data(&self, node: NodeId) -> PathBuf {
        self.dir.join(format!("data-{node}"))
    }

    /// A directory beside those of the nodes, for other data.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn device(&self, node: NodeId) -> Option<&Device> {
        self.mounted.get(&node).map(|mounted| &**mounted.device())
    }

    /// Makes every write or every sync of a node fail. Returns false where its disk is a plain directory.
    pub(crate) fn fail(&self, node: NodeId, operation: Operation, failure: Failure) -> bool {
        let rule = Rule { operation, failure, nth: None, pattern: None };
        self.device(node).map(|device| device.fail(rule)).is_some()
    }

    /// Makes every sync take this long.
    pub(crate) fn slow(&self, node: NodeId, sync: Duration) {
        if let Some(device) = self.device(node) {
            device.slow_fsync(sync);
        }
    }

    /// Cuts the power of a node whose process is dead, and turns it on again.
    pub(crate) fn cut_power(&self, node: NodeId, cut: Cut, seed: u64) {
        if let Some(device) = self.device(node) {
            device.cut(cut, seed);
        }
    }

    /// Ends failures and delays.
    pub(crate) fn heal(&self) {
        self.mounted.values().for_each(|mounted| mounted.device().heal());
    }

    /// Unmounts the disks, which loses their contents.
    pub(crate) fn unmount(&mut self) {
        self.mounted.clear();
    }

    /// Copies the contents of mounted disks into directories beside them, to be inspected after the run.
    ///
    /// # Errors
    /// When they cannot be copied.
    pub(crate) fn keep(&self) -> io::Result<()> {
        for (node, mounted) in &self.mounted {
            let to = self.dir.join(format!("disk-{node}"));
            std::fs::create_dir_all(&to)?;
            mounted.device().save(&to)?;
        }
        Ok(())
    }
}
