//! One node: a process that is restarted when it ends, as by a supervisor.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mintleaf_harness::{Binary, Clocks, Recorder, Serve, SlowSyncs, signal};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::links::{Links, NodeId};
use crate::logs::{LastWords, Reader};

/// Pause between the end of a process and its next start.
const RESTART_PAUSE: Duration = Duration::from_millis(300);
/// A graceful stop that takes longer counts as hanging.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How many lines that must never appear are kept. More of them would add nothing.
const OUTCRIES_MAX: usize = 100;
/// The log filter of nodes. The judge needs the grants, which are the facts about ids.
const RUST_LOG: &str = "info,openraft=off,mintleaf::grants=debug";

/// How a node is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) binary: PathBuf,
    pub(crate) data: PathBuf,
    /// The flags that let it enter a cluster, and other flags that all nodes share.
    pub(crate) flags: Vec<String>,
    /// How long it keeps serving after SIGTERM.
    pub(crate) drain: &'static str,
    /// It takes a snapshot after this many log entries.
    pub(crate) snapshot_entries: u64,
    /// The start of its command line, which limits a resource. Empty for no limit.
    pub(crate) limit: Vec<String>,
}

/// The current state of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Life {
    /// The process, while there is one.
    pub(crate) pid: Option<u32>,
    /// How often it was started.
    pub(crate) starts: u64,
    /// The node reported that its data directory must not be used again.
    pub(crate) spoilt: bool,
}

/// The end of a process that the test did not ask for.
#[derive(Clone, Debug)]
pub(crate) struct Collapse {
    pub(crate) node: NodeId,
    pub(crate) start: u64,
    pub(crate) status: String,
    pub(crate) last_words: String,
    /// It happened during a fault that may end a process.
    pub(crate) excused: bool,
    /// The process demanded that its data directory be wiped.
    pub(crate) spoilt: bool,
}

impl fmt::Display for Collapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, start, status, last_words, .. } = self;
        write!(f, "node {node} start {start} ended by itself ({status}): {last_words}")
    }
}

/// Unexpected actions of nodes.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    pub(crate) collapses: Vec<Collapse>,
    /// Log lines that must never appear.
    pub(crate) outcries: Vec<String>,
}

/// One node. Dropping it ends the process.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

struct Shared {
    id: NodeId,
    launch: Mutex<Launch>,
    /// Whether it must be restarted when it ends.
    wanted: watch::Sender<bool>,
    life: watch::Sender<Life>,
    /// The nemesis may cause its end, or a panic.
    excused: AtomicBool,
    /// Its disk has failed, so it may refuse to trust its data.
    tainted: AtomicBool,
    /// It is being killed.
    killed: AtomicBool,
    around: Surroundings,
}

/// What all nodes of a run share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The directory for logs, with one file for each start of a process.
    pub(crate) logs: PathBuf,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) syncs: Option<SlowSyncs>,
    pub(crate) links: Arc<dyn Links>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) incidents: Arc<Mutex<Incidents>>,
}

impl Node {
    /// Starts it and keeps it running.
    pub(crate) fn start(id: NodeId, launch: Launch, around: &Surroundings) -> Self {
        let shared = Arc::new(Shared {
            id,
            launch: Mutex::new(launch),
            wanted: watch::Sender::new(true),
            life: watch::Sender::new(Life::default()),
            excused: AtomicBool::new(false),
            tainted: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            around: around.clone(),
        });
        let keeper = tokio::spawn(Arc::clone(&shared).keep());
        Self { id, shared, keeper }
    }

    pub(crate) fn life(&self) -> Life {
        self.shared.life.borrow().clone()
    }

    /// Changes the settings of its next starts.
    pub(crate) fn relaunch(&self, change: impl FnOnce(&mut Launch)) {
        change(&mut self.shared.launch.lock());
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.shared.launch.lock().data.clone()
    }

    /// Sets whether the nemesis is to blame if its process ends or panics from now on.
    pub(crate) fn excuse(&self, excused: bool) {
        self.shared.excused.store(excused, Relaxed);
    }

    /// From now on it may find that its data directory cannot be trusted.
    pub(crate) fn taint(&self) {
        self.shared.tainted.store(true, Relaxed);
    }

    /// Sets whether it is restarted when it ends.
    pub(crate) fn want(&self, up: bool) {
        self.shared.wanted.send_replace(up);
    }

    /// Sends the signal of this name, if there is a process: `KILL`, `TERM`, `STOP`, `CONT`.
    pub(crate) async fn signal(&self, name: &str) {
        let Some(pid) = self.life().pid else { return };
        let mut kill = Command::from(signal(pid, name));
        // The process may have just ended by itself.
        let _ = kill.stderr(Stdio::null()).status().await;
    }

    /// Kills the process. [`Node::want`] decides whether the supervisor starts another.
    pub(crate) async fn kill(&self) {
        let starts = self.life().starts;
        self.shared.killed.store(true, Relaxed);
        self.signal("KILL").await;
        self.ended(starts).await;
        self.shared.killed.store(false, Relaxed);
    }

    /// Asks the process to end and waits for that. It stays down.
    ///
    /// # Errors
    /// When it does not end in time. It is killed then.
    pub(crate) async fn stop(&self) -> Result<(), String> {
        self.want(false);
        let starts = self.life().starts;
        self.signal("TERM").await;
        if self.ended(starts).await {
            return Ok(());
        }
        self.kill().await;
        Err(format!("node {} did not stop within {STOP_MAX:?} of SIGTERM", self.id))
    }

    async fn ended(&self, starts: u64) -> bool {
        let mut life = self.shared.life.subscribe();
        let ended = life.wait_for(|life| life.pid.is_none() || life.starts > starts);
        timeout(STOP_MAX, ended).await.is_ok()
    }

    /// Forgets what was noted about its former data directory, because it has a new one.
    pub(crate) fn renew(&self) {
        self.shared.tainted.store(false, Relaxed);
        self.shared.life.send_modify(|life| life.spoilt = false);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Shared {
    async fn keep(self: Arc<Self>) {
        let (mut wanted, mut life) = (self.wanted.subscribe(), self.life.subscribe());
        loop {
            let wanted = wanted.wait_for(|&wanted| wanted).await.is_ok();
            // A node that must not use its data directory again waits for a new one.
            if !wanted || life.wait_for(|life| !life.spoilt).await.is_err() {
                return;
            }
            match self.spawn() {
                Ok((child, log)) => self.see_through(child, log).await,
                Err(error) => self.outcry(format!("node {} cannot start: {error}", self.id)),
            }
            sleep(RESTART_PAUSE).await;
        }
    }

    fn spawn(&self) -> io::Result<(Child, File)> {
        let start = self.life.borrow().starts + 1;
        let log = self.around.logs.join(format!("node-{}-start-{start}.log", self.id));
        let log = File::create(log)?;
        let child = self.command().spawn()?;
        self.life.send_modify(|life| (life.starts, life.pid) = (start, child.id()));
        Ok((child, log))
    }

    fn command(&self) -> Command {
        let launch = self.launch.lock().clone();
        let addresses = self.around.links.addresses(self.id);
        // While SIGXFSZ is ignored, a write beyond the file size limit fails as on a full disk, and does not
        // end the process.
        let mut words = vec!["env".to_owned(), "--ignore-signal=XFSZ".to_owned()];
        words.extend(self.around.links.enter(self.id));
        words.extend(launch.limit);
        let (http, raft) = (addresses.http, addresses.raft);
        let serve = Serve { id: self.id, http, raft, data: &launch.data };
        let mut command = Command::from(Binary::at(&launch.binary).under(words).serve(&serve));
        command.args(["--advertise-raft", &addresses.advertised.to_string()]);
        command.args(["--log-format", "json"]).args(&launch.flags);
        // An older binary may not know these settings. It would reject flags, but it ignores variables.
        command.env("MINTLEAF_SNAPSHOT_ENTRIES", launch.snapshot_entries.to_string());
        command.env("MINTLEAF_DRAIN", launch.drain);
        command.env("MINTLEAF_RESP", addresses.resp.to_string());
        // Nodes in separate namespaces get each other's addresses from the test, which makes its changes from outside.
        command.env("MINTLEAF_INSECURE", "true");
        if let Some(clocks) = &self.around.clocks {
            command.envs(clocks.environment(self.id));
        }
        if let Some(syncs) = &self.around.syncs {
            let (name, file) = syncs.environment(self.id);
            let library = syncs.shared_object().into_os_string();
            let others = self.around.clocks.iter().map(|clocks| clocks.shared_object().into());
            let libraries: Vec<OsString> = others.chain([library]).collect();
            command.env(name, file).env("LD_PRELOAD", libraries.join(OsStr::new(":")));
        }
        command.env("RUST_LOG", RUST_LOG).env_remove("RUST_BACKTRACE").kill_on_drop(true);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Reads the log of a process until it has ended, and judges why it ended.
    async fn see_through(&self, mut child: Child, mut log: File) {
        let start = self.life.borrow().starts;
        let stderr = child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr).lines();
        let mut reader = Reader::new(self.id, start, &self.around.recorder);
        while let Ok(Some(line)) = lines.next_line().await {
            if let Err(error) = writeln!(log, "{line}") {
                self.outcry(format!("a log cannot be kept: {error}"));
            }
            // sled panics on some checkpoints that a power cut left half-written. The node then makes a new one.
            let opening = line.contains("thread 'checkpoint-open'");
            if reader.read(&line).is_outcry() && !self.excused.load(Relaxed) && !opening {
                self.outcry(format!("node {} start {start}: {line}", self.id));
            }
        }
        let status = child.wait().await;
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let last_words = reader.last_words();
        let spoilt = last_words.demands_wipe();
        let asked_for =
            self.killed.load(Relaxed) || !*self.wanted.borrow() && status == "exit status: 0";
        if !asked_for {
            self.collapse(start, status, last_words);
        }
        self.life.send_modify(|life| (life.pid, life.spoilt) = (None, spoilt));
    }

    fn collapse(&self, start: u64, status: String, last_words: LastWords) {
        let spoilt = last_words.demands_wipe();
        let tainted = spoilt && self.tainted.load(Relaxed);
        let excused = tainted || self.excused.load(Relaxed);
        let (node, last_words) = (self.id, last_words.to_string());
        let collapse = Collapse { node, start, status, last_words, excused, spoilt };
        if !excused {
            eprintln!("chaos: {collapse}");
        }
        self.around.incidents.lock().collapses.push(collapse);
    }

    fn outcry(&self, line: String) {
        eprintln!("chaos: {line}");
        let outcries = &mut self.around.incidents.lock().outcries;
        if outcries.len() < OUTCRIES_MAX {
            outcries.push(line);
        }
    }
}
