//! A process: what it says, and how it ends.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::await_some;

/// Lines of a log that a failing test shows.
const LOG_LINES_SHOWN: usize = 60;
/// What lines of the audit have, which under load would be all that is shown.
const AUDIT: &str = " mintleaf::audit: ";

/// A command that has run to its end.
#[derive(Debug)]
pub struct Finished {
    /// `None` for an end by a signal.
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

/// A process that runs until it is dropped, at the latest. Its output goes to a file, whose last lines are
/// shown when a test fails.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// How long the log was when the process was started, in bytes.
    log_start: u64,
}

impl Process {
    /// Starts `command`; `log` is appended to.
    ///
    /// # Errors
    /// When the process or its log cannot be had.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let log_start = file.metadata()?.len();
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned(), log_start })
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that was ever written to its log, by earlier processes too.
    pub fn log(&self) -> String {
        self.log_from(0)
    }

    /// What it has said since its start.
    pub fn said(&self) -> String {
        self.log_from(self.log_start)
    }

    /// A log that cannot be read is empty: it is also read while a test fails, where it must not fail again.
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

    /// How it has ended, if it has.
    ///
    /// # Panics
    /// When the system does not tell.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// SIGKILL: nothing is finished, flushed or said. It may have ended by itself.
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

    /// Waits for its end; `None` when that does not come in time.
    pub fn await_end(&mut self, within: Duration) -> Option<ExitStatus> {
        await_some(within, || self.ended())
    }

    /// Waits for its end, and answers its exit code; `None` for an end by a signal.
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
