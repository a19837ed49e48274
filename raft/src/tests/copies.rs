//! Data directories that were refused, and copies of directories.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::support::{
    SOON, StoppedClock, Sum, add, alone, eventually, open, options, released, secured, three_peers,
};
use crate::error::{NodeError, Remedy};
use crate::message::Refusal;
use crate::node::Node;
use crate::options::Options;
use crate::types::Member;

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_directory_stays_refused_at_every_later_start() {
    let temp = TempDir::new().unwrap();
    let data = temp.path().join("data");
    let (node, _) = open(options(1, &data, &alone())).await;
    let refusal = Refusal::StaleIncarnation { seen: 3 };
    node.handle().core.identity.stop_as_refused(&refusal, refusal.to_string()).await;
    let why = node.stopped().await;
    assert!(
        why.remedy() == Remedy::Operator && why.to_string().contains("restored from an old copy"),
        "{why}"
    );
    node.shutdown().await;
    for _ in 0..3 {
        drop(released(&data).await);
        let sum = Arc::new(Sum::default());
        let opened = Node::open(options(1, &data, &alone()), sum, Arc::new(StoppedClock)).await;
        let Err(NodeError::Stopped(why)) = opened else { panic!("it opens again") };
        assert!(why.remedy() == Remedy::Operator && why.to_string().contains("old copy"), "{why}");
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_counted_past_what_its_peers_saw_stops_when_it_meets_them() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |name: &str| temp.path().join(name);
    let (one, _) = open(options(1, &data("1"), &peers)).await;
    let (two, _) = open(options(2, &data("2"), &peers)).await;
    let (three, _) = open(options(3, &data("3"), &peers)).await;
    assert_eq!(add(&three, 1).await, Ok(1));
    three.shutdown().await;
    drop(released(&data("3")).await);
    copy_dir(&data("3"), &data("copy"));
    let (three, _) = open(options(3, &data("3"), &peers)).await;
    assert_eq!(add(&three, 1).await, Ok(2));
    // A start that acknowledged nothing may be forgotten. This one has acknowledged an entry.
    let second = three.handle().core.identity.origin();
    let has_seen = |node: &Node| {
        let member = Member { store: second.store, ..Member::default() };
        let seen = node.handle().core.identity.destination(3, &member).incarnation_seen;
        seen == Some(second.incarnation)
    };
    eventually("the leader has seen the second start", || has_seen(&one) || has_seen(&two)).await;
    three.shutdown().await;
    drop(released(&data("3")).await);

    // A new leader does not know how far this node's log reached.
    let status = || one.handle().status();
    eventually("one of the others leads", || matches!(status().leader_id, Some(1 | 2))).await;
    let target = 3 - status().leader_id.unwrap();
    one.handle().transfer_leader(target).await.unwrap();
    std::fs::remove_dir_all(data("3")).unwrap();
    copy_dir(&data("copy"), &data("3"));
    for _ in 0..5 {
        // A wrong secret keeps it apart from its peers.
        let apart = Options {
            security: secured(b"another secret, which is as long as it must"),
            ..options(3, &data("3"), &peers)
        };
        open(apart).await.0.shutdown().await;
    }
    let (copy, _) = open(options(3, &data("3"), &peers)).await;
    let why = timeout(SOON, copy.stopped()).await.expect("the copy stops");
    assert!(why.to_string().contains("restored from an old copy"), "{why}");
    assert_eq!(add(&one, 1).await, Ok(3), "the others go on");
    copy.shutdown().await;
    for node in [one, two] {
        let stopped = timeout(Duration::ZERO, node.stopped()).await;
        assert!(stopped.is_err(), "the node that told the copy is told to stop: {stopped:?}");
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_started_often_alone_is_believed() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |name: &str| temp.path().join(name);
    let (one, _) = open(options(1, &data("1"), &peers)).await;
    let (two, _) = open(options(2, &data("2"), &peers)).await;
    for _ in 0..5 {
        let (three, sum) = open(options(3, &data("3"), &peers)).await;
        let total = add(&three, 1).await.expect("it takes part");
        eventually("it has what it added", || sum.total() == total).await;
        three.shutdown().await;
        let apart = Options {
            security: secured(b"another secret, which is as long as it must"),
            ..options(3, &data("3"), &peers)
        };
        open(apart).await.0.shutdown().await;
    }
    for node in [one, two] {
        node.shutdown().await;
    }
}
