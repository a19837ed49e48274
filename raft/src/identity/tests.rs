use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use openraft::storage::RaftLogStorage;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::NodeIdentity;
use crate::message::{Incarnation, Origin, Prepare, Prepared, Refusal};
use crate::raft_storage::LogStore;
use crate::raft_storage::tests::everything_covered;
use crate::stop::StopHandle;
use crate::types::{Member, RaftVote};

const LIST: &str = "1=a:1,2=b:2";
const CHANGE_MAX: Duration = Duration::from_secs(10);

fn engine() -> (TempDir, SledEngine) {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
    let engine = SledEngine::open(&dir).unwrap();
    (temp, engine)
}

fn log() -> (TempDir, LogStore) {
    let (temp, engine) = engine();
    (temp, LogStore::start(1, Arc::new(engine), everything_covered()).unwrap())
}

/// Node 2, as loaded by the process with this nonce.
fn node_two(log: &LogStore, nonce: u128) -> NodeIdentity {
    NodeIdentity::load(2, 7, nonce, log.clone(), StopHandle::new()).unwrap()
}

fn prepared(cluster: u128, store: u128) -> Prepared {
    Prepared { cluster, coordinator: 1, store, founders: LIST.to_owned() }
}

/// Asks a node to prepare, as a coordinator does right after a handshake.
async fn ask_to_prepare(identity: &NodeIdentity, prepared: Prepared) -> Result<(), Refusal> {
    let ticket = identity.bootstrap().participant().ticket;
    identity.bootstrap().prepare(LIST, Prepare { prepared, ticket }).await
}

#[tokio::test]
async fn a_store_stays_prepared_over_a_restart_until_its_coordinator_aborts() {
    let (_temp, log) = log();
    ask_to_prepare(&node_two(&log, 1), prepared(5, 10)).await.unwrap();
    let restarted = node_two(&log, 2);
    assert_eq!(restarted.bootstrap().prepared(), Some(prepared(5, 10)));
    assert_eq!(ask_to_prepare(&restarted, prepared(6, 11)).await, Err(prepared(5, 10).refusal()));
    assert_eq!(ask_to_prepare(&restarted, prepared(5, 10)).await, Ok(()), "asked again");
    restarted.bootstrap().abort(5, 11).await.unwrap();
    assert_eq!(restarted.bootstrap().prepared(), Some(prepared(5, 10)), "another store aborted");
    restarted.bootstrap().abort(5, 10).await.unwrap();
    assert_eq!(node_two(&log, 3).bootstrap().prepared(), None);
    ask_to_prepare(&restarted, prepared(6, 11)).await.unwrap();
}

/// Starts an operation for a peer and drops it, as a server does when that peer hangs up.
async fn hang_up(asked: impl Future<Output = Result<(), Refusal>>) {
    tokio::select! {
        biased;
        done = asked => panic!("done before the caller could hang up: {done:?}"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_change_is_completed_after_its_caller_has_hung_up() {
    let (_temp, log) = log();
    let node = node_two(&log, 1);
    let agreed = async |expected: Option<Prepared>| {
        let completed = async {
            while node.bootstrap().prepared() != expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(CHANGE_MAX, completed).await.expect("the change was left half done");
        assert_eq!(node_two(&log, 2).bootstrap().prepared(), expected);
    };
    hang_up(ask_to_prepare(&node, prepared(5, 10))).await;
    agreed(Some(prepared(5, 10))).await;
    hang_up(node.bootstrap().abort(5, 10)).await;
    agreed(None).await;
}

#[tokio::test]
async fn an_aborted_id_stays_aborted() {
    let (_temp, log) = log();
    let coordinator = node_two(&log, 1);
    assert!(coordinator.bootstrap().prepare_itself(prepared(5, 7)).await.unwrap());
    assert!(
        !coordinator.bootstrap().prepare_itself(prepared(6, 7)).await.unwrap(),
        "one id at a time"
    );
    coordinator.bootstrap().abort(5, 7).await.unwrap();
    assert_eq!(node_two(&log, 2).bootstrap().prepared(), None);
}

#[tokio::test]
async fn a_request_that_arrives_after_its_abort_or_a_restart_prepares_nobody() {
    let (_temp, log) = log();
    let (first, second) = (node_two(&log, 100), node_two(&log, 200));
    let late =
        Prepare { prepared: prepared(5, 10), ticket: first.bootstrap().participant().ticket };
    first.bootstrap().abort(5, 10).await.unwrap();
    for identity in [first, second] {
        assert!(identity.bootstrap().prepare(LIST, late.clone()).await.is_err());
        assert_eq!(identity.bootstrap().prepared(), None);
    }
}

#[tokio::test]
async fn a_prepared_store_enters_no_other_cluster_and_a_member_does_not_prepare() {
    let (_temp, log) = log();
    let identity = node_two(&log, 1);
    ask_to_prepare(&identity, prepared(5, 10)).await.unwrap();
    assert!(!identity.bootstrap().enter(6).await.unwrap());
    assert!(identity.bootstrap().enter(5).await.unwrap());
    assert_eq!(
        ask_to_prepare(&identity, prepared(6, 11)).await,
        Err(Refusal::WrongCluster { ours: 5 })
    );
}

#[tokio::test]
async fn a_restart_forgets_a_cluster_in_which_the_store_took_no_part() {
    let (_temp, mut log) = log();
    let identity = node_two(&log, 1);
    assert!(identity.bootstrap().enter(5).await.unwrap());
    assert_eq!((identity.cluster(), node_two(&log, 2).cluster()), (Some(5), None));
    log.save_vote(&RaftVote::new(1, 1)).await.unwrap();
    assert_eq!(node_two(&log, 3).cluster(), Some(5));
}

/// An engine whose first write of the peers' incarnations blocks until another write is done, or for a while.
struct SlowAtFirst {
    engine: SledEngine,
    has_written: AtomicBool,
    writing: Barrier,
    other_is_done: Mutex<mpsc::Receiver<()>>,
}

impl LogEngine for SlowAtFirst {
    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        if key == MetaKey::Members && !self.has_written.swap(true, Ordering::Relaxed) {
            self.writing.wait();
            let _ = self.other_is_done.lock().recv_timeout(Duration::from_millis(300));
        }
        self.engine.put_meta(key, value)
    }

    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        self.engine.append(first, records)
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.engine.read(range, bytes_max)
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        self.engine.bounds()
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        self.engine.purge_mark()
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.engine.truncate_from(index)
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        self.engine.purge_upto(index, mark)
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.engine.get_meta(key)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.engine.sync()
    }
}

#[tokio::test]
async fn incarnations_that_two_threads_record_are_both_on_disk() {
    let (_temp, engine) = engine();
    let (done, other_is_done) = mpsc::channel();
    let (has_written, writing) = (AtomicBool::default(), Barrier::new(2));
    let other_is_done = Mutex::new(other_is_done);
    let engine = Arc::new(SlowAtFirst { engine, has_written, writing, other_is_done });
    let log = LogStore::start(1, Arc::clone(&engine) as _, everything_covered()).unwrap();
    let identity = Arc::new(node_two(&log, 1));
    let incarnation = Incarnation { number: 4, nonce: 44 };
    let peer = |node_id, store| Origin { node_id, store, incarnation, members_index: None };
    let (first, second) = (peer(1, 10), peer(3, 30));
    // Runs on a thread other than Raft's, as a caller of the node does.
    let caller = thread::spawn({
        let (identity, runtime) = (Arc::clone(&identity), tokio::runtime::Handle::current());
        move || runtime.block_on(identity.record_incarnation(None, &first))
    });
    engine.writing.wait();
    identity.record_incarnation(None, &second).await.unwrap();
    done.send(()).unwrap();
    caller.join().unwrap().unwrap();
    let restarted = node_two(&log, 2);
    for Origin { node_id, store, .. } in [first, second] {
        let known = restarted.destination(node_id, &Member { store, ..Member::default() });
        assert_eq!(known.incarnation_seen, Some(incarnation), "of store {store}");
    }
}
