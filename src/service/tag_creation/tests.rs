//! Callers at once, and callers who go away: what a place is worth shows only where creations overlap.

use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::server::AssembledNode;
use crate::service::tests::alone;
use crate::state::{Actor, State};

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
