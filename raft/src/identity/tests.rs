use std::sync::Arc;

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

fn log() -> (TempDir, LogStore) {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
    let engine = Arc::new(SledEngine::open(&dir).unwrap());
    (temp, LogStore::start(engine, everything_covered()).unwrap())
}

/// Node 2, as a start numbered `nonce` finds it.
fn node_two(log: &LogStore, nonce: u128) -> NodeIdentity {
    NodeIdentity::load(2, 7, nonce, log.clone(), StopHandle::new()).unwrap()
}

fn prepared(cluster: u128, store: u128) -> Prepared {
    Prepared { cluster, coordinator: 1, store, founders: LIST.to_owned() }
}

/// What a coordinator asks that has just heard how the node stands.
async fn bind(identity: &NodeIdentity, prepared: Prepared) -> Result<(), Refusal> {
    let ticket = identity.promises().participant().ticket;
    identity.promises().prepare(LIST, Prepare { prepared, ticket }).await
}

#[tokio::test]
async fn a_bond_outlasts_its_process_and_ends_only_when_its_coordinator_says_so() {
    let (_temp, log) = log();
    bind(&node_two(&log, 1), prepared(5, 10)).await.unwrap();
    let restarted = node_two(&log, 2);
    assert_eq!(restarted.promises().prepared(), Some(prepared(5, 10)));
    assert_eq!(bind(&restarted, prepared(6, 11)).await, Err(prepared(5, 10).refusal()));
    assert_eq!(bind(&restarted, prepared(5, 10)).await, Ok(()), "asked again");
    restarted.promises().abort(5, 11).await.unwrap();
    assert_eq!(restarted.promises().prepared(), Some(prepared(5, 10)), "released by somebody else");
    restarted.promises().abort(5, 10).await.unwrap();
    assert_eq!(node_two(&log, 3).promises().prepared(), None);
    bind(&restarted, prepared(6, 11)).await.unwrap();
}

#[tokio::test]
async fn an_id_that_was_given_up_stays_given_up() {
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
async fn an_offer_that_comes_behind_its_release_or_a_restart_binds_nobody() {
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
async fn a_bound_store_enters_no_other_cluster_and_one_that_entered_is_not_bound() {
    let (_temp, log) = log();
    let identity = node_two(&log, 1);
    bind(&identity, prepared(5, 10)).await.unwrap();
    assert!(!identity.promises().enter(6).await.unwrap());
    assert!(identity.promises().enter(5).await.unwrap());
    assert_eq!(bind(&identity, prepared(6, 11)).await, Err(Refusal::WrongCluster { ours: 5 }));
}

#[tokio::test]
async fn a_cluster_in_which_it_took_no_part_is_forgotten_with_a_restart() {
    let (_temp, mut log) = log();
    let identity = node_two(&log, 1);
    assert!(identity.promises().enter(5).await.unwrap());
    assert_eq!((identity.cluster(), node_two(&log, 2).cluster()), (Some(5), None));
    log.save_vote(&RaftVote::new(1, 1)).await.unwrap();
    assert_eq!(node_two(&log, 3).cluster(), Some(5));
}
