use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::{DataDir, SledEngine};
use openraft::storage::RaftLogStorage;
use tempfile::TempDir;

use super::NodeIdentity;
use crate::message::{Prepare, Prepared, Refusal};
use crate::raft_storage::LogStore;
use crate::raft_storage::suite::everything_covered;
use crate::stop::StopHandle;
use crate::types::RaftVote;

const LIST: &str = "1=a:1,2=b:2";
const CHANGE_MAX: Duration = Duration::from_secs(10);

fn log() -> (TempDir, LogStore) {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
    let engine = Arc::new(SledEngine::open(&dir).unwrap());
    (temp, LogStore::start(engine, everything_covered()).unwrap())
}

/// Node 2, as its process with this nonce loads it.
fn node_two(log: &LogStore, nonce: u128) -> NodeIdentity {
    NodeIdentity::load(2, 7, nonce, log.clone(), StopHandle::new()).unwrap()
}

fn prepared(cluster: u128, store: u128) -> Prepared {
    Prepared { cluster, coordinator: 1, store, founders: LIST.to_owned() }
}

/// Asks a node to prepare, as a coordinator does right after a handshake.
async fn ask_to_prepare(identity: &NodeIdentity, prepared: Prepared) -> Result<(), Refusal> {
    let ticket = identity.promises().participant().ticket;
    identity.promises().prepare(LIST, Prepare { prepared, ticket }).await
}

#[tokio::test]
async fn a_store_stays_prepared_over_a_restart_until_its_coordinator_aborts() {
    let (_temp, log) = log();
    ask_to_prepare(&node_two(&log, 1), prepared(5, 10)).await.unwrap();
    let restarted = node_two(&log, 2);
    assert_eq!(restarted.promises().prepared(), Some(prepared(5, 10)));
    assert_eq!(ask_to_prepare(&restarted, prepared(6, 11)).await, Err(prepared(5, 10).refusal()));
    assert_eq!(ask_to_prepare(&restarted, prepared(5, 10)).await, Ok(()), "asked again");
    restarted.promises().abort(5, 11).await.unwrap();
    assert_eq!(restarted.promises().prepared(), Some(prepared(5, 10)), "another store aborted");
    restarted.promises().abort(5, 10).await.unwrap();
    assert_eq!(node_two(&log, 3).promises().prepared(), None);
    ask_to_prepare(&restarted, prepared(6, 11)).await.unwrap();
}

/// Starts what a peer has asked for, and drops it as a server does when that peer hangs up.
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
            while node.promises().prepared() != expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(CHANGE_MAX, completed).await.expect("the change was left half done");
        assert_eq!(node_two(&log, 2).promises().prepared(), expected);
    };
    hang_up(ask_to_prepare(&node, prepared(5, 10))).await;
    agreed(Some(prepared(5, 10))).await;
    hang_up(node.promises().abort(5, 10)).await;
    agreed(None).await;
}

#[tokio::test]
async fn an_aborted_id_stays_aborted() {
    let (_temp, log) = log();
    let coordinator = node_two(&log, 1);
    assert!(coordinator.promises().prepare_itself(prepared(5, 7)).await.unwrap());
    assert!(
        !coordinator.promises().prepare_itself(prepared(6, 7)).await.unwrap(),
        "one id at a time"
    );
    coordinator.promises().abort(5, 7).await.unwrap();
    assert_eq!(node_two(&log, 2).promises().prepared(), None);
}

#[tokio::test]
async fn a_request_that_arrives_after_its_abort_or_a_restart_prepares_nobody() {
    let (_temp, log) = log();
    let (first, second) = (node_two(&log, 100), node_two(&log, 200));
    let late = Prepare { prepared: prepared(5, 10), ticket: first.promises().participant().ticket };
    first.promises().abort(5, 10).await.unwrap();
    for identity in [first, second] {
        assert!(identity.promises().prepare(LIST, late.clone()).await.is_err());
        assert_eq!(identity.promises().prepared(), None);
    }
}

#[tokio::test]
async fn a_prepared_store_enters_no_other_cluster_and_a_member_does_not_prepare() {
    let (_temp, log) = log();
    let identity = node_two(&log, 1);
    ask_to_prepare(&identity, prepared(5, 10)).await.unwrap();
    assert!(!identity.promises().enter(6).await.unwrap());
    assert!(identity.promises().enter(5).await.unwrap());
    assert_eq!(
        ask_to_prepare(&identity, prepared(6, 11)).await,
        Err(Refusal::WrongCluster { ours: 5 })
    );
}

#[tokio::test]
async fn a_restart_forgets_a_cluster_in_which_the_store_took_no_part() {
    let (_temp, mut log) = log();
    let identity = node_two(&log, 1);
    assert!(identity.promises().enter(5).await.unwrap());
    assert_eq!((identity.cluster(), node_two(&log, 2).cluster()), (Some(5), None));
    log.save_vote(&RaftVote::new(1, 1)).await.unwrap();
    assert_eq!(node_two(&log, 3).cluster(), Some(5));
}
