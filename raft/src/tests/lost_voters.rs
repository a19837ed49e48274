//! Changes of the voters while one of them is down.

use std::collections::{BTreeMap, BTreeSet};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::support::{SOON, add, eventually, open, open_three, options, three_peers};
use crate::message::MembershipError;
use crate::node::{Node, Role};

/// The leader, another running node, and the id of the third one, which was stopped.
async fn two_of_three(nodes: [Node; 3]) -> (Node, Node, u64) {
    assert_eq!(add(&nodes[2], 1).await, Ok(1));
    let leader = nodes[0].handle().status().leader_id.expect("a leader");
    let (leader, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| node.handle().node_id() == leader);
    let [leader] = <[Node; 1]>::try_from(leader).unwrap_or_else(|_| panic!("a leader"));
    let [live, dead] = <[Node; 2]>::try_from(others).unwrap_or_else(|_| panic!("two others"));
    let id = dead.handle().node_id();
    dead.shutdown().await;
    (leader, live, id)
}

/// Asks a node to take the vote of a member, even where that may never be committed.
fn demote_by_force(
    asked: &Node,
    id: u64,
    peers: &BTreeMap<u64, String>,
) -> JoinHandle<Result<(), MembershipError>> {
    let (asked, raft) = (asked.handle(), peers[&id].clone());
    tokio::spawn(async move { asked.add_member(id, raft, String::new(), false, true).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_could_never_be_committed_is_not_begun() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let (leader, live, dead) = two_of_three(open_three(&peers, data).await).await;
    let (own, other) = (leader.handle().node_id(), live.handle().node_id());
    let raft = |id: u64| peers[&id].clone();
    let refused = [
        leader.handle().remove_member(other, false).await,
        live.handle().remove_member(own, false).await,
        live.handle().add_member(other, raft(other), String::new(), false, false).await,
        leader.handle().add_member(own, raft(own), String::new(), false, false).await,
    ];
    for refused in refused {
        let Err(MembershipError::Conflict(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with(&format!("node {dead} does not answer: 1 of the 2 ")), "{why}");
    }
    let status = leader.handle().status();
    assert_eq!((status.leader_id, status.voters.len()), (Some(own), 1), "nothing has changed");
    assert!(status.members.iter().all(|member| member.role != Role::Learner), "{status:?}");
    assert_eq!(add(&live, 1).await, Ok(2));

    // The remaining nodes are a quorum once the stopped node is no longer counted.
    leader.handle().remove_member(dead, false).await.unwrap();
    assert_eq!(add(&live, 1).await, Ok(3));
    leader.handle().remove_member(other, false).await.unwrap();
    assert_eq!(add(&leader, 1).await, Ok(4));
    leader.shutdown().await;
    drop(live);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_forced_ends_once_the_missing_voter_is_back() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let (leader, live, dead) = two_of_three(open_three(&peers, data).await).await;
    let (own, other) = (leader.handle().node_id(), live.handle().node_id());
    // The asker is the node that leaves, so the request to force the change travels to the leader.
    let changing = demote_by_force(&live, other, &peers);
    let halves = vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([own, dead])];
    let begun = || leader.handle().status().voters == halves;
    eventually("both halves of the change show", begun).await;
    let (back, _) = open(options(dead, &data(dead), &peers)).await;
    let left = || live.handle().status().voters == halves[1..];
    eventually("the change ends", left).await;
    let outcome = changing.await.unwrap();
    assert!(matches!(outcome, Ok(()) | Err(MembershipError::Unavailable(_))), "{outcome:?}");
    assert_eq!(live.handle().read_barrier(Instant::now() + SOON).await, Ok(()));
    assert_eq!(add(&back, 1).await, Ok(2));
    for node in [leader, live, back] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_a_change_leaves_without_a_vote_makes_a_voter_lead() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let (leader, live, dead) = two_of_three(open_three(&peers, data).await).await;
    let (own, other) = (leader.handle().node_id(), live.handle().node_id());
    let changing = demote_by_force(&leader, other, &peers);
    let halves = vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([own, dead])];
    let begun = || live.handle().status().voters == halves;
    eventually("the follower has both halves of the change", begun).await;
    leader.shutdown().await;
    changing.abort();

    // Only the node that loses its vote stands for election.
    let (leader, _) = open(options(own, &data(own), &peers)).await;
    leader.stand_down();
    let (back, _) = open(options(dead, &data(dead), &peers)).await;
    back.stand_down();
    let settled = || {
        let status = back.handle().status();
        status.voters == halves[1..] && status.leader_id.is_some_and(|id| id != other)
    };
    eventually("a voter leads and has ended the change", settled).await;
    assert_eq!(add(&live, 1).await, Ok(2));
    for node in [leader, live, back] {
        node.shutdown().await;
    }
}
