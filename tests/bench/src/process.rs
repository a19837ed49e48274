//! A server: a process, what it uses, and its end.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// What a start or a stop may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command; what it says goes to `NAME.log` in `dir`.
    pub(crate) fn start(name: &str, mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log)?;
        let child = command.stdout(out.try_clone()?).stderr(out).spawn()?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until `done` says so.
    ///
    /// # Errors
    /// When it takes too long, or the process ends meanwhile; with its last words.
    pub(crate) fn await_until(&mut self, done: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(self.complaint("does not serve"));
            }
            pause(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits until it takes connections at an address.
    pub(crate) fn await_port(&mut self, address: SocketAddr) -> Result<()> {
        self.await_until(|| TcpStream::connect(address).is_ok())
    }

    fn complaint(&self, what: &str) -> Box<dyn std::error::Error> {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        format!("{} {what}: {}", self.name, last.join(" / ")).into()
    }

    /// Processor time that it has used, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> Result<u64> {
        cpu_ns_of(&self.child.id().to_string())
    }

    /// Memory that it really uses, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kb.ok_or("no VmRSS")? * 1024)
    }

    /// SIGKILL. It may have ended by itself.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and the end.
    ///
    /// # Errors
    /// When it does not end well in time.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-s", "TERM", &pid]).status()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.ended(status)),
                None if Instant::now() > deadline => return Err(self.complaint("does not stop")),
                None => pause(POLL_INTERVAL),
            }
        }
    }

    fn ended(&self, status: ExitStatus) -> Box<dyn std::error::Error> {
        self.complaint(&format!("ended with {status}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Processor time that all threads of a process have used, in nanoseconds. Threads that have ended
/// count no more; none of a server's do while it is measured.
pub(crate) fn cpu_ns_of(pid: &str) -> Result<u64> {
    let mut used = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // One may end between the two.
        let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        used += stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(used)
}

/// Waits. Nothing here could wake this thread sooner: other processes cannot.
pub(crate) fn pause(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

/// An address of this machine that nobody uses now.
///
/// # Errors
/// When there is none.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
