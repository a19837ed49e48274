use std::collections::BTreeSet;

use mintleaf_storage::{DataDir, SledEngine};
use openraft::Membership;
use openraft::storage::RaftLogStorage;
use tempfile::TempDir;

use super::*;
use crate::bond::{Bond, Offer};
use crate::suite::everything_covered;
use crate::tests::{ELECTION_MAX, StoppedClock};

use crate::types::RaftVote;

const LIST: &str = "1=a:1,2=b:2";

fn log() -> (TempDir, LogStore) {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
    let engine = Arc::new(SledEngine::open(&dir).unwrap());
    (temp, LogStore::start(engine, everything_covered()).unwrap())
}

/// Node 2, as a start numbered `nonce` finds it.
fn node_two(log: &LogStore, nonce: u128) -> Local {
    Local::load(2, 7, nonce, log.clone(), Arc::new(StoppedClock), ELECTION_MAX).unwrap()
}

fn bond(cluster: u128, store: u128) -> Bond {
    Bond { cluster, coordinator: 1, store, founders: LIST.to_owned() }
}

/// What a coordinator asks that has just heard how the node stands.
async fn bind(local: &Local, bond: Bond) -> Result<(), Refusal> {
    let ticket = local.standing().ticket;
    local.bind(LIST, Offer { bond, ticket }).await
}

#[tokio::test]
async fn a_bond_outlasts_its_process_and_ends_only_when_its_coordinator_says_so() {
    let (_temp, log) = log();
    bind(&node_two(&log, 1), bond(5, 10)).await.unwrap();
    let restarted = node_two(&log, 2);
    assert_eq!(restarted.bond(), Some(bond(5, 10)));
    assert_eq!(bind(&restarted, bond(6, 11)).await, Err(bond(5, 10).refusal()));
    assert_eq!(bind(&restarted, bond(5, 10)).await, Ok(()), "asked again");
    restarted.release(5, 11).await.unwrap();
    assert_eq!(restarted.bond(), Some(bond(5, 10)), "released by somebody else");
    restarted.release(5, 10).await.unwrap();
    assert_eq!(node_two(&log, 3).bond(), None);
    bind(&restarted, bond(6, 11)).await.unwrap();
}

#[tokio::test]
async fn an_id_that_was_given_up_stays_given_up() {
    let (_temp, log) = log();
    let coordinator = node_two(&log, 1);
    assert!(coordinator.bind_itself(bond(5, 7)).await.unwrap());
    assert!(!coordinator.bind_itself(bond(6, 7)).await.unwrap(), "one id at a time");
    coordinator.release(5, 7).await.unwrap();
    assert_eq!(node_two(&log, 2).bond(), None);
}

#[tokio::test]
async fn an_offer_that_comes_behind_its_release_or_a_restart_binds_nobody() {
    let (_temp, log) = log();
    let (first, second) = (node_two(&log, 100), node_two(&log, 200));
    let late = Offer { bond: bond(5, 10), ticket: first.standing().ticket };
    first.release(5, 10).await.unwrap();
    for local in [first, second] {
        assert!(local.bind(LIST, late.clone()).await.is_err());
        assert_eq!(local.bond(), None);
    }
}

#[tokio::test]
async fn a_bound_store_enters_no_other_cluster_and_one_that_entered_is_not_bound() {
    let (_temp, log) = log();
    let local = node_two(&log, 1);
    bind(&local, bond(5, 10)).await.unwrap();
    assert!(!local.enter(6).await.unwrap());
    assert!(local.enter(5).await.unwrap());
    assert_eq!(bind(&local, bond(6, 11)).await, Err(Refusal::WrongCluster { ours: 5 }));
}

#[tokio::test]
async fn a_cluster_in_which_it_took_no_part_is_forgotten_with_a_restart() {
    let (_temp, mut log) = log();
    let local = node_two(&log, 1);
    assert!(local.enter(5).await.unwrap());
    assert_eq!((local.cluster(), node_two(&log, 2).cluster()), (Some(5), None));
    log.save_vote(&RaftVote::new(1, 1)).await.unwrap();
    assert_eq!(node_two(&log, 3).cluster(), Some(5));
}

#[tokio::test]
async fn only_voters_clocks_count() {
    let (_temp, log) = log();
    let local = Local::load(1, 7, 1, log, Arc::new(StoppedClock), ELECTION_MAX).unwrap();
    let nodes: BTreeMap<u64, Member> = (1..=3).map(|id| (id, Member::default())).collect();
    let membership = Membership::new(vec![BTreeSet::from([1, 2])], nodes);
    let membership_config = Arc::new(RaftMembership::new(None, membership));
    let metrics = RaftMetrics { membership_config, ..RaftMetrics::new_initial(1) };
    local.watch(watch::Sender::new(metrics).subscribe());
    let own_ms = StoppedClock.now_ms();
    local.clocks().read(2, own_ms + 9_000);
    local.clocks().read(3, own_ms + 5_000);
    assert_eq!(local.median_ms(), own_ms, "the lower of two voters, and node 3 is a learner");
}
