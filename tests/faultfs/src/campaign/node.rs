//! One node: its process and its disk.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use mintleaf_harness::{Api, Binary, await_some};

use super::Options;
use crate::device::Device;
use crate::disk::{Disk, Strictness};
use crate::mount::Mounted;

const DISK_BYTES_MAX: u64 = 1 << 30;

/// A node. Dropping it kills the process and unmounts the disk.
pub(super) struct Node {
    pub(super) id: u64,
    node: mintleaf_harness::Node,
    /// Its last end, if it ended by itself and the caller has not collected that yet.
    end: Option<Ended>,
    disk: Mounted,
}

/// A process that ended by itself.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// Its output since its start.
    pub(super) said: String,
}

impl Ended {
    /// The line that says why it ended, if there is one.
    pub(super) fn why(&self) -> &str {
        let lines: Vec<&str> = self.said.lines().collect();
        // A node that ran logs the line; a node that did not start prints it alone.
        let says_why = |line: &&&str| line.contains("ERROR") || line.starts_with("error: ");
        let error = lines.iter().rev().find(says_why);
        error.or(lines.last()).copied().unwrap_or_default()
    }
}

impl Node {
    /// A node with an empty disk. It is not running.
    pub(super) fn new(id: u64, strictness: Strictness, options: &Options) -> io::Result<Self> {
        let directory = &options.directory;
        let disk = Device::new(Disk::new(strictness, DISK_BYTES_MAX));
        let disk = Mounted::new(disk, &directory.join(format!("disk-{id}")))?;
        let mut node = mintleaf_harness::Node::new(&Binary::at(&options.binary), id, directory);
        node.set_data(disk.path().join("data"));
        // An older binary may not know this setting. It would reject the flag, but it ignores the variable.
        node.set_env("MINTLEAF_SNAPSHOT_ENTRIES", options.snapshot_entries.to_string());
        Ok(Self { id, node, end: None, disk })
    }

    /// A client of it.
    pub(super) fn api(&self) -> Api {
        self.node.api()
    }

    /// Its address for other nodes.
    pub(super) fn raft(&self) -> SocketAddr {
        self.node.raft()
    }

    pub(super) fn device(&self) -> &Device {
        self.disk.device()
    }

    /// Makes it a founder with these peers, or makes it join through one.
    pub(super) fn enter_by(&mut self, flag: &str, value: &str) {
        self.node.set_flags([flag, value]);
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        self.end = None;
        self.node.start()
    }

    pub(super) fn runs(&self) -> bool {
        self.node.process().is_some()
    }

    /// Sends SIGKILL.
    pub(super) fn kill(&mut self) {
        self.node.kill();
    }

    /// How a process ended that should be running; `None` if it is still running. The process is collected.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        self.notice_end();
        self.end.take()
    }

    fn notice_end(&mut self) {
        let Some(process) = self.node.process_mut() else { return };
        if let Some(status) = process.ended() {
            self.end = Some(Ended { status, said: process.said() });
            self.node.take_process();
        }
    }

    /// Starts it again as a supervisor would, if it was joining and ended because another change of the
    /// membership was under way. Returns whether it did. Any other end is left to [`Node::ended`].
    pub(super) fn start_if_busy(&mut self) -> io::Result<bool> {
        self.notice_end();
        let busy = |ended: &Ended| ended.said.contains("cannot join: another change");
        if !self.end.as_ref().is_some_and(busy) {
            return Ok(false);
        }
        self.start()?;
        Ok(true)
    }

    /// Waits for its end.
    pub(super) fn await_end(&mut self, within: Duration) -> Option<Ended> {
        await_some(within, || self.ended())
    }

    /// Waits until it is ready or has ended. Returns `None` when it is ready, or when neither happens in time.
    pub(super) fn await_ready_or_end(&mut self, within: Duration) -> Option<Ended> {
        let outcome = await_some(within, || {
            let ended = self.ended();
            (ended.is_some() || self.node.is_ready()).then_some(ended)
        });
        outcome.flatten()
    }

    /// Deletes its data.
    pub(super) fn wipe(&self) -> io::Result<()> {
        fs::remove_dir_all(self.node.data())
    }

    /// Copies its disk to a plain directory, to be inspected after the run.
    pub(super) fn keep_disk(&self, directory: &Path) -> io::Result<()> {
        self.device().save(&directory.join(format!("kept-disk-{}", self.id)))
    }
}
