//! Clusters of three: bootstrap, snapshots, leaders and removals.

use std::collections::BTreeMap;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::support::{SOON, add, alone, eventually, open, open_three, options, three_peers};
use crate::error::Delivery;
use crate::message::{Change, Precaution};
use crate::node::Node;

#[tokio::test(flavor = "multi_thread")]
async fn founders_are_prepared_for_the_cluster_that_their_coordinator_committed() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(open(options(id, &temp.path().join(format!("node-{id}")), &peers)).await.0);
    }
    assert_eq!(add(&nodes[2], 1).await, Ok(1));
    let cluster = nodes[0].handle().status().cluster_id.expect("a cluster");
    for node in &nodes {
        let prepared = node.handle().core.identity.bootstrap().prepared().expect("it is prepared");
        let coordinator = nodes[0].handle().core.identity.store();
        assert_eq!(
            (prepared.cluster, prepared.coordinator, prepared.store),
            (cluster, 1, coordinator)
        );
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
    let [one, two, three] = open_three(&peers, &data).await;
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
    eventually("the late node has the sum", || sum.total() == 200).await;
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
        assert_eq!(sum.total(), round, "read at node {leader} after its restart");
        nodes.insert(leader, (node, sum));
    }
    for (_, (node, _)) in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_forwards_a_second_batch_while_the_first_waits_at_the_leader() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let mut nodes = BTreeMap::new();
    for id in 1..=3 {
        nodes.insert(id, open(options(id, &temp.path().join(format!("node-{id}")), &peers)).await);
    }
    assert_eq!(add(&nodes[&1].0, 1).await, Ok(1));
    let id = nodes[&1].0.handle().status().leader_id.expect("a leader");
    let ((leader, sum), follower) = (&nodes[&id], &nodes[&(id % 3 + 1)].0);
    let (core, last_log_index) = (leader.handle().core, || leader.handle().status().last_log_index);
    let before = last_log_index();
    let waiting = || core.queue.max_capacity() - core.queue.capacity();
    let propose = |node: &Node| {
        let (handle, command) = (node.handle(), b"1".to_vec());
        let deadline = Instant::now() + SOON;
        tokio::spawn(
            async move { handle.propose(vec![command], Delivery::AtMostOnce, deadline).await },
        )
    };

    let under_way = sum.hold();
    let first = propose(leader);
    let is_appended = || last_log_index() > before && waiting() == 0;
    eventually("the first is under way", is_appended).await;
    let second = propose(follower);
    eventually("the second waits at the leader", || waiting() == 1).await;
    let third = propose(follower);
    eventually("the third waits there as well", || waiting() == 2).await;
    drop(under_way);
    for (proposed, sum) in [(first, "2"), (second, "3"), (third, "4")] {
        assert_eq!(proposed.await.unwrap(), Ok(vec![sum.as_bytes().to_vec()]));
    }
    for (_, (node, _)) in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_transferred_and_the_log_goes_on() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(open(options(id, &temp.path().join(format!("node-{id}")), &peers)).await.0);
    }
    assert_eq!(add(&nodes[0], 1).await, Ok(1));
    let leader = nodes[0].handle().status().leader_id.expect("a leader");
    let target = leader % 3 + 1;
    // The request goes to a node that neither leads nor is to lead.
    let third = 6 - leader - target;
    let asked = nodes[usize::try_from(third).unwrap() - 1].handle();
    let leads = || asked.status().leader_id == Some(target);
    let transferred = timeout(SOON, async {
        while !leads() {
            // The caller goes away, usually before the end. The transfer is carried out all the same.
            drop(timeout(Duration::from_millis(50), asked.transfer_leader(target)).await);
            drop(timeout(Duration::from_secs(2), eventually("the target leads", leads)).await);
        }
    });
    transferred.await.expect("the target leads");
    let knows_time =
        || nodes.iter().all(|node| node.handle().core.heard.cluster_now_ms().is_some());
    eventually("every follower has the new leader's median", knows_time).await;
    assert_eq!(add(&nodes[0], 1).await, Ok(2));
    for node in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_removal_does_not_remove_a_node_that_has_joined_since() {
    let temp = TempDir::new().unwrap();
    let (node, _) = open(options(1, temp.path(), &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    let membership = node.handle().membership;
    let store = node.handle().core.identity.store();
    let mut refusals = Vec::new();
    for meant in [store + 1, store] {
        let refused = membership
            .change_as_leader(Change::Remove { id: 1, store: meant }, Precaution::AskVoters)
            .await;
        refusals.push(refused.unwrap_err().to_string());
    }
    assert!(refusals[0].contains("has joined again since"), "{refusals:?}");
    assert!(refusals[1].contains("the last voter"), "{refusals:?}");
    drop(membership);
    node.shutdown().await;
}
