//! Claims that a node was removed.

use std::time::Duration;

use tempfile::TempDir;

use super::support::{add, eventually, open_three, three_peers};
use crate::message::{Request, Response};
use crate::node::Node;

/// Longer than a node takes to write down that it was removed.
const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lies_about_a_removal_ends_no_other() {
    let temp = TempDir::new().unwrap();
    let nodes = open_three(&three_peers(), |id| temp.path().join(format!("node-{id}"))).await;
    assert_eq!(add(&nodes[0], 1).await, Ok(1));
    let leader = nodes[0].handle().status().leader_id.expect("a leader");
    let target = leader % 3 + 1;
    let follows = |node: &Node| {
        let status = node.handle().status();
        status.leader_id == Some(leader) && status.members.len() == 3
    };
    eventually("all follow the leader", || nodes.iter().all(follows)).await;
    for node in nodes.iter().filter(|node| node.handle().node_id() != target) {
        // A follower's claim does not count, nor does the leader's about an index that its log cannot have.
        let core = node.handle().core;
        let member = core.member(target).unwrap();
        let notice = Request::Removed { members_index: 1 << 40 };
        let answer = core.client.call(target, &member, notice, WITHIN).await;
        assert!(matches!(answer, Ok(Response::Done)), "{answer:?}");
    }
    let node = nodes.iter().find(|node| node.handle().node_id() == target).unwrap();
    assert!(!node.handle().core.identity.stop_handle().must_stop());
    assert_eq!(add(node, 1).await, Ok(2));
    for node in nodes {
        node.shutdown().await;
    }
}
