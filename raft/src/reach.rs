//! Who can be reached: what every node knows of every other, whether there is anything to say or not.
//!
//! A node that was heard, by an answer or by a message of its own, can be reached. The leader and its
//! followers hear of each other with every heartbeat. Who has been silent for a while, as followers are to
//! each other, is asked; one question a second for each pair, since it tells both ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::node::Inner;
use crate::transport::Request;

/// For how long a sign of life says that a node can be reached. What is told is 2 s old at most.
const FRESH_MAX: Duration = Duration::from_millis(1_800);
/// Who was silent for this long is asked.
const SILENCE_MAX: Duration = Duration::from_millis(700);
/// Between two looks at who was silent.
const LOOK_INTERVAL: Duration = Duration::from_millis(350);
/// How long an answer is waited for. Another question goes out meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Questions under way at once: members are few, and those that do not answer are asked again.
const QUESTIONS_MAX: usize = 64;

/// When each peer last showed a sign of life.
#[derive(Default)]
pub(crate) struct Reach(Mutex<BTreeMap<u64, Instant>>);

impl Reach {
    /// Notes a sign of life of a member, by the store that the membership names.
    pub(crate) fn heard(&self, node_id: u64) {
        self.0.lock().insert(node_id, Instant::now());
    }

    /// Notes that nobody listens where a member should be.
    pub(crate) fn gone(&self, node_id: u64) {
        self.0.lock().remove(&node_id);
    }

    /// Whether a member can be reached, as of 2 s ago or later.
    pub(crate) fn is_fresh(&self, node_id: u64) -> bool {
        !self.is_silent_for(node_id, FRESH_MAX)
    }

    fn is_silent_for(&self, node_id: u64, time: Duration) -> bool {
        self.0.lock().get(&node_id).is_none_or(|heard| heard.elapsed() >= time)
    }

    /// Forgets who is no member any more.
    fn keep_only(&self, is_member: impl Fn(u64) -> bool) {
        self.0.lock().retain(|&node_id, _| is_member(node_id));
    }
}

/// Asks members that were silent for a sign of life, for as long as the node runs.
pub(crate) async fn keep_in_touch(inner: Arc<Inner>) {
    let mut questions = JoinSet::new();
    loop {
        while questions.try_join_next().is_some() {}
        let others = inner.others();
        inner.client.reach().keep_only(|node_id| others.contains_key(&node_id));
        for (id, member) in others {
            let silent = inner.client.reach().is_silent_for(id, SILENCE_MAX);
            if silent && questions.len() < QUESTIONS_MAX {
                let inner = Arc::clone(&inner);
                questions.spawn(async move {
                    // What comes of it is noted where it comes in.
                    let _ = inner.client.call(id, &member, Request::Ping, ANSWER_TIMEOUT).await;
                });
            }
        }
        sleep(LOOK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_counts_for_less_than_two_seconds() {
        let reach = Reach::default();
        assert!(!reach.is_fresh(2), "never heard");
        reach.heard(2);
        advance(Duration::from_millis(1_700)).await;
        assert!(reach.is_fresh(2));
        advance(Duration::from_millis(200)).await;
        assert!(!reach.is_fresh(2));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_certainly_gone_is_not_reachable_until_it_is_heard_again() {
        let reach = Reach::default();
        reach.heard(2);
        reach.gone(2);
        assert!(!reach.is_fresh(2));
        reach.heard(2);
        assert!(reach.is_fresh(2));
    }
}
