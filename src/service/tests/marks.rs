//! Marks that an administrator or an import names, and what a node holds.

use mintleaf_core::shape::Order;
use mintleaf_core::tag::BizTag;
use tempfile::TempDir;

use super::alone;
use crate::server::AssembledNode;
use crate::service::{Actor, Error, TagChange, TagSpec, TagToImport};

async fn next(node: &AssembledNode, tag: &str) -> u64 {
    let taken = node.services.ids.take(tag, 1).await.unwrap();
    taken.numbers[0].start
}

#[tokio::test]
async fn a_raised_mark_reaches_what_is_held_of_plain_and_of_strict_tags() {
    let dir = TempDir::new().unwrap();
    let node = alone(&dir, 20, |inner| inner).await;
    node.replica.node().raise_level().await.unwrap();
    let (tags, actor) = (&node.services.tags, Actor::default());
    for (name, order) in [("plain", Order::default()), ("strict", Order::Strict)] {
        let tag = || BizTag::parse(name).unwrap();
        let mut spec = TagSpec { step: Some(1_000), ..TagSpec::default() };
        spec.shape.order = order;
        tags.create(&actor, tag(), spec).await.unwrap();
        assert_eq!(next(&node, name).await, 1);
        let import =
            |max_id| vec![TagToImport { tag: tag(), step: 1, max_id, description: String::new() }];
        for mark in [500, 400] {
            // What is held reaches further, so neither changes a row.
            tags.import(&actor, "leaf.sql", import(mark)).await.pop().unwrap().unwrap();
        }
        assert_eq!(next(&node, name).await, 500, "{name}");
        let change = TagChange { max_id: Some(50_000), ..TagChange::default() };
        tags.update(&actor, tag(), change).await.unwrap();
        assert_eq!(next(&node, name).await, 50_000, "{name}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_mark_that_is_raised_while_a_tag_is_frozen_binds_what_is_held_once_it_thaws() {
    let dir = TempDir::new().unwrap();
    let node = alone(&dir, 20, |inner| inner).await;
    node.replica.node().raise_level().await.unwrap();
    let (tags, actor) = (&node.services.tags, Actor::default());
    for (name, order) in [("plain", Order::default()), ("strict", Order::Strict)] {
        let tag = || BizTag::parse(name).unwrap();
        let freeze = |frozen| {
            let change = TagChange { frozen: Some(frozen), ..TagChange::default() };
            tags.update(&actor, tag(), change)
        };
        let mut spec = TagSpec { step: Some(10_000), ..TagSpec::default() };
        spec.shape.order = order;
        tags.create(&actor, tag(), spec).await.unwrap();
        assert_eq!(next(&node, name).await, 1);
        freeze(true).await.unwrap();
        // The first mark lies within what is held, and changes no row.
        let (import, description) = ("leaf.sql", String::new());
        let row = TagToImport { tag: tag(), step: 1, max_id: 500, description };
        tags.import(&actor, import, vec![row]).await.pop().unwrap().unwrap();
        assert_eq!(node.services.ids.take(name, 1).await.unwrap_err(), Error::Frozen, "{name}");
        assert!(freeze(false).await.unwrap().max_id > 500);
        assert_eq!(next(&node, name).await, 500, "{name}");
        freeze(true).await.unwrap();
        let change = TagChange { max_id: Some(50_000), ..TagChange::default() };
        let raised = tags.update(&actor, tag(), change).await.unwrap();
        assert!(raised.protection.frozen, "{name}");
        assert_eq!(node.services.ids.take(name, 1).await.unwrap_err(), Error::Frozen, "{name}");
        freeze(false).await.unwrap();
        assert_eq!(next(&node, name).await, 50_000, "{name}");
    }
    node.stop().await;
}
