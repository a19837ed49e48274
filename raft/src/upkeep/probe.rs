//! Probes of members, so that every node knows which others can be reached, and keeps a connection to each.
//!
//! The leader and its followers hear each other with every heartbeat. Followers do not hear each other, so a node
//! pings a member that was silent for a while. That is one ping a second for each pair, because a ping shows both
//! ends to each other.
//!
//! A ping keeps only its sender's connection in use. The transport closes a connection that was idle for 30 s, and a
//! candidate that has to open one needs a listener that accepts it at that moment. So each end calls the other every
//! few seconds even if it hears it, and measures the round trip and learns the other's condition that way.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::client::CallError;
use crate::core::Core;
use crate::message::{Refusal, Request, Response};
use crate::peers::{Reachability, Weather};
use crate::types::Member;

/// A member that was silent for this long is pinged.
const SILENCE_MAX: Duration = Duration::from_millis(700);
/// A member that has not answered this node for this long is pinged: a third of the time that the transport keeps an
/// idle connection.
const UNANSWERED_MAX: Duration = Duration::from_secs(9);
/// A member whose condition is this old is asked for it.
const CONDITION_AGE_MAX: Duration = Duration::from_secs(3);
/// The same while no leader is heard, whose heartbeats would measure round trips: on a link that was slow and is well
/// again, patience shrinks with each measurement, and the next candidate waits for that long.
const LEADERLESS_AGE_MAX: Duration = Duration::from_millis(300);
/// How often members are checked for silence.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Timeout of a ping, or longer on a slow link. Further pings are sent while it waits.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Maximum number of pings under way. There are few members, and a member that does not answer is pinged again.
const PINGS_MAX: usize = 64;

/// Whether a ping is due to a member whose condition may be `age_max` old.
fn is_due(reachability: &Reachability, weather: &Weather, node_id: u64, age_max: Duration) -> bool {
    reachability.is_silent_for(node_id, SILENCE_MAX)
        || reachability.has_not_answered_for(node_id, UNANSWERED_MAX)
        || weather.may_take_heartbeats(node_id) && weather.is_older_than(node_id, age_max)
}

/// Pings a member: asks for its condition, or only for a sign of life if its build knows no other request. The client
/// records that it answered.
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

/// Pings members, as long as the node runs.
pub(crate) async fn probe(core: Arc<Core>) {
    let mut pings = JoinSet::new();
    loop {
        while pings.try_join_next().is_some() {}
        let others = core.others();
        core.heard.reachability().keep_only(|node_id| others.contains_key(&node_id));
        core.heard.weather().keep_only(|node_id| others.contains_key(&node_id));
        let (contact, silence) = (core.heard.contact(), core.options.tuning.election_max);
        let is_leaderless = !core.leads() && contact.leader_is_silent(Instant::now(), silence);
        let age_max = if is_leaderless { LEADERLESS_AGE_MAX } else { CONDITION_AGE_MAX };
        for (id, member) in others {
            let (reachability, weather) = (core.heard.reachability(), core.heard.weather());
            if is_due(reachability, weather, id, age_max) && pings.len() < PINGS_MAX {
                let core = Arc::clone(&core);
                pings.spawn(async move { ping(&core, id, &member).await });
            }
        }
        sleep_until(core.next_look(LOOK_INTERVAL)).await;
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
            assert!(!is_due(&reachability, &weather, 2, CONDITION_AGE_MAX));
            advance(Duration::from_millis(500)).await;
            reachability.heard(2);
        }
        advance(Duration::from_millis(500)).await;
        reachability.heard(2);
        assert!(is_due(&reachability, &weather, 2, CONDITION_AGE_MAX));
    }
}
