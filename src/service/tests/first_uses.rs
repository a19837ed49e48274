//! What other nodes do to a tag between its creation on first use and the slot that its first segment goes to.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mintleaf_core::encoding::{decode_command, encode_command};
use mintleaf_core::limits::STEP_DEFAULT;
use mintleaf_core::state::{Actor, Change, Command, Protection};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::StateMachine;
use tempfile::TempDir;

use super::alone;
use super::altered::Altered;
use crate::replica::StateReplica;

/// Where something happens to the state, next to the entries of a first use.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    BeforeCreation,
    BehindGrab,
}

/// The first two ids of a tag that is created on first use, where this happens to the state right behind the entry that
/// reserves its first segment.
async fn first_ids(meanwhile: impl Fn(&StateReplica) + Send + Sync + 'static) -> [u64; 2] {
    first_ids_with(Place::BehindGrab, meanwhile).await
}

async fn first_ids_with(
    place: Place,
    meanwhile: impl Fn(&StateReplica) + Send + Sync + 'static,
) -> [u64; 2] {
    let dir = TempDir::new().unwrap();
    let is_over = AtomicBool::new(false);
    let altered = move |inner| {
        Altered::over(inner, move |inner, stamp, command| {
            let entry = decode_command(command);
            let happens = |at: Place| place == at && !is_over.swap(true, Relaxed);
            if matches!(entry, Ok(Command::CreateTag { .. })) && happens(Place::BeforeCreation) {
                meanwhile(inner);
            }
            let reply = inner.apply(stamp, command)?;
            if matches!(entry, Ok(Command::Grab { .. })) && happens(Place::BehindGrab) {
                meanwhile(inner);
            }
            Ok(reply)
        })
    };
    let node = alone(&dir, 20, altered).await;
    let mut ids = [0; 2];
    for id in &mut ids {
        *id = node.services.ids.take("orders", 1).await.unwrap().numbers[0].start;
    }
    node.stop().await;
    ids
}

fn carry_out(inner: &StateReplica, change: Change) {
    let command = Command::Administer { actor: Actor::default(), change };
    inner.apply(mintleaf_raft::Stamp::default(), &encode_command(&command)).unwrap();
}

fn orders() -> BizTag {
    BizTag::parse("orders").unwrap()
}

#[tokio::test]
async fn a_mark_that_is_named_before_the_first_segment_has_a_slot_binds_it() {
    let above = u64::from(STEP_DEFAULT) + 5_000;
    for mark in [500, above] {
        let import = move |inner: &StateReplica| {
            let (import, description) = ("leaf.sql".into(), String::new());
            let (tag, step, max_id) = (orders(), 1, mark);
            carry_out(inner, Change::ImportTag { import, tag, step, max_id, description });
        };
        assert_eq!(first_ids(import).await, [mark, mark + 1]);
    }
}

#[tokio::test]
async fn a_first_use_behind_the_creation_of_a_tag_reserves_the_step_of_that_tag() {
    for step in [1, 10, STEP_DEFAULT - 1] {
        let create = move |inner: &StateReplica| {
            let (description, protection) = (String::new(), Protection::default());
            let (tag, start) = (orders(), 1);
            carry_out(inner, Change::CreateTag { tag, step, start, description, protection });
        };
        assert_eq!(first_ids_with(Place::BeforeCreation, create).await, [1, 2], "{step}");
    }
}

#[tokio::test]
async fn a_tag_that_is_deleted_before_its_first_segment_has_a_slot_gives_none_of_it() {
    let delete = |inner: &StateReplica| carry_out(inner, Change::DeleteTag { tag: orders() });
    // It is created anew, on first use, above every earlier id.
    let first = 1 + u64::from(STEP_DEFAULT);
    assert_eq!(first_ids(delete).await, [first, first + 1]);
}

#[tokio::test]
async fn a_snapshot_that_comes_before_the_first_segment_has_a_slot_has_it_dropped() {
    let replace = |inner: &StateReplica| {
        let mut snapshot = Vec::new();
        inner.freeze()(&mut snapshot).unwrap();
        inner.restore(&mut &snapshot[..]).unwrap();
    };
    let first = 1 + u64::from(STEP_DEFAULT);
    assert_eq!(first_ids(replace).await, [first, first + 1]);
}
