//! The binary as a process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use super::eventually;

/// Lines of a log that a failing test shows.
const LOG_LINES_SHOWN: usize = 60;

/// The binary, with nothing in its environment that would configure it.
pub(crate) fn mintleaf() -> Command {
    build(Path::new(env!("CARGO_BIN_EXE_mintleaf")))
}

/// Another build of it, likewise.
pub(crate) fn build(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MINTLEAF_") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// A command that has run to its end.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn of(command: &mut Command) -> Self {
        Output::into(command.output().unwrap())
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A process that runs until the test ends it, at the latest by dropping this; its output goes to
/// a file, which is shown when the test fails.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; `log` is appended to.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// Everything it has said, earlier runs with the same log included.
    pub(crate) fn log(&self) -> String {
        // Also read while a test fails, where it must not fail again.
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL: nothing is finished, flushed or said.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends the signal of this name: `TERM`, `INT`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success(), "cannot send SIG{signal} to {}", self.name);
    }

    /// Waits for its end; `None` for an end by a signal.
    pub(crate) fn exit_code(&mut self, within: Duration) -> Option<i32> {
        let what = format!("the end of {}", self.name);
        eventually(&what, within, || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("--- last lines of {}\n{}\n---", self.name, shown.join("\n"));
        }
    }
}
