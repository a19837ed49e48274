//! What a leader ensures before it judges a change of the membership.

use std::io::{self, Read};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;
use tokio::time::timeout;

use super::support::{SOON, StoppedClock, Sum, add, alone, eventually, open, options};
use crate::error::{Delivery, ProposeError, Rejected};
use crate::message::{Change, MembershipError, Precaution};
use crate::node::{Node, PROPOSAL_BYTES_MAX};
use crate::state_machine::{FrozenState, Newer, Release, RestoreError, Stamp, StateMachine};

/// A state machine that applies nothing while it is held.
#[derive(Default)]
struct Held {
    sum: Sum,
    held: Mutex<bool>,
    let_go: Condvar,
}

impl Held {
    fn let_go(&self) {
        *self.held.lock() = false;
        self.let_go.notify_all();
    }
}

impl StateMachine for Held {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        self.sum.check(command)
    }

    fn supports(&self) -> Release {
        self.sum.supports()
    }

    fn needs(&self) -> Release {
        self.sum.needs()
    }

    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        self.sum.raising(to)
    }

    fn apply(&self, stamp: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let mut held = self.held.lock();
        while *held {
            self.let_go.wait(&mut held);
        }
        drop(held);
        self.sum.apply(stamp, command)
    }

    fn freeze(&self) -> FrozenState {
        self.sum.freeze()
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        self.sum.restore(from)
    }
}

/// Releases a state machine even if a test fails, so that its runtime can end.
struct LetGo(Arc<Held>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The level is part of the state, so a leader that has not applied what is committed does not know it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_is_judged_before_what_is_committed_is_applied() {
    let temp = TempDir::new().unwrap();
    let state = Arc::new(Held::default());
    let opened = Node::open(
        options(1, temp.path(), &alone()),
        Arc::clone(&state) as _,
        Arc::new(StoppedClock),
    );
    let node = opened.await.unwrap();
    assert_eq!(add(&node, 1).await, Ok(1));
    let last = || node.handle().status().last_log_index;
    let before = last();
    let _let_go = LetGo(Arc::clone(&state));
    *state.held.lock() = true;
    let handle = node.handle();
    let adding = tokio::spawn(async move {
        let deadline = tokio::time::Instant::now() + SOON;
        handle.propose(vec![b"1".to_vec()], Delivery::AtMostOnce, deadline).await
    });
    eventually("the entry is in the log", || last() > before).await;
    let judge = || async {
        let membership = node.handle().membership;
        membership.change_as_leader(Change::RaiseLevel, Precaution::AskVoters).await
    };
    let judged = judge().await;
    assert!(matches!(judged, Err(MembershipError::NoLeader(_))), "{judged:?}");
    state.let_go();
    timeout(SOON, adding).await.unwrap().unwrap().unwrap();
    assert_eq!(judge().await, Ok(()));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_entry_can_hold_is_refused_and_the_leader_goes_on() {
    let temp = TempDir::new().unwrap();
    let (node, _) = open(options(1, temp.path(), &alone())).await;
    assert_eq!(add(&node, 1).await, Ok(1));
    let http = format!("127.0.0.1:{}80", "0".repeat(200_000));
    let added = node.handle().add_member(1, String::new(), http.clone(), true, false).await;
    assert!(matches!(added, Err(MembershipError::Conflict(_))), "{added:?}");
    let added = node.handle().add_member(1, http, String::new(), true, false).await;
    assert!(matches!(added, Err(MembershipError::Conflict(_))), "{added:?}");
    let too_large = vec![vec![b'1'; PROPOSAL_BYTES_MAX + 1]];
    let deadline = tokio::time::Instant::now() + SOON;
    let proposed = node.handle().propose(too_large, Delivery::AtMostOnce, deadline).await;
    assert!(matches!(proposed, Err(ProposeError::Rejected(Rejected::Unfit(_)))), "{proposed:?}");
    assert_eq!(add(&node, 1).await, Ok(2));
    node.shutdown().await;
}
