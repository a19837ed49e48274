//! Probes of members, so that every node knows which others can be reached, and keeps a connection to each.
//!
//! The leader and its followers hear of each other with every heartbeat. Followers are silent to each other,
//! so a node pings a member that was silent for a while. That is one ping a second for each pair, because it
//! shows both ends to each other.
//!
//! A ping of one end keeps that end's connection alone. The transport closes one that was idle for 30 s, and a
//! candidate that has to open one needs a listener that accepts it just then. So each end calls the other
//! every few seconds, whatever it hears of it, and learns the round trip and the other's condition by it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::CallError;
use crate::core::Core;
use crate::message::{Refusal, Request, Response};
use crate::peers::{Reachability, Weather};
use crate::types::Member;

/// A member that was silent for this long is pinged.
const SILENCE_MAX: Duration = Duration::from_millis(700);
/// A member that has not answered this node for this long is pinged: a third of the time for which the
/// transport keeps an idle connection.
const UNANSWERED_MAX: Duration = Duration::from_secs(9);
/// A member whose condition was last heard this long ago is asked for it.
const CONDITION_AGE_MAX: Duration = Duration::from_secs(3);
/// Time between two looks at which members were silent.
const LOOK_INTERVAL: Duration = Duration::from_millis(350);
/// A ping waits this long for its answer, or for longer on a slow link. Another ping is sent meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Pings under way at once. Members are few, and a member that does not answer is pinged again.
const PINGS_MAX: usize = 64;

/// Whether a ping is due.
fn is_due(reachability: &Reachability, weather: &Weather, node_id: u64) -> bool {
    reachability.is_silent_for(node_id, SILENCE_MAX)
        || reachability.has_not_answered_for(node_id, UNANSWERED_MAX)
        || weather.may_take_heartbeats(node_id) && weather.is_older_than(node_id, CONDITION_AGE_MAX)
}

/// Pings a member: asks for its condition, or for a mere sign of life where its build knows no other question. The
/// client records that it answered.
async fn ping(core: &Core, id: u64, member: &Member) {
    let (weather, sent) = (core.heard.weather(), Instant::now());
    let within = ANSWER_TIMEOUT.max(weather.message_max(id));
    if !weather.may_take_heartbeats(id) {
        let _ = core.client.call(id, member, Request::Ping, within).await;
        return;
    }
    match core.client.call(id, member, Request::Heartbeat { lead: None }, within).await {
        Ok(Response::Heartbeat(condition)) => weather.answered(id, sent, condition),
        Err(CallError::Refused { refusal: Refusal::Failed(_), .. }) => weather.refused(id),
        _ => {}
    }
}

/// Pings members, for as long as the node runs.
pub(crate) async fn probe(core: Arc<Core>) {
    let mut pings = JoinSet::new();
    loop {
        while pings.try_join_next().is_some() {}
        let others = core.others();
        core.heard.reachability().keep_only(|node_id| others.contains_key(&node_id));
        core.heard.weather().keep_only(|node_id| others.contains_key(&node_id));
        for (id, member) in others {
            let (reachability, weather) = (core.heard.reachability(), core.heard.weather());
            if is_due(reachability, weather, id) && pings.len() < PINGS_MAX {
                let core = Arc::clone(&core);
                pings.spawn(async move { ping(&core, id, &member).await });
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
    async fn a_member_that_only_asks_is_called_before_its_kept_connection_ends() {
        let (reachability, weather) = (Reachability::default(), Weather::default());
        reachability.answered(2);
        for _ in 0..17 {
            weather.refused(2);
            assert!(!is_due(&reachability, &weather, 2));
            advance(Duration::from_millis(500)).await;
            reachability.heard(2);
        }
        advance(Duration::from_millis(500)).await;
        reachability.heard(2);
        assert!(is_due(&reachability, &weather, 2));
    }
}
