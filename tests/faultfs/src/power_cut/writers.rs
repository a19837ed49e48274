//! The programs whose disk is cut, and what they have acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mintleaf_harness::{
    Answer, Api, Binary, NoAnswer, Process, eventually, ms, pause, peers, secs,
};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::json;

/// How long a start or a verification may take on a busy machine.
const PATIENCE: Duration = secs(60);
/// Records of the store that a purge leaves, and entries between two snapshots of a node: few, so that purges are
/// frequent.
const RECORDS_KEPT: &str = "60";
const SNAPSHOT_ENTRIES: &str = "100";
/// Clients of a node, and the pause between two turns of each: snapshots of all their tags must fit on the disk.
const CLIENTS: usize = 3;
const PACE: Duration = ms(20);
/// Answers of a node that are verified: the newest, which a cut could cost, and some of any age.
const NEWEST: usize = 300;
const ANY_AGE: usize = 100;

/// A program on the live disk, and what it has acknowledged. Signals of the terminal do not reach it: an interrupted
/// run must not look like a failure.
pub(super) trait Writer {
    fn process(&mut self) -> &mut Process;

    /// Notes what is acknowledged by now, and returns how much that is.
    fn note(&mut self) -> String;

    /// Verifies that a disk has everything that was noted.
    fn verify(&self, disk: &Path, random: &mut StdRng);

    /// Starts again after a kill, on a disk that has what was noted and need not have more.
    fn start_again(&mut self, random: &mut StdRng);
}

/// The torture example. A round that it acknowledges implies all earlier ones.
pub(super) struct Store {
    write: Command,
    process: Process,
    disk: PathBuf,
    acked: u64,
}

impl Store {
    pub(super) fn start(torture: &Path, disk: &Path) -> Self {
        let mut write = Command::new(torture);
        write.arg("write").arg(disk.join("store")).arg(RECORDS_KEPT);
        let process = start(&mut write, disk);
        eventually("the first round", PATIENCE, || process.said().contains('\n').then_some(()));
        Self { write, process, disk: disk.to_owned(), acked: 0 }
    }
}

/// Its log is beside the disk.
fn start(torture: &mut Command, disk: &Path) -> Process {
    let apart = torture.process_group(0);
    let process = Process::start("torture", apart, &disk.with_extension("log"));
    process.expect("the torture example can be started")
}

impl Writer for Store {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn note(&mut self) -> String {
        let said = self.process.said();
        // The last line may be without its end yet.
        let mut lines = said.rsplit('\n').skip(1);
        let last = lines.find_map(|line| line.strip_prefix("ack ")?.parse().ok());
        self.acked = last.unwrap_or(self.acked);
        format!("{} rounds", self.acked)
    }

    fn verify(&self, disk: &Path, _: &mut StdRng) {
        let mut verify = Command::new(self.write.get_program());
        verify.arg("verify").arg(disk.join("store")).args([&self.acked.to_string(), RECORDS_KEPT]);
        let mut process = start(&mut verify, disk);
        assert!(process.exit_code(PATIENCE) == Some(0), "{}", process.said());
    }

    fn start_again(&mut self, random: &mut StdRng) {
        // Half of the times the writer is the first to open the store, and may be cut off while it does.
        if random.gen_bool(0.5) {
            self.verify(&self.disk, random);
        }
        self.process = start(&mut self.write, &self.disk);
    }
}

/// A cluster of one under clients, who end with it.
pub(super) struct Node {
    binary: Binary,
    node: mintleaf_harness::Node,
    clients: Vec<JoinHandle<()>>,
    /// How often clients were started. It makes the names of their tags new after each cut.
    starts: u64,
    acked: Acked,
    /// How many of them are noted.
    noted: usize,
}

/// Tags in the order of the answers, each with the highest id of the answer.
type Acked = Arc<Mutex<Vec<(String, u64)>>>;

impl Node {
    pub(super) fn start(binary: &Path, disk: &Path) -> Self {
        let binary = Binary::at(binary).under(["setsid"]);
        let node = node_on(&binary, disk);
        let (clients, acked) = (Vec::new(), Acked::default());
        let mut node = Self { binary, node, clients, starts: 0, acked, noted: 0 };
        node.serve();
        node
    }

    fn serve(&mut self) {
        self.starts += 1;
        for client in 0..CLIENTS {
            let (api, acked, start) = (self.node.api(), Arc::clone(&self.acked), self.starts);
            self.clients.push(thread::spawn(move || {
                for turn in 0_u64.. {
                    // A turn without an answer promises nothing. A client ends when its node is gone.
                    let taken = take_turn(api, client, &format!("{start}-{turn}"), &acked);
                    if let Err(NoAnswer::Unreached(_)) = taken {
                        return;
                    }
                    pause(PACE);
                }
            }));
        }
    }

    /// Some of the tags that were noted, each with its highest id among them.
    fn sample(&self, random: &mut StdRng) -> BTreeMap<String, u64> {
        let acked = &self.acked.lock()[..self.noted];
        let newest = acked.iter().rev().take(NEWEST);
        let mut sample = BTreeMap::new();
        for (tag, id) in newest.chain(acked.choose_multiple(random, ANY_AGE)) {
            let highest: &mut u64 = sample.entry(tag.clone()).or_default();
            *highest = (*highest).max(*id);
        }
        sample
    }

    /// Verifies that a node gives ids above those that were noted. A lost tag would be created again, and begin at 1.
    fn ask(&self, api: Api, random: &mut StdRng) {
        for (tag, before) in self.sample(random) {
            let path = format!("/api/segment/get/{tag}");
            let after = eventually("an id after the cut", PATIENCE, || take(api, &path).ok());
            assert!(after > before, "{tag} gave {before} before the cut and {after} after it");
        }
    }
}

/// A node with its data on this disk, and its log beside it. It is ready.
fn node_on(binary: &Binary, disk: &Path) -> mintleaf_harness::Node {
    let logs = disk.with_extension("logs");
    fs::create_dir_all(&logs).expect("the directory of the disk can be written to");
    let mut node = mintleaf_harness::Node::new(binary, 1, &logs);
    node.set_data(disk.join("data"));
    node.set_flags(["--auto-create-tags", "--peers", &peers([&node])]);
    node.set_env("MINTLEAF_SNAPSHOT_ENTRIES", SNAPSHOT_ENTRIES);
    start_ready(&mut node);
    node
}

fn start_ready(node: &mut mintleaf_harness::Node) {
    node.start().expect("the binary can be started");
    eventually("the node to be ready", PATIENCE, || {
        assert!(node.process_mut().is_some_and(Process::is_running), "the node does not start");
        node.is_ready().then_some(())
    });
}

/// Creates a tag and takes ids of it, in three grabs at least, and of one tag that stays.
fn take_turn(api: Api, client: usize, turn: &str, acked: &Acked) -> Result<(), NoAnswer> {
    let (tag, hot) = (format!("tag-{client}-{turn}"), format!("hot-{client}"));
    served(api.try_post("/v1/tags", &json!({ "tag": tag, "step": 5 }))?)?.ok();
    let id = take(api, &format!("/v1/segment/{tag}?count=12"))?;
    acked.lock().push((tag, id));
    let id = take(api, &format!("/api/segment/get/{hot}"))?;
    acked.lock().push((hot, id));
    Ok(())
}

/// Takes ids, and returns the highest.
fn take(api: Api, path: &str) -> Result<u64, NoAnswer> {
    let answer = served(api.try_get(path)?)?;
    let end = answer.intervals().and_then(|given| given.iter().map(|&(_, end)| end).max());
    Ok(end.unwrap_or_else(|| panic!("no ids from {path}: {answer:?}")) - 1)
}

/// An answer of 503 is as good as none: a node that was stopped gives it to requests that waited for too long.
fn served(answer: Answer) -> Result<Answer, NoAnswer> {
    match answer.status {
        503 => Err(NoAnswer::Lost(format!("{answer:?}"))),
        _ => Ok(answer),
    }
}

impl Writer for Node {
    fn process(&mut self) -> &mut Process {
        self.node.process_mut().expect("it was started")
    }

    fn note(&mut self) -> String {
        assert!(!self.clients.iter().any(JoinHandle::is_finished), "a client has ended");
        let acked = self.acked.lock();
        self.noted = acked.len();
        format!("{} tags", acked.iter().filter(|(tag, _)| tag.starts_with("tag-")).count())
    }

    fn verify(&self, disk: &Path, random: &mut StdRng) {
        let second = node_on(&self.binary, disk);
        self.ask(second.api(), random);
    }

    fn start_again(&mut self, random: &mut StdRng) {
        for client in self.clients.drain(..) {
            client.join().expect("clients get what they ask for");
        }
        self.acked.lock().truncate(self.noted);
        start_ready(&mut self.node);
        self.ask(self.node.api(), random);
        self.serve();
    }
}
