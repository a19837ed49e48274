//! Directories that no node runs on: reading them, and making one for a new cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mintleaf_storage::{LogEngine, SledEngine};
use openraft::{Entry, EntryPayload, LeaderId};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::support::{
    SOON, Sum, add, alone, eventually, open, open_three, options, released, three_peers,
};
use crate::error::Delivery;
use crate::node::{Node, Role};
use crate::offline::{Beginning, NewCluster, OfflineError, StoppedNode, read_stopped};
use crate::options::Options;
use crate::raft_storage::disk_format;
use crate::state_machine::{Stamp, StateMachine};
use crate::types::{Batch, RaftLogId};

const CLUSTER: u128 = 0xc1;

/// Reads a directory once the last tasks of its node have released it.
async fn read(data: &Path) -> (Result<StoppedNode, OfflineError>, Sum) {
    drop(released(data).await);
    let (sum, scratch) = (Sum::default(), TempDir::new().unwrap());
    (read_stopped(data, &scratch.path().join("log"), &sum, |_| {}), sum)
}

fn begin(data: PathBuf, node_id: u64, state: &Sum) -> Result<(), OfflineError> {
    let beginning = Beginning { node_id, store: 0x5e, cluster_id: CLUSTER, log_index: 130 };
    NewCluster::prepare(&data)?.begin(&beginning, state.freeze())
}

/// A node that ran alone and has stopped. Its snapshot and its log hold 120 numbers.
async fn stopped(data: &Path) -> u128 {
    let (node, _) = open(options(1, data, &alone())).await;
    for sum in 1..=120 {
        assert_eq!(add(&node, 1).await, Ok(sum));
    }
    let handle = node.handle();
    eventually("a snapshot", || handle.status().snapshot_index >= Some(50)).await;
    node.shutdown().await;
    handle.status().cluster_id.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_directory_is_read_with_all_that_its_node_appended() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let cluster = stopped(&data).await;
    let (read_once, sum) = read(&data).await;
    let StoppedNode { node_id, cluster_id, log_index, .. } = read_once.unwrap();
    assert_eq!((node_id, cluster_id, sum.total()), (Some(1), Some(cluster), 120));
    // Two more entries are appended. They may or may not be on a quorum.
    let last = log_index.unwrap();
    {
        let engine = SledEngine::open(&released(&data).await).unwrap();
        let entry = |index| Entry {
            log_id: RaftLogId::new(LeaderId::new(9, 3), index),
            payload: EntryPayload::Normal(Batch {
                now_ms: 0,
                commands: vec![b"30".to_vec(), b"4".to_vec()],
            }),
        };
        let records = [last + 1, last + 2].map(|index| disk_format::encode_entry(entry(index)));
        engine.append(last + 1, records.to_vec()).unwrap();
        engine.sync().unwrap();
    }
    let (read_again, sum) = read(&data).await;
    let StoppedNode { log_term, log_index, .. } = read_again.unwrap();
    assert_eq!((log_term, log_index, sum.total()), (Some(9), Some(last + 2), 120 + 68));
    std::fs::remove_file(data.join("snapshot/current")).unwrap();
    let (refused, _) = read(&data).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("the snapshot is missing") && !text.contains("wipe"), "{text}");
}

/// What a leader without followers appends lengthens its log, and nothing of it is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_cut_off_has_the_longer_log_in_the_earlier_term() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let nodes = open_three(&peers, &data).await;
    assert_eq!(add(&nodes[0], 10).await, Ok(10));
    let leader = nodes[0].handle().leader_id().unwrap();
    let (leads, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| node.handle().node_id() == leader);
    for node in others {
        node.shutdown().await;
    }
    let handle = leads[0].handle();
    let before = handle.status().last_log_index.unwrap();
    let until = Instant::now() + SOON;
    while handle.status().last_log_index < Some(before + 8) {
        assert!(Instant::now() < until, "the leader appends nothing");
        let soon = Instant::now() + Duration::from_millis(100);
        let lost = handle.propose(vec![b"1".to_vec()], Delivery::AtMostOnce, soon).await;
        assert!(lost.is_err(), "{lost:?}");
    }
    drop(handle);
    for node in leads {
        node.shutdown().await;
    }
    let left: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    let mut nodes = Vec::new();
    for id in &left {
        nodes.push(open(options(*id, &data(*id), &peers)).await.0);
    }
    assert_eq!(add(&nodes[0], 100).await, Ok(110));
    for node in nodes {
        node.shutdown().await;
    }
    let reaches = |read: &StoppedNode| (read.log_term, read.log_leader, read.log_index);
    let (cut_off, lost) = read(&data(leader)).await;
    let (cut_off, mut with_all) = (cut_off.unwrap(), 0);
    for id in left {
        let (later, sum) = read(&data(id)).await;
        let later = later.unwrap();
        assert!(cut_off.log_index > later.log_index, "{cut_off:?} {later:?}");
        with_all += usize::from(reaches(&later) > reaches(&cut_off) && sum.total() == 110);
    }
    assert!(lost.total() < 110 && with_all > 0, "{} {with_all}", lost.total());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_begins_with_the_state_and_others_join_it() {
    let temp = TempDir::new().unwrap();
    let (data, other) = (temp.path().join("restored"), temp.path().join("other"));
    let peers = three_peers();
    let sum = Sum::default();
    sum.apply(Stamp::default(), b"500").unwrap();
    begin(data.clone(), 3, &sum).unwrap();
    let refused = begin(data.clone(), 3, &sum).unwrap_err().to_string();
    assert!(refused.contains("is not empty"), "{refused}");
    for round in 1..=3 {
        let (node, _) = open(options(3, &data, &peers)).await;
        let status = || node.handle().status();
        assert_eq!(status().cluster_id, Some(CLUSTER));
        assert_eq!(add(&node, 1).await, Ok(500 + round));
        assert_eq!(status().members.len(), 1, "its --peers founds nothing again");
        assert!(status().last_log_index > Some(130));
        eventually("it has told its address", || status().members[0].raft == peers[&3]).await;
        node.shutdown().await;
    }
    let (one, _) = open(options(3, &data, &peers)).await;
    assert_eq!(add(&one, 1).await, Ok(504));
    let joining = Options { join: Some(peers[&3].clone()), ..options(2, &other, &peers) };
    let (two, sum) = open(joining).await;
    eventually("the joined node has the state", || sum.total() == 504).await;
    one.handle().add_member(2, peers[&2].clone(), String::new(), true, false).await.unwrap();
    assert_eq!(add(&two, 1).await, Ok(505));
    assert!(two.handle().status().members.iter().all(|member| member.role != Role::Learner));
    for node in [one, two] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_node_and_the_cluster_of_before_refuse_each_other() {
    let temp = TempDir::new().unwrap();
    let peers: BTreeMap<u64, String> = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let [one, two, three] = open_three(&peers, &data).await;
    assert_eq!(add(&one, 10).await, Ok(10));
    one.shutdown().await;
    let (read_one, state) = read(&data(1)).await;
    read_one.unwrap();
    state.apply(Stamp::default(), b"1000").unwrap();
    let restored = temp.path().join("restored");
    begin(restored.clone(), 1, &state).unwrap();
    // It starts under the id and at the address of a member of the old cluster.
    let (one, sum) = open(options(1, &restored, &peers)).await;
    let total = state.total();
    for round in 1..=30 {
        assert_eq!(add(&one, 1).await, Ok(total + round));
        assert_eq!(add(&two, 1).await, Ok(10 + round));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(sum.total(), total + 30);
    let members = |node: &Node| node.handle().status().members.len();
    assert_eq!([members(&one), members(&two), members(&three)], [1, 3, 3]);
    for node in [one, two, three] {
        let ended = timeout(Duration::ZERO, node.stopped()).await;
        assert!(ended.is_err(), "nobody is told to stop: {ended:?}");
        node.shutdown().await;
    }
}
