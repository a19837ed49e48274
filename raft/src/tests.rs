//! Whole nodes over real directories and real sockets of this machine.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::guard::Refusal;
use crate::members::Change;
use crate::records;
use crate::transport::TcpWire;
use crate::types::RaftVote;
use crate::{
    Clock, FrozenState, Ground, Newer, Node, NodeError, Options, ProposeError, Rejected, Release,
    Remedy, RestoreError, Retry, StateMachine, Tuning,
};

mod addresses;
mod levels;
mod poison;

const SOON: Duration = Duration::from_secs(20);

/// Adds up numbers; its commands and replies are decimal text. `panic` is a broken invariant.
#[derive(Default)]
struct Sum(Mutex<u64>);

impl StateMachine for Sum {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        let unfit = |why: String| Rejected::Unfit(why);
        let command = std::str::from_utf8(command).map_err(|error| unfit(error.to_string()))?;
        // What nobody could know of a broken invariant.
        if command == "panic" {
            return Ok(());
        }
        command.parse::<u64>().map(|_| ()).map_err(|error| unfit(error.to_string()))
    }

    fn supports(&self) -> Release {
        first_release()
    }

    fn needs(&self) -> Release {
        first_release()
    }

    fn raising(&self, to: u32) -> Vec<u8> {
        unreachable!("nobody supports level {to}")
    }

    fn apply(&self, _now_ms: u64, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let command = std::str::from_utf8(command).unwrap();
        assert_ne!(command, "panic", "asked to break");
        let mut sum = self.0.lock();
        *sum += command.parse::<u64>().unwrap();
        Ok(sum.to_string().into_bytes())
    }

    fn freeze(&self) -> FrozenState {
        let sum = *self.0.lock();
        Box::new(move |out: &mut dyn Write| write!(out, "{sum}"))
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let mut sum = String::new();
        from.read_to_string(&mut sum)?;
        *self.0.lock() = sum.parse().map_err(io::Error::other)?;
        Ok(())
    }
}

/// Longest election timeout, as far as these tests care.
pub(crate) const ELECTION_MAX: Duration = Duration::from_millis(500);

pub(crate) fn first_release() -> Release {
    Release { level: 1, version: "one".to_owned() }
}

pub(crate) struct StoppedClock;

impl Clock for StoppedClock {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// Tells the processes of these tests apart.
static BOOTS: AtomicU64 = AtomicU64::new(1);

fn options(node_id: u64, data: &Path, peers: &BTreeMap<u64, String>) -> Options {
    let alone = peers.len() == 1;
    let listen: Option<SocketAddr> = (!alone).then(|| peers[&node_id].parse().unwrap());
    Options {
        node_id,
        data: data.to_owned(),
        fresh_store: u128::from(node_id) << 64 | 7,
        boot_nonce: u128::from(BOOTS.fetch_add(1, Ordering::SeqCst)),
        listen,
        advertise_raft: None,
        advertise_http: String::new(),
        peers: peers.clone(),
        join: None,
        secret: Some(b"a secret of these tests".to_vec()),
        tuning: Tuning { snapshot_entries: 50, keep_entries: 5, ..Tuning::default() },
    }
}

fn alone() -> BTreeMap<u64, String> {
    BTreeMap::from([(1, String::new())])
}

async fn open(options: Options) -> (Node, Arc<Sum>) {
    let opened = timeout(SOON, async {
        loop {
            let sum = Arc::new(Sum::default());
            let clock = Arc::new(StoppedClock);
            match Node::open(options.clone(), Arc::clone(&sum) as _, clock).await {
                Ok(node) => return (node, sum),
                // The last tasks of the node before let go of the directory a little later.
                Err(NodeError::Storage(error)) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    opened.await.expect("the directory is free")
}

async fn add(node: &Node, number: u64) -> Result<u64, ProposeError> {
    let commands = vec![number.to_string().into_bytes()];
    let deadline = Instant::now() + SOON;
    let replies = node.handle().propose(commands, Retry::Never, deadline).await?;
    Ok(std::str::from_utf8(&replies[0]).unwrap().parse().unwrap())
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waited = timeout(SOON, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "not in time: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_restart() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    for round in 1..=3 {
        let (node, _) = open(options(1, &data, &alone())).await;
        assert_eq!(add(&node, 1).await, Ok(round));
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_from_the_snapshot_and_the_log_behind_it() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let (node, _) = open(options(1, &data, &alone())).await;
    for sum in 1..=120 {
        assert_eq!(add(&node, 1).await, Ok(sum));
    }
    let handle = node.handle();
    eventually("a snapshot", || handle.status().snapshot_index >= Some(50)).await;
    node.shutdown().await;
    drop(handle);
    let (node, _) = open(options(1, &data, &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(121));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_log_without_its_snapshot_is_refused() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let (node, _) = open(options(1, &data, &alone())).await;
    for sum in 1..=120 {
        assert_eq!(add(&node, 1).await, Ok(sum));
    }
    let purged = || node.handle().status().purged_index >= Some(1);
    eventually("the log is purged", purged).await;
    node.shutdown().await;
    std::fs::remove_file(data.join("snapshot/current")).unwrap();
    drop(let_go(&data).await);
    let sum = Arc::new(Sum::default());
    let opened = Node::open(options(1, &data, &alone()), sum, Arc::new(StoppedClock)).await;
    let refused = |error: &NodeError| error.to_string().contains("the snapshot is missing");
    assert!(opened.as_ref().is_err_and(refused), "{:?}", opened.err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_applying_stops_the_node() {
    let temp = TempDir::new().unwrap();
    let (node, _) = open(options(1, &temp.path().join("data"), &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    let handle = node.handle();
    let deadline = Instant::now() + Duration::from_secs(2);
    let proposed = handle.propose(vec![b"panic".to_vec()], Retry::Never, deadline).await;
    assert!(proposed.is_err());
    timeout(SOON, node.stopped()).await.expect("the node stops");
}

/// A sled engine whose syncs fail once told to.
struct FailingEngine {
    inner: SledEngine,
    fails: Arc<AtomicBool>,
}

impl LogEngine for FailingEngine {
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        self.inner.append(first, records)
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.inner.read(range, bytes_max)
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        self.inner.bounds()
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        self.inner.purge_mark()
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.inner.truncate_from(index)
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        self.inner.purge_upto(index, mark)
    }

    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        self.inner.put_meta(key, value)
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.inner.get_meta(key)
    }

    fn sync(&self) -> Result<(), StorageError> {
        if self.fails.load(Ordering::SeqCst) {
            let source = io::Error::other("the disk is gone");
            return Err(StorageError::Io { action: "sync".to_owned(), source });
        }
        self.inner.sync()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_stops_the_node_and_acknowledges_nothing() {
    let temp = TempDir::new().unwrap();
    let options = options(1, &temp.path().join("data"), &alone());
    let dir = DataDir::open(&options.data, 7).unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let inner = SledEngine::open(&dir).unwrap();
    let engine = Arc::new(FailingEngine { inner, fails: Arc::clone(&fails) });
    let sum = Arc::new(Sum::default());
    let wire = Arc::new(TcpWire::bind(None, None).await.unwrap());
    let ground = Ground { dir, engine, wire };
    let opened = Node::open_on(ground, options, Arc::clone(&sum) as _, Arc::new(StoppedClock));
    let node = opened.await.unwrap();
    assert_eq!(add(&node, 1).await, Ok(1));
    fails.store(true, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(2);
    let proposed = node.handle().propose(vec![b"1".to_vec()], Retry::Never, deadline).await;
    assert!(matches!(proposed, Err(ProposeError::Unknown(_))), "{proposed:?}");
    let why = timeout(SOON, node.stopped()).await.expect("the node stops");
    assert!(why.to_string().contains("the disk is gone"), "{why}");
    assert_eq!(why.remedy(), Remedy::Restart, "it may find the disk again");
    assert_eq!(*sum.0.lock(), 1, "nothing was applied that may not be on disk");
}

/// Three founders on free ports. The ports may be taken by somebody else meanwhile, rarely; then
/// the test fails with that message.
fn three_peers() -> BTreeMap<u64, String> {
    let listeners: Vec<_> = (1..=3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    (1..=3).zip(listeners.iter().map(address)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn founders_are_bound_to_the_cluster_that_they_formed_and_to_its_founder() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(open(options(id, &temp.path().join(format!("node-{id}")), &peers)).await.0);
    }
    assert_eq!(add(&nodes[2], 1).await, Ok(1));
    let cluster = nodes[0].handle().status().cluster_id.expect("a cluster");
    for node in &nodes {
        let bond = node.handle().inner.local.bond().expect("it is bound");
        let coordinator = nodes[0].handle().inner.local.store();
        assert_eq!((bond.cluster, bond.coordinator, bond.store), (cluster, 1, coordinator));
    }
    for node in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_follower_catches_up_by_a_snapshot() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let (one, _) = open(options(1, &data(1), &peers)).await;
    let (two, _) = open(options(2, &data(2), &peers)).await;
    let (three, _) = open(options(3, &data(3), &peers)).await;
    assert_eq!(add(&three, 1).await, Ok(1));
    three.shutdown().await;

    for sum in 2..=200 {
        assert_eq!(add(&two, 1).await, Ok(sum));
    }
    for node in [&one, &two] {
        let purged = || node.handle().status().purged_index >= Some(50);
        eventually("what the late node needs is in a snapshot only", purged).await;
    }
    let (three, sum) = open(options(3, &data(3), &peers)).await;
    eventually("the late node has the sum", || *sum.0.lock() == 200).await;
    let deadline = Instant::now() + SOON;
    assert_eq!(three.handle().read_barrier(deadline).await, Ok(()));
    assert_eq!(add(&three, 1).await, Ok(201));
    for node in [one, two, three] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_leader_reads_everything_it_acknowledged() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let mut nodes = BTreeMap::new();
    for id in 1..=3 {
        nodes.insert(id, open(options(id, &data(id), &peers)).await);
    }
    for round in 1..=5 {
        assert_eq!(add(&nodes[&1].0, 1).await, Ok(round));
        let leader = nodes[&1].0.handle().status().leader_id.expect("a leader");
        let (node, _) = nodes.remove(&leader).unwrap();
        node.shutdown().await;
        let (node, sum) = open(options(leader, &data(leader), &peers)).await;
        let deadline = Instant::now() + SOON;
        assert_eq!(node.handle().read_barrier(deadline).await, Ok(()));
        assert_eq!(*sum.0.lock(), round, "read at node {leader} after its restart");
        nodes.insert(leader, (node, sum));
    }
    for (_, (node, _)) in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_and_the_log_goes_on() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(open(options(id, &temp.path().join(format!("node-{id}")), &peers)).await.0);
    }
    assert_eq!(add(&nodes[0], 1).await, Ok(1));
    let leader = nodes[0].handle().status().leader_id.expect("a leader");
    let target = leader % 3 + 1;
    // Asked of a node that neither leads nor shall lead.
    let third = 6 - leader - target;
    let asked = nodes[usize::try_from(third).unwrap() - 1].handle();
    let leads = || asked.status().leader_id == Some(target);
    let handed_over = timeout(SOON, async {
        while !leads() {
            // The caller goes away, most often before the end: it is carried through all the same.
            drop(timeout(Duration::from_millis(50), asked.transfer_leader(target)).await);
            drop(timeout(Duration::from_secs(2), eventually("the target leads", leads)).await);
        }
    });
    handed_over.await.expect("the target leads");
    assert_eq!(add(&nodes[0], 1).await, Ok(2));
    for node in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_comes_late_does_not_meet_who_has_joined_since() {
    let temp = TempDir::new().unwrap();
    let (node, _) = open(options(1, temp.path(), &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    let inner = node.handle().inner;
    let store = inner.local.store();
    let mut refusals = Vec::new();
    for meant in [store + 1, store] {
        let refused = inner.change_as_leader(Change::Remove { id: 1, store: meant }).await;
        refusals.push(refused.unwrap_err().to_string());
    }
    assert!(refusals[0].contains("has joined again since"), "{refusals:?}");
    assert!(refusals[1].contains("the last voter"), "{refusals:?}");
    drop(inner);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_directory_without_peers_is_told_what_to_give() {
    let temp = TempDir::new().unwrap();
    let options = options(1, &temp.path().join("data"), &BTreeMap::from([(1, String::new())]));
    let lost = Options { peers: BTreeMap::new(), ..options };
    let opened = Node::open(lost, Arc::new(Sum::default()), Arc::new(StoppedClock)).await;
    assert!(matches!(opened, Err(NodeError::Options(why)) if why.contains("--peers")));
}

/// The directory of a node that has just stopped: its last tasks let go of it a little later.
async fn let_go(data: &Path) -> DataDir {
    let opened = timeout(SOON, async {
        loop {
            match DataDir::open(data, 7) {
                Err(error) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    });
    opened.await.expect("the directory is free")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_comes_back_before_its_first_entry_starts() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let (node, _) = open(options(1, &data, &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    node.shutdown().await;
    {
        let dir = let_go(&data).await;
        let engine = SledEngine::open(&dir).unwrap();
        let elected = RaftVote::new_committed(99, 1);
        engine.put_meta(MetaKey::Vote, &records::encode_vote(&elected)).unwrap();
        engine.sync().unwrap();
    }
    let (node, _) = open(options(1, &data, &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(2));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_directory_stays_refused_at_every_later_start() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let (node, _) = open(options(1, &data, &alone())).await;
    let refusal = Refusal::StaleStart { seen: 3 };
    node.handle().inner.local.stop_as_refused(&refusal, refusal.to_string()).await;
    let why = node.stopped().await;
    assert!(
        why.remedy() == Remedy::Operator && why.to_string().contains("restored from an old copy"),
        "{why}"
    );
    node.shutdown().await;
    for _ in 0..3 {
        drop(let_go(&data).await);
        let sum = Arc::new(Sum::default());
        let opened = Node::open(options(1, &data, &alone()), sum, Arc::new(StoppedClock)).await;
        let Err(NodeError::Stopped(why)) = opened else { panic!("it opens again") };
        assert!(why.remedy() == Remedy::Operator && why.to_string().contains("old copy"), "{why}");
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_counted_past_what_its_peers_saw_stops_when_it_meets_them() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |name: &str| temp.path().join(name);
    let (one, _) = open(options(1, &data("1"), &peers)).await;
    let (two, _) = open(options(2, &data("2"), &peers)).await;
    let (three, _) = open(options(3, &data("3"), &peers)).await;
    assert_eq!(add(&three, 1).await, Ok(1));
    three.shutdown().await;
    drop(let_go(&data("3")).await);
    copy_dir(&data("3"), &data("copy"));
    let (three, _) = open(options(3, &data("3"), &peers)).await;
    assert_eq!(add(&three, 1).await, Ok(2));
    three.shutdown().await;
    drop(let_go(&data("3")).await);

    // A new leader does not know how far its log reached.
    let status = || one.handle().status();
    eventually("one of the others leads", || matches!(status().leader_id, Some(1 | 2))).await;
    let target = 3 - status().leader_id.unwrap();
    one.handle().transfer_leader(target).await.unwrap();
    std::fs::remove_dir_all(data("3")).unwrap();
    copy_dir(&data("copy"), &data("3"));
    for _ in 0..5 {
        // A wrong secret keeps it apart from its peers.
        let apart = Options { secret: Some(b"another".to_vec()), ..options(3, &data("3"), &peers) };
        open(apart).await.0.shutdown().await;
    }
    let (copy, _) = open(options(3, &data("3"), &peers)).await;
    let why = timeout(SOON, copy.stopped()).await.expect("the copy stops");
    assert!(why.to_string().contains("restored from an old copy"), "{why}");
    assert_eq!(add(&one, 1).await, Ok(3), "the others go on");
    copy.shutdown().await;
    for node in [one, two] {
        let stopped = timeout(Duration::ZERO, node.stopped()).await;
        assert!(stopped.is_err(), "who told the copy is told to stop: {stopped:?}");
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_started_often_alone_is_believed() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |name: &str| temp.path().join(name);
    let (one, _) = open(options(1, &data("1"), &peers)).await;
    let (two, _) = open(options(2, &data("2"), &peers)).await;
    for _ in 0..5 {
        let (three, sum) = open(options(3, &data("3"), &peers)).await;
        let total = add(&three, 1).await.expect("it takes part");
        eventually("it has what it added", || *sum.0.lock() == total).await;
        three.shutdown().await;
        let apart = Options { secret: Some(b"another".to_vec()), ..options(3, &data("3"), &peers) };
        open(apart).await.0.shutdown().await;
    }
    for node in [one, two] {
        node.shutdown().await;
    }
}
