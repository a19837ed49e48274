//! A server as a process: its start, the resources that it uses, and its end.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mintleaf_harness::pause;

use crate::Result;

/// A start or a stop that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process(mintleaf_harness::Process);

impl Process {
    /// Starts a command. Its output goes to `NAME.log` in `dir`.
    pub(crate) fn start(name: &str, mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        Ok(Self(mintleaf_harness::Process::start(name, &mut command, &log)?))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Waits until `done` returns true.
    ///
    /// # Errors
    /// When that takes too long, or the process ends first; the error contains its last output.
    pub(crate) fn await_until(&mut self, done: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            if !self.0.is_running() || Instant::now() > deadline {
                return Err(self.complaint("does not serve"));
            }
            pause(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits until it accepts connections at an address.
    pub(crate) fn await_port(&mut self, address: SocketAddr) -> Result<()> {
        self.await_until(|| TcpStream::connect(address).is_ok())
    }

    fn complaint(&self, what: &str) -> Box<dyn std::error::Error> {
        format!("{} {what}: {}", self.name(), self.0.last_lines(5).join(" / ")).into()
    }

    /// The processor time that it has used, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> Result<u64> {
        cpu_ns_of(&self.pid().to_string())
    }

    /// The memory that it holds (RSS), in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.pid()))?;
        let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kb.ok_or("no VmRSS")? * 1024)
    }

    /// Sends SIGKILL. The process may already have ended.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// When it does not end with success in time.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.0.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.0.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.complaint(&format!("ended with {status}"))),
                None if Instant::now() > deadline => return Err(self.complaint("does not stop")),
                None => pause(POLL_INTERVAL),
            }
        }
    }
}

/// The processor time that all threads of a process have used, in nanoseconds. Threads that have ended are not
/// counted; no thread of a server ends while the server is measured.
pub(crate) fn cpu_ns_of(pid: &str) -> Result<u64> {
    let mut used = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end before its file is read.
        let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        used += stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(used)
}
