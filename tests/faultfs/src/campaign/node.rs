//! One node: its process, and the disk it runs on.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::{Options, eventually, http};
use crate::device::Device;
use crate::disk::{Disk, Strictness};
use crate::mount::Mounted;

const DISK_BYTES_MAX: u64 = 1 << 30;

/// A node. Dropping it kills the process and unmounts the disk.
pub(super) struct Node {
    pub(super) id: u64,
    http: Port,
    raft: Port,
    binary: PathBuf,
    snapshot_entries: u64,
    process: Option<Child>,
    /// Its last end, if it ended by itself and nobody asked yet.
    end: Option<Ended>,
    log: PathBuf,
    /// Length of the log when the process was started.
    log_start: u64,
    /// How it enters a cluster.
    entry: [String; 2],
    disk: Mounted,
}

/// A process that ended by itself.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// What it said since its start.
    pub(super) said: String,
}

impl Ended {
    /// The line that says why, as far as one does.
    pub(super) fn why(&self) -> &str {
        let lines: Vec<&str> = self.said.lines().collect();
        let error = lines.iter().rev().find(|line| line.contains("ERROR"));
        error.or(lines.last()).copied().unwrap_or_default()
    }
}

impl Node {
    /// A node with an empty disk; it does not run.
    pub(super) fn new(id: u64, strictness: Strictness, options: &Options) -> io::Result<Self> {
        let directory = &options.directory;
        let disk = Device::new(Disk::new(strictness, DISK_BYTES_MAX));
        let disk = Mounted::new(disk, &directory.join(format!("disk-{id}")))?;
        Ok(Self {
            id,
            http: Port::claim()?,
            raft: Port::claim()?,
            binary: options.binary.clone(),
            snapshot_entries: options.snapshot_entries,
            process: None,
            end: None,
            log: directory.join(format!("node-{id}.log")),
            log_start: 0,
            entry: Default::default(),
            disk,
        })
    }

    /// Where clients ask.
    pub(super) fn http(&self) -> SocketAddr {
        self.http.address
    }

    /// Where other nodes ask.
    pub(super) fn raft(&self) -> SocketAddr {
        self.raft.address
    }

    pub(super) fn device(&self) -> &Device {
        self.disk.device()
    }

    /// Makes it a founder with these peers, or lets it join through one.
    pub(super) fn enter_by(&mut self, flag: &str, value: String) {
        self.entry = [flag.to_owned(), value];
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        self.log_start = log.metadata()?.len();
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--node-id", &self.id.to_string()]);
        command.args(["--http", &self.http().to_string(), "--raft", &self.raft().to_string()]);
        command.arg("--data").arg(self.data()).args(&self.entry);
        // Not as a flag: an older binary, which does not know it, starts nonetheless.
        command.env("MINTLEAF_SNAPSHOT_ENTRIES", self.snapshot_entries.to_string());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(command.spawn()?);
        self.end = None;
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.disk.path().join("data")
    }

    pub(super) fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// What became of a process that should run, if it ended; it does not run any more then.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        self.notice_end();
        self.end.take()
    }

    fn notice_end(&mut self) {
        let status = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
        if let Some(status) = status {
            self.process = None;
            self.end = Some(Ended { status, said: self.said() });
        }
    }

    /// Starts it again as a supervisor would, when it joined and ended because another change of
    /// the membership was under way. Returns whether it did. Any other end is left to be seen.
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
        eventually(within, || self.ended())
    }

    /// Waits until it is ready, which is `None`, or has ended.
    pub(super) fn await_ready_or_end(&mut self, within: Duration) -> Option<Ended> {
        let outcome = eventually(within, || {
            let ended = self.ended();
            let ready = || http::get(self.http(), "/readyz").is_ok_and(|a| a.status == 200);
            (ended.is_some() || ready()).then_some(ended)
        });
        outcome.flatten()
    }

    fn said(&self) -> String {
        let read = || -> io::Result<String> {
            let mut log = File::open(&self.log)?;
            log.seek(SeekFrom::Start(self.log_start))?;
            let mut said = Vec::new();
            log.read_to_end(&mut said)?;
            Ok(String::from_utf8_lossy(&said).into_owned())
        };
        read().unwrap_or_else(|error| format!("its log cannot be read: {error}"))
    }

    /// Deletes its data.
    pub(super) fn wipe(&self) -> io::Result<()> {
        fs::remove_dir_all(self.data())
    }

    /// Copies its disk to a plain directory, for whoever wants to know.
    pub(super) fn keep_disk(&self, directory: &Path) -> io::Result<()> {
        self.device().save(&directory.join(format!("kept-disk-{}", self.id)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A TCP port of this machine that stays ours while the node is down: the claim is the UDP port of
/// the same number. It lies below those that the kernel gives to clients.
#[derive(Debug)]
struct Port {
    address: SocketAddr,
    _claim: UdpSocket,
}

impl Port {
    fn claim() -> io::Result<Self> {
        let first = 14_000 + (std::process::id() % 97) as u16 * 100;
        let free = (first..first + 2_000).find_map(|number| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, number));
            let claim = UdpSocket::bind(address).ok()?;
            TcpListener::bind(address).ok().map(|_| Port { address, _claim: claim })
        });
        free.ok_or_else(|| io::Error::other(format!("no free port from {first} on")))
    }
}
