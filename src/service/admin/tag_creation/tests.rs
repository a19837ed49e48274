//! Callers at once, and callers who go away: what a place is worth shows only where creations overlap.

use std::time::Duration;

use mintleaf_core::state::{Actor, State};
use mintleaf_core::tag::InvalidTag;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::server::AssembledNode;
use crate::service::tests::alone;
use crate::service::{Consistency, Imported, TagChange, TagToImport};

const TAGS_MAX: usize = 20;
const CALLERS: usize = 300;

async fn open(dir: &TempDir) -> AssembledNode {
    alone(dir, TAGS_MAX as u64, |state| state).await
}

/// Callers that each create a tag of their own, half of them by its first use.
fn creators(node: &AssembledNode) -> JoinSet<Result<(), Error>> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (services, name) = (node.services.clone(), format!("tag-{caller}"));
        callers.spawn(async move {
            let tag = BizTag::parse(&name).unwrap();
            match caller % 2 {
                0 => {
                    services.tags.create(&Actor::default(), tag, TagSpec::default()).await.map(drop)
                }
                _ => services.ids.take(&name, 1).await.map(drop),
            }
        });
    }
    callers
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_names_than_places_though_all_ask_at_once() {
    let dir = TempDir::new().unwrap();
    let node = open(&dir).await;
    let outcomes = creators(&node).join_all().await;
    let full = Err(Error::TooManyTags { tags_max: TAGS_MAX as u64 });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), TAGS_MAX);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == full).count(), CALLERS - TAGS_MAX);
    assert_eq!(node.replica.read(State::names), TAGS_MAX);
    node.stop().await;
}

/// A name from before new ones were judged; another node's build put it into the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_tag_whose_name_looks_like_another_goes_on_and_no_new_one_is_made() {
    let dir = TempDir::new().unwrap();
    let node = open(&dir).await;
    let (ids, tags) = (&node.services.ids, &node.services.tags);
    let (ops, name) = (Actor::default(), " orders");
    let tag = || BizTag::parse(name).unwrap();
    let import = |max_id| {
        let (step, description) = (1, String::new());
        vec![TagToImport { tag: tag(), step, max_id, description }]
    };
    let refused = Err(Error::from(InvalidTag::Blank));
    let refuses_new_ones = async || {
        assert_eq!(ids.take(name, 1).await.map(drop), refused);
        assert_eq!(ids.could_take(name, 1).await, refused);
        assert_eq!(tags.create(&ops, tag(), TagSpec::default()).await.map(drop), refused);
        let outcomes = [
            tags.plan_import(&import(5)).await.unwrap().pop(),
            tags.import(&ops, "leaf.sql", import(5)).await.pop(),
        ];
        assert!(outcomes.iter().all(|outcome| outcome.clone().unwrap().map(drop) == refused));
    };
    refuses_new_ones().await;
    let (step, start, description) = (1, 1, String::new());
    let create = Command::CreateTag { tag: tag(), step, start, description };
    let deadline = Instant::now() + TAG_CHANGE_MAX;
    let made = node.replica.propose(&create, deadline).await.unwrap();
    assert!(matches!(made, Response::Tag(_)), "{made:?}");
    assert!(ids.take(name, 1).await.is_ok());
    let imported = tags.import(&ops, "leaf.sql", import(1 << 40)).await.pop().unwrap();
    assert_eq!(imported, Ok((Imported::Raised, 1 << 40)));
    let change = TagChange { step: Some(7), ..TagChange::default() };
    assert_eq!(tags.update(&ops, tag(), change).await.unwrap().step, 7);
    assert_eq!(tags.get(name, Consistency::Linearizable).await.unwrap().step, 7);
    assert_eq!(tags.delete(&ops, tag()).await, Ok(()));
    // The name has a tombstone now.
    refuses_new_ones().await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_frees_no_place_before_its_time() {
    let places = Arc::new(Semaphore::new(1));
    let place = Arc::clone(&places).acquire_owned().await.unwrap();
    let (answer, answered) = oneshot::channel();
    let proposal = async move {
        answered.await.unwrap();
        Ok(())
    };
    let caller = tokio::spawn(carry(Some(place), proposal));
    sleep(Duration::from_secs(1)).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(places.available_permits(), 0, "the creation is still under way");
    answer.send(()).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(places.available_permits(), 1);
}
