//! One node, its directory and its storage.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::support::{
    SOON, StoppedClock, Sum, add, alone, eventually, open, open_with, options, released,
};
use crate::error::{Delivery, NodeError, ProposeError, Remedy};
use crate::node::{Node, PROPOSAL_BYTES_MAX};
use crate::options::{Options, Tuning};
use crate::raft_storage::disk_format;
use crate::transport::{Plain, TcpTransport};
use crate::types::RaftVote;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn proposals_that_one_timer_wakes_share_an_entry() {
    let temp = TempDir::new().unwrap();
    let (node, sum) = open(options(1, &temp.path().join("data"), &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    let (handle, before) = (node.handle(), node.handle().status().last_log_index.unwrap());
    let woken_at = Instant::now() + Duration::from_millis(200);
    let mut proposals = JoinSet::new();
    for _ in 0..20 {
        let handle = handle.clone();
        proposals.spawn(async move {
            sleep_until(woken_at).await;
            let command = vec![b"1".to_vec()];
            handle.propose(command, Delivery::AtMostOnce, woken_at + SOON).await.unwrap()
        });
    }
    proposals.join_all().await;
    assert_eq!((sum.total(), handle.status().last_log_index), (21, Some(before + 1)));
    node.shutdown().await;
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
async fn few_entries_of_many_bytes_are_a_snapshot_too() {
    let temp = TempDir::new().unwrap();
    let mut options = options(1, &temp.path().join("data"), &alone());
    options.tuning = Tuning::default();
    let (node, _) = open(options).await;
    let handle = node.handle();
    let command = vec![format!("{:0>1$}", 1, PROPOSAL_BYTES_MAX).into_bytes()];
    for _ in 0..(8 << 20) / PROPOSAL_BYTES_MAX {
        assert_eq!(handle.status().snapshot_index, None);
        let deadline = Instant::now() + SOON;
        handle.propose(command.clone(), Delivery::AtMostOnce, deadline).await.unwrap();
    }
    eventually("a snapshot", || handle.status().snapshot_index.is_some()).await;
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
    drop(released(&data).await);
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
    let proposed = handle.propose(vec![b"panic".to_vec()], Delivery::AtMostOnce, deadline).await;
    assert!(proposed.is_err());
    timeout(SOON, node.stopped()).await.expect("the node stops");
}

/// A sled engine whose syncs fail once `fails` is set.
struct FailingEngine {
    sled: SledEngine,
    fails: Arc<AtomicBool>,
}

impl LogEngine for FailingEngine {
    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        self.sled.append(first, records)
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.sled.read(range, bytes_max)
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        self.sled.bounds()
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        self.sled.purge_mark()
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.sled.truncate_from(index)
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        self.sled.purge_upto(index, mark)
    }

    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        self.sled.put_meta(key, value)
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.sled.get_meta(key)
    }

    fn sync(&self) -> Result<(), StorageError> {
        if self.fails.load(Ordering::SeqCst) {
            let source = io::Error::other("the disk is gone");
            return Err(StorageError::Io { action: "sync".to_owned(), source });
        }
        self.sled.sync()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_stops_the_node_and_acknowledges_nothing() {
    let temp = TempDir::new().unwrap();
    let options = options(1, &temp.path().join("data"), &alone());
    let dir = DataDir::open(&options.data, 7).unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let sled = SledEngine::open(&dir).unwrap();
    let engine = Arc::new(FailingEngine { sled, fails: Arc::clone(&fails) });
    let transport = Arc::new(TcpTransport::bind(None, 0, Plain).unwrap());
    let (node, sum) = open_with(dir, engine, transport, options).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    fails.store(true, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(2);
    let proposed = node.handle().propose(vec![b"1".to_vec()], Delivery::AtMostOnce, deadline).await;
    assert!(matches!(proposed, Err(ProposeError::Unknown(_))), "{proposed:?}");
    let why = timeout(SOON, node.stopped()).await.expect("the node stops");
    assert!(why.to_string().contains("the disk is gone"), "{why}");
    assert_eq!(why.remedy(), Remedy::Restart, "it may find the disk again");
    assert_eq!(sum.total(), 1, "nothing was applied that may not be on disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_directory_without_peers_is_told_what_to_give() {
    let temp = TempDir::new().unwrap();
    let options = options(1, &temp.path().join("data"), &BTreeMap::from([(1, String::new())]));
    let lost = Options { peers: BTreeMap::new(), ..options };
    let opened = Node::open(lost, Arc::new(Sum::default()), Arc::new(StoppedClock)).await;
    assert!(matches!(opened, Err(NodeError::Options(why)) if why.contains("--peers")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_comes_back_before_its_first_entry_starts() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let (node, _) = open(options(1, &data, &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    node.shutdown().await;
    {
        let dir = released(&data).await;
        let engine = SledEngine::open(&dir).unwrap();
        let elected = RaftVote::new_committed(99, 1);
        engine.put_meta(MetaKey::Vote, &disk_format::encode_vote(&elected)).unwrap();
        engine.sync().unwrap();
    }
    let (node, _) = open(options(1, &data, &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(2));
    node.shutdown().await;
}
