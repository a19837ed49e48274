//! Mounts a device, and serves commands for it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};

use crate::device::Device;
use crate::fuse::Fuse;

/// The number of threads that serve a mount. All but one may be busy with slow syncs.
const THREADS: usize = 4;
/// The longest line of a command, in bytes.
const LINE_BYTES_MAX: u64 = 1024;
/// A client that is silent for this long is dropped, because only one is served at a time.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The source name of the mounts. It identifies mounts that a killed process left behind.
const SOURCE: &str = "mintleaf-faultfs";

/// Why mounts do not work here; `None` if they do.
pub fn why_not() -> Option<&'static str> {
    if !is_root() {
        return Some("not root");
    }
    (!Path::new("/dev/fuse").exists()).then_some("no /dev/fuse")
}

pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // The four fields are the real, effective, saved and file system user.
    ids.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

/// A device that is mounted until this is dropped.
pub struct Mounted {
    device: Arc<Device>,
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts a device on a directory, which is created if it is missing.
    pub fn new(device: Device, at: &Path) -> io::Result<Self> {
        fs::create_dir_all(at)?;
        let device = Arc::new(device);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(SOURCE.to_owned())];
        config.acl = SessionACL::All;
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(Fuse(Arc::clone(&device)), at, &config)?;
        Ok(Self { device, at: at.to_owned(), session: Some(session) })
    }

    /// The mounted device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.device.heal();
        // The mount is detached at once, even if files there are open; then the session ends.
        unmount(&self.at);
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}

fn unmount(at: &Path) {
    let mut command = Command::new("umount");
    let _ = command.arg("-l").arg(at).stderr(Stdio::null()).status();
}

/// Unmounts what killed processes left behind below a directory. Mounts of running processes answer, and are
/// left alone.
pub fn remove_leftovers(below: &Path) -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/mounts")?.lines() {
        let mut words = line.split(' ');
        let (source, at) = (words.next(), words.next().map(Path::new));
        if let (Some(SOURCE), Some(at)) = (source, at)
            && at.starts_with(below)
            && fs::metadata(at).is_err()
        {
            unmount(at);
        }
    }
    Ok(())
}

/// Serves a device's commands on a Unix socket, from a thread that lives as long as the process. The answer to
/// each line begins with `ok` or `error`.
pub fn serve_control(device: Arc<Device>, socket: &Path) -> io::Result<()> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    thread::Builder::new().name("faultfs-control".to_owned()).spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that disconnects needs no answer.
            let _ = serve_client(&device, client);
        }
    })?;
    Ok(())
}

fn serve_client(device: &Device, client: UnixStream) -> io::Result<()> {
    client.set_read_timeout(Some(SILENCE_MAX))?;
    client.set_write_timeout(Some(SILENCE_MAX))?;
    let mut answers = client.try_clone()?;
    let mut lines = BufReader::new(client);
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let answer = match device.run(&line) {
            Ok(said) => format!("ok {said}\n"),
            Err(why) => format!("error {}\n", why.lines().next().unwrap_or_default()),
        };
        answers.write_all(answer.as_bytes())?;
    }
}

/// Sends lines to a device that another process serves.
#[derive(Clone, Debug)]
pub struct Control {
    socket: PathBuf,
}

impl Control {
    /// A client of the device with this control socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Sends one line and returns the device's answer.
    ///
    /// # Errors
    /// When the device cannot be reached, or refuses the command.
    pub fn send(&self, line: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        let answer = answer.trim_end();
        match answer.strip_prefix("ok ") {
            Some(said) => Ok(said.to_owned()),
            None => Err(io::Error::other(format!("{line:?} was refused: {answer}"))),
        }
    }
}
