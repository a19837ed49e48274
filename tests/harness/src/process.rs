//! A process: its output, and its end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::await_some;

/// How many lines of a log a failing test prints.
const LOG_LINES_SHOWN: usize = 60;
/// Marks the lines of the audit, which would otherwise fill that output under load.
const AUDIT: &str = " mintleaf::audit: ";

/// A command that has run to its end.
#[derive(Debug)]
pub struct Finished {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Finished {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn of(command: &mut Command) -> Self {
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

/// A process that runs until it is dropped, unless it ends earlier. Its output goes to a file; a failing test
/// prints the last lines.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// The length of the log when the process was started, in bytes.
    log_start: u64,
}

impl Process {
    /// Starts `command`, and appends its output to `log`.
    ///
    /// # Errors
    /// When the process cannot be started or its log cannot be opened.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let log_start = file.metadata()?.len();
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned(), log_start })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The complete log, including the output of earlier processes.
    pub fn log(&self) -> String {
        self.log_from(0)
    }

    /// Its output since its start.
    pub fn said(&self) -> String {
        self.log_from(self.log_start)
    }

    /// A log that cannot be read counts as empty: it is also read while a test fails, and a second failure must
    /// not follow.
    fn log_from(&self, start: u64) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            file.seek(SeekFrom::Start(start))?;
            let mut said = Vec::new();
            file.read_to_end(&mut said)?;
            Ok(said)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }

    /// The last lines of its log, without the audit's.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        let log = self.log();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains(AUDIT)).collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Panics
    /// When the system call fails.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// Sends SIGKILL: the process finishes, flushes and prints nothing more. It may have ended by itself.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends the signal of this name: `TERM`, `INT`, `STOP`, `CONT`.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, name: &str) {
        let sent = signal(self.pid(), name).status().unwrap();
        assert!(sent.success(), "cannot send SIG{name} to {}", self.name);
    }

    /// Waits for its end; `None` when it does not end in time.
    pub fn await_end(&mut self, within: Duration) -> Option<ExitStatus> {
        await_some(within, || self.ended())
    }

    /// Waits for its end, and returns its exit code; `None` if a signal ended it.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn exit_code(&mut self, within: Duration) -> Option<i32> {
        let ended = self.await_end(within);
        let ended =
            ended.unwrap_or_else(|| panic!("{} has not ended within {within:?}", self.name));
        ended.code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let lines = self.last_lines(LOG_LINES_SHOWN).join("\n");
            eprintln!("--- last lines of {}\n{lines}\n---", self.name);
        }
    }
}

/// The command that sends a process the signal of this name.
pub fn signal(pid: u32, name: &str) -> Command {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, &pid.to_string()]).stdin(Stdio::null());
    kill
}
