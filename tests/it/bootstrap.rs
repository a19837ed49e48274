//! Bootstrap of a cluster while founders exist twice, or are cut off, late, silent, killed or lost.

mod levels;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Api, History, Outcome, Port, Process, eventually, mintleaf, ms, secs};

/// How long links stay cut: longer than a coordinator waits for founders before it aborts.
const CUT: Duration = secs(8);

/// The frames that may reach nodes 2 and 3. Handshakes always pass.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Everything,
    /// Only handshakes reach this node.
    HandshakesTo(u64),
    /// Two processes were started as node 1. Node 2 hears one of them, and node 3 the other.
    Split,
    /// In addition to handshakes, one frame reaches this node and prepares it. No frame after it does.
    OneTo(u64),
    /// After the first frame, no other reaches this node until this time has passed.
    LateTo(u64, Duration),
}

/// The connections to nodes 2 and 3.
struct Links {
    rule: Mutex<Rule>,
    /// By node, the store of the one process of node 1 that it hears.
    heard: Mutex<BTreeMap<u64, u128>>,
    /// When the first frame arrived for the node in `rule`.
    first: Mutex<Option<Instant>>,
    ended: AtomicBool,
}

impl Links {
    fn passes(&self, to: u64, frame: &[u8]) -> bool {
        let Some((node_id, store)) = sender(frame) else { return true };
        let rule = *self.rule.lock();
        match rule {
            Rule::Everything => true,
            Rule::OneTo(node) => to != node || self.since_first().is_none(),
            Rule::LateTo(node, late) => {
                if to == node
                    && let Some(since) = self.since_first()
                {
                    thread::sleep(late.saturating_sub(since));
                }
                true
            }
            Rule::HandshakesTo(closed) => to != closed,
            Rule::Split if node_id != 1 => true,
            Rule::Split => {
                let mut heard = self.heard.lock();
                let elsewhere = heard.iter().any(|(&node, &one)| node != to && one == store);
                if !elsewhere {
                    heard.entry(to).or_insert(store);
                }
                heard.get(&to) == Some(&store)
            }
        }
    }

    /// The time since the first frame; `None` when this is the first.
    fn since_first(&self) -> Option<Duration> {
        let mut first = self.first.lock();
        let since = first.map(|first| first.elapsed());
        first.get_or_insert_with(Instant::now);
        since
    }
}

/// The node id and the store of a frame's sender; `None` for a handshake. After its format and checksum, a
/// frame has a header, which begins with the cluster and the sender.
fn sender(frame: &[u8]) -> Option<(u128, u128)> {
    let (1, mut fields) = frame.get(5..)?.split_first()? else { return None };
    let mut number = || {
        let (&first, rest) = fields.split_first()?;
        let length = match first {
            251 => 2,
            252 => 4,
            253 => 8,
            254 => 16,
            _ => 0,
        };
        let (long, rest) = rest.split_at_checked(length)?;
        fields = rest;
        let long = long.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte));
        Some(if length == 0 { u128::from(first) } else { long })
    };
    number()?;
    Some((number()?, number()?))
}

/// Carries connections to a node. A frame that may not pass ends its connection.
fn carry(links: &Arc<Links>, listen: SocketAddr, node: u64, to: SocketAddr) {
    let listener = TcpListener::bind(listen).unwrap();
    let links = Arc::clone(links);
    thread::spawn(move || {
        for stream in listener.incoming() {
            if links.ended.load(Ordering::Relaxed) {
                return;
            }
            let (links, Ok(stream)) = (Arc::clone(&links), stream) else { continue };
            // An error means that the node was cut off or has ended; the caller sees its connection end.
            thread::spawn(move || drop(converse(&links, stream, node, to)));
        }
    });
}

fn converse(links: &Links, mut caller: TcpStream, node: u64, to: SocketAddr) -> io::Result<()> {
    let mut callee = TcpStream::connect(to)?;
    let (mut answers, mut back) = (callee.try_clone()?, caller.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut greeting = [0; 5];
    caller.read_exact(&mut greeting)?;
    callee.write_all(&greeting)?;
    let mut length = [0; 4];
    while caller.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; u32::from_le_bytes(length) as usize];
        caller.read_exact(&mut frame)?;
        if !links.passes(node, &frame) {
            caller.shutdown(Shutdown::Both)?;
            break;
        }
        callee.write_all(&[&length[..], &frame].concat())?;
    }
    callee.shutdown(Shutdown::Both)
}

/// One process of a founder.
struct Founder {
    node_id: u64,
    http: Port,
    raft: Port,
    data: PathBuf,
    process: Option<Process>,
}

/// Founders with one list, where the addresses of nodes 2 and 3 lead to [`Links`].
struct Founders {
    links: Arc<Links>,
    list: String,
    ways: Vec<Port>,
    all: BTreeMap<&'static str, Founder>,
    dir: TempDir,
}

impl Founders {
    /// Prepares one process for each name; a name begins with the id of its node.
    fn prepare(names: &[&'static str], rule: Rule) -> Self {
        let (rule, heard, first) = (Mutex::new(rule), Mutex::default(), Mutex::default());
        let links = Arc::new(Links { rule, heard, first, ended: AtomicBool::new(false) });
        let dir = tempfile::tempdir().unwrap();
        let founder = |&name: &&'static str| {
            let node_id = name[..1].parse().unwrap();
            let data = dir.path().join(name);
            (
                name,
                Founder { node_id, http: Port::claim(), raft: Port::claim(), data, process: None },
            )
        };
        let all: BTreeMap<_, _> = names.iter().map(founder).collect();
        let ways = vec![Port::claim(), Port::claim()];
        for (node, way) in (2..).zip(&ways) {
            let (_, founder) = all.iter().find(|(_, founder)| founder.node_id == node).unwrap();
            carry(&links, way.addr(), node, founder.raft.addr());
        }
        let first = all.values().next().unwrap().raft.addr();
        let list = format!("1={first},2={},3={}", ways[0].addr(), ways[1].addr());
        Self { links, list, ways, all, dir }
    }

    fn start(&mut self, name: &str) {
        let founder = self.all.get_mut(name).unwrap();
        let mut command = mintleaf().command();
        command.args(["serve", "--node-id", &founder.node_id.to_string()]);
        command.args(["--http", &founder.http.addr().to_string()]);
        command.args(["--raft", &founder.raft.addr().to_string()]);
        command.arg("--data").arg(&founder.data).args(["--peers", &self.list]);
        if founder.node_id == 1 {
            command.args(["--advertise-raft", &founder.raft.addr().to_string()]);
        }
        let log = self.dir.path().join(format!("{name}.log"));
        founder.process = Some(Process::start(name, &mut command, &log).unwrap());
    }

    fn start_all(&mut self) {
        let names: Vec<_> = self.all.keys().copied().collect();
        names.iter().for_each(|name| self.start(name));
    }

    fn kill(&mut self, name: &str) {
        self.all.get_mut(name).unwrap().process.take().unwrap().kill();
    }

    /// Deletes the data of a founder that is not running.
    fn lose(&mut self, name: &str) {
        assert!(self.all[name].process.is_none(), "{name} runs");
        fs::remove_dir_all(&self.all[name].data).unwrap();
    }

    fn heal(&self) {
        *self.links.rule.lock() = Rule::Everything;
    }

    fn log(&self, name: &str) -> String {
        self.all[name].process.as_ref().unwrap().log()
    }

    fn await_log(&self, name: &str, what: &str) {
        eventually(&format!("{name} to say: {what}"), secs(20), || {
            self.log(name).contains(what).then_some(())
        });
    }

    fn api(&self, name: &str) -> Api {
        Api(self.all[name].http.addr())
    }

    fn ready(&self) -> BTreeSet<&'static str> {
        let is_ready = |name: &&&'static str| {
            self.api(name).try_get("/readyz").is_ok_and(|answer| answer.status == 200)
        };
        self.all.keys().filter(is_ready).copied().collect()
    }

    fn await_ready(&self, count: usize) -> BTreeSet<&'static str> {
        eventually("the cluster to form", secs(30), || {
            Some(self.ready()).filter(|ready| ready.len() == count)
        })
    }

    /// Takes ids from every process that is ready. For the judge each process is a separate node, even if two
    /// were started as the same node.
    fn take_ids(&self, given: &mut History) {
        for (node, name) in
            (1..).zip(self.all.keys()).filter(|(_, name)| self.ready().contains(*name))
        {
            let began = Instant::now();
            let Ok(answer) = self.api(name).try_get("/v1/segment/orders?count=10") else {
                continue;
            };
            match answer.status {
                404 => drop(self.api(name).post("/v1/tags", &json!({ "tag": "orders" }))),
                200 => {
                    let ids = Outcome::Ids(answer.intervals().unwrap());
                    given.note(node, Some(0), began, ids);
                }
                _ => {}
            }
        }
    }
}

impl Drop for Founders {
    fn drop(&mut self) {
        self.links.ended.store(true, Ordering::Relaxed);
        for way in &self.ways {
            // This wakes the thread that accepts connections, so that it notices the end.
            drop(TcpStream::connect(way.addr()));
        }
    }
}

#[test]
fn two_nodes_that_were_started_as_one_never_both_form_a_cluster() {
    let mut founders = Founders::prepare(&["1", "1-again", "2", "3"], Rule::Split);
    founders.start_all();
    let (mut given, began) = (History::default(), Instant::now());
    while began.elapsed() < CUT {
        founders.take_ids(&mut given);
        thread::sleep(ms(50));
    }
    assert_eq!(given.ids(), 0, "ids were given by a cluster of two founders of three");

    founders.heal();
    let ready = founders.await_ready(3);
    assert!(ready.contains("2") && ready.contains("3"), "{ready:?}");
    let began = Instant::now();
    while began.elapsed() < secs(3) {
        founders.take_ids(&mut given);
        thread::sleep(ms(50));
    }
    assert!(given.ids() > 100, "{given:?}");
    given.check();
    assert_eq!(founders.ready(), ready);
}

#[test]
fn coordinator_that_is_killed_between_the_steps_goes_on_where_it_was() {
    let mut founders = Founders::prepare(&["1", "2", "3"], Rule::HandshakesTo(3));
    founders.start_all();
    founders.await_log("2", "is bound to a cluster");
    founders.kill("1");
    founders.heal();
    founders.start("1");
    founders.await_ready(3);
    for name in ["2", "3"] {
        assert_eq!(founders.log(name).matches("is bound to a cluster").count(), 1);
    }
}

#[test]
fn founders_are_free_again_when_somebody_is_missing_for_long() {
    let mut founders = Founders::prepare(&["1", "2", "3"], Rule::HandshakesTo(3));
    founders.start_all();
    founders.await_log("2", "is bound to a cluster");
    founders.await_log("2", "is not bound any more");
    founders.heal();
    founders.await_ready(3);
}

#[test]
fn founders_whose_coordinator_is_lost_for_good_say_what_may_be_deleted() {
    let mut founders = Founders::prepare(&["1", "2", "3"], Rule::HandshakesTo(3));
    founders.start_all();
    founders.await_log("2", "is bound to a cluster");
    founders.kill("1");
    founders.lose("1");
    founders.heal();
    founders.start("1");
    for name in ["1", "2"] {
        founders.await_log(name, "which node 1 (store");
        founders.await_log(name, "It holds no entry and no vote");
        founders.await_log(name, "its own may be deleted");
    }
    assert_eq!(founders.ready(), BTreeSet::new());
    founders.kill("2");
    founders.lose("2");
    founders.start("2");
    founders.await_ready(3);
    let mut given = History::default();
    eventually("ids", secs(10), || {
        founders.take_ids(&mut given);
        (given.ids() > 20).then_some(())
    });
    given.check();
}

#[test]
fn founders_with_lists_that_differ_are_told_both_and_form_once_they_agree() {
    let mut founders = Founders::prepare(&["1", "2", "3"], Rule::Everything);
    let list = founders.list.clone();
    let other = list.replace("127.0.0.1", "localhost");
    founders.start("1");
    founders.start("3");
    founders.list.clone_from(&other);
    founders.start("2");
    founders.await_log("1", &format!("with --peers {other}, the other with {list}"));
    assert_eq!(founders.ready(), BTreeSet::new());
    founders.kill("2");
    founders.list = list;
    founders.start("2");
    founders.await_ready(3);
}
