//! Probes of members that were silent, so that every node knows which others can be reached.
//!
//! The leader and its followers hear of each other with every heartbeat. Followers are silent to each other,
//! so a node pings a member that was silent for a while. That is one ping a second for each pair, because it
//! shows both ends to each other.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::core::Core;
use crate::message::Request;

/// A member that was silent for this long is pinged.
const SILENCE_MAX: Duration = Duration::from_millis(700);
/// Time between two looks at which members were silent.
const LOOK_INTERVAL: Duration = Duration::from_millis(350);
/// A ping waits this long for its answer. Another ping is sent meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Pings under way at once. Members are few, and a member that does not answer is pinged again.
const PINGS_MAX: usize = 64;

/// Pings members that were silent, for as long as the node runs.
pub(crate) async fn probe(core: Arc<Core>) {
    let mut pings = JoinSet::new();
    loop {
        while pings.try_join_next().is_some() {}
        let others = core.others();
        core.heard.reachability().keep_only(|node_id| others.contains_key(&node_id));
        for (id, member) in others {
            let silent = core.heard.reachability().is_silent_for(id, SILENCE_MAX);
            if silent && pings.len() < PINGS_MAX {
                let core = Arc::clone(&core);
                pings.spawn(async move {
                    // The client records the outcome.
                    let _ = core.client.call(id, &member, Request::Ping, ANSWER_TIMEOUT).await;
                });
            }
        }
        sleep(LOOK_INTERVAL).await;
    }
}
