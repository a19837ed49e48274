//! Members that propose commands that no replica can apply.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::support::{SOON, StoppedClock, Sum, add, eventually, open, options, three_peers};
use crate::client::CallError;
use crate::core::Core;
use crate::error::{Delivery, ProposeError, Rejected};
use crate::message::{ForwardError, Request, Response};
use crate::node::Node;

/// Three nodes, and the indices of the leader and of a follower.
async fn three(temp: &TempDir) -> (Vec<Node>, usize, usize) {
    let peers = three_peers();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(open(options(id, &temp.path().join(id.to_string()), &peers)).await.0);
    }
    assert_eq!(add(&nodes[0], 1).await, Ok(1));
    for node in &nodes {
        let taken_in = node.handle().read_barrier(Instant::now() + SOON).await;
        assert_eq!(taken_in, Ok(()));
    }
    let leader = nodes[0].handle().status().leader_id.expect("a leader");
    let leader = usize::try_from(leader).unwrap() - 1;
    (nodes, leader, (leader + 1) % 3)
}

/// Makes one member send commands to another without checking them itself.
async fn send(from: &Node, to: &Node, commands: Vec<Vec<u8>>) -> Result<Response, CallError> {
    let (from, to) = (from.handle().core, to.handle().core);
    let request = Request::Propose { commands, within_ms: 2000 };
    from.client.call(to.identity.node_id(), &to.myself(), request, SOON).await
}

fn refused_places(answer: &Result<Response, CallError>) -> Option<Vec<u32>> {
    let Ok(Response::Proposed(Err(ForwardError::Refused(refused)))) = answer else { return None };
    Some(refused.iter().map(|refused| refused.at).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_that_nobody_can_apply_is_refused_and_stops_no_node() {
    let temp = TempDir::new().unwrap();
    let (nodes, leader, follower) = three(&temp).await;
    let (leader, follower) = (&nodes[leader], &nodes[follower]);
    let before = leader.handle().status().last_log_index;

    let text = |text: &str| text.as_bytes().to_vec();
    let garbage = send(follower, leader, vec![text("5"), text("garbage!"), vec![]]).await;
    assert_eq!(refused_places(&garbage), Some(vec![1, 2]), "{garbage:?}");
    for much in [vec![vec![b'1'; 200_000]], vec![vec![]; 1_000_000]] {
        let sent = send(follower, leader, much).await;
        let at_the_decoder =
            |error: &CallError| error.to_string().contains("more commands than an entry holds");
        assert!(sent.as_ref().is_err_and(at_the_decoder), "{sent:?}");
    }
    let after = leader.handle().status().last_log_index;
    assert_eq!(after, before, "something was appended");

    assert_eq!(add(follower, 1).await, Ok(2), "its next proposal is carried through");
    for node in &nodes {
        let stopped = timeout(Duration::ZERO, node.stopped()).await;
        assert!(stopped.is_err(), "a node ended: {stopped:?}");
    }
    for node in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_learns_at_once_that_its_bytes_are_no_command() {
    let temp = TempDir::new().unwrap();
    let (nodes, leader, follower) = three(&temp).await;
    for node in [&nodes[leader], &nodes[follower]] {
        let commands = vec![b"1".to_vec(), b"one".to_vec()];
        let deadline = Instant::now() + SOON;
        let proposed = node.handle().propose(commands, Delivery::AtLeastOnce, deadline).await;
        let is_unfit = matches!(proposed, Err(ProposeError::Rejected(Rejected::Unfit(_))));
        assert!(is_unfit, "{proposed:?}");
    }
    assert_eq!(add(&nodes[follower], 1).await, Ok(2), "nothing of it was applied");
    for node in nodes {
        node.shutdown().await;
    }
}

async fn propose(core: &Core, command: &str) -> Result<Vec<Vec<u8>>, ProposeError> {
    let deadline = Instant::now() + SOON;
    let commands = core.check_commands(vec![command.as_bytes().to_vec()], deadline).await.unwrap();
    core.propose(commands, Delivery::AtMostOnce, deadline, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_leader_does_not_know_fails_alone_among_its_neighbours() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(id.to_string());
    let (one, sum) = open(options(1, &data(1), &peers)).await;
    let (two, _) = open(options(2, &data(2), &peers)).await;
    let newer = Arc::new(Sum::accepting_new());
    let three = Node::open(options(3, &data(3), &peers), newer, Arc::new(StoppedClock));
    let three = three.await.unwrap();
    assert_eq!(add(&three, 1).await, Ok(1));
    if one.handle().status().leader_id == Some(3) {
        one.handle().transfer_leader(1).await.unwrap();
    }
    // There are more proposals than one batch holds, so they are gathered and forwarded together.
    let core = three.handle().core;
    let mut proposals = tokio::task::JoinSet::new();
    for number in 0..200 {
        let core = Arc::clone(&core);
        let command = if number % 10 == 0 { "new" } else { "1" };
        proposals.spawn(async move { (command, propose(&core, command).await) });
    }
    let mut applied = 0;
    while let Some(proposed) = proposals.join_next().await {
        match proposed.unwrap() {
            ("new", Err(ProposeError::Rejected(Rejected::Unfit(_)))) => {}
            ("1", Ok(_)) => applied += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(applied, 180);
    eventually("everybody's sum", || sum.total() == 181).await;
    drop(core);
    for node in [one, two, three] {
        node.shutdown().await;
    }
}
