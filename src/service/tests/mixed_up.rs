//! A node whose log answers commands with responses that only other commands can have. Replies of a log that really
//! mixed them up would look so.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_raft::{
    FrozenState, Newer, Rejected, Release, Remedy, RestoreError, Stamp, StateMachine,
};
use tempfile::TempDir;
use tokio::time::timeout;

use super::alone;
use crate::encoding::{decode_command, encode_response};
use crate::replica::StateReplica;
use crate::server::AssembledNode;
use crate::service::{Actor, Error, TagSpec};
use crate::state::{Command, Response};
use crate::tag::BizTag;

/// Carries out every command, and answers some of them as if they had been another.
struct MixingUp {
    inner: Arc<StateReplica>,
    is_mixed_up: fn(&Command) -> bool,
}

impl StateMachine for MixingUp {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        self.inner.check(command)
    }

    fn supports(&self) -> Release {
        self.inner.supports()
    }

    fn needs(&self) -> Release {
        self.inner.needs()
    }

    fn raising(&self, to: u32) -> Vec<u8> {
        self.inner.raising(to)
    }

    fn apply(&self, stamp: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let reply = self.inner.apply(stamp, command)?;
        let is_mixed_up = decode_command(command).is_ok_and(|command| (self.is_mixed_up)(&command));
        Ok(if is_mixed_up { encode_response(&Response::Noted, 1) } else { reply })
    }

    fn freeze(&self) -> FrozenState {
        self.inner.freeze()
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        self.inner.restore(from)
    }
}

async fn open(dir: &TempDir, is_mixed_up: fn(&Command) -> bool) -> AssembledNode {
    alone(dir, 20, |inner| Arc::new(MixingUp { inner, is_mixed_up })).await
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
    assert!(matches!(taken.await.unwrap(), Err(Error::Unavailable { .. })));
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
    assert!(matches!(made, Err(Error::Unavailable { .. })), "{made:?}");
    assert_stops(node, "a change of a tag").await;
}
