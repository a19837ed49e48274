//! A node whose log answers commands with responses that only other commands can have. Replies of a log that really
//! mixed them up would look so.

use std::time::Duration;

use mintleaf_core::encoding::{decode_command, encode_response};
use mintleaf_core::state::{Command, Response};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::{Remedy, Stamp, StateMachine};
use tempfile::TempDir;
use tokio::time::timeout;

use super::alone;
use super::altered::Altered;
use crate::replica::StateReplica;
use crate::server::AssembledNode;
use crate::service::{Actor, Error, TagSpec};

/// A node that carries out every command, and answers some of them as if they had been another.
async fn open(dir: &TempDir, is_mixed_up: fn(&Command) -> bool) -> AssembledNode {
    let mixing_up = move |inner: &StateReplica, stamp: Stamp, command: &[u8]| {
        let reply = inner.apply(stamp, command)?;
        let is_mixed_up = decode_command(command).is_ok_and(|command| is_mixed_up(&command));
        Ok(if is_mixed_up { encode_response(&Response::Noted, 1) } else { reply })
    };
    alone(dir, 20, move |inner| Altered::over(inner, mixing_up)).await
}

/// Checks that a node stops by itself, in a way that lets another start go on.
async fn assert_stops(mut node: AssembledNode, what: &str) {
    let why = timeout(Duration::from_secs(20), node.ended()).await.expect("the node goes on");
    assert!(why.to_string().contains(what), "{why}");
    assert_eq!(why.remedy(), Remedy::Restart);
    node.stop().await;
}

#[tokio::test]
async fn a_grab_that_has_the_response_to_another_command_gives_no_id_and_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(&dir, |command| matches!(command, Command::Grab { .. })).await;
    let services = node.services.clone();
    let taken = tokio::spawn(async move { services.ids.take("orders", 1).await });
    assert_stops(node, "a grab").await;
    assert!(matches!(taken.await.unwrap(), Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn a_worker_id_that_has_the_response_to_another_command_stops_the_node() {
    for (is_mixed_up, what) in [
        (
            (|command| matches!(command, Command::AcquireWorker { .. })) as fn(&Command) -> bool,
            "an acq",
        ),
        (|command| matches!(command, Command::RenewWorker { .. }), "a held window"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        assert_stops(open(&dir, is_mixed_up).await, what).await;
    }
}

#[tokio::test]
async fn a_change_that_has_the_response_to_another_command_fails_and_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(&dir, |command| matches!(command, Command::Administer { .. })).await;
    let tag = BizTag::parse("orders").unwrap();
    let made = node.services.tags.create(&Actor::default(), tag, TagSpec::default()).await;
    assert!(matches!(made, Err(Error::Unavailable(_))), "{made:?}");
    assert_stops(node, "a change of a tag").await;
}
