//! Asks the other members what they run and where they are, so that every node can show it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::membership::{ask_description, ask_release};

/// Time between two rounds of asking.
const LEARN_INTERVAL: Duration = Duration::from_secs(2);
/// A member that for this many rounds answered only the question that older builds know is taken for one of an older
/// build. Such a build ends the connection on the full question.
const ROUNDS_OF_DOUBT: u32 = 6;
/// After this many further rounds such a member is asked the full question again: it may have been upgraded.
const ROUNDS_OF_REST: u32 = 30;

/// Keeps asking the other members what they run, as long as this node runs.
pub(crate) async fn learn_releases(core: Arc<Core>) {
    // For how many rounds a member, by its store, has answered only what an older build knows.
    let mut doubts = BTreeMap::<u128, u32>::new();
    loop {
        let others = core.others();
        for (id, member) in &others {
            let rounds = doubts.remove(&member.store).unwrap_or_default();
            // A member that does not answer is shown with its last answer.
            let doubt = match asks_all(rounds) {
                true => ask_description(&core, *id, member).await.is_err(),
                false => ask_release(&core, *id, member).await.is_ok(),
            };
            if doubt && rounds + 1 < ROUNDS_OF_DOUBT + ROUNDS_OF_REST {
                doubts.insert(member.store, rounds + 1);
            }
        }
        core.releases.keep_only(&others);
        doubts.retain(|store, _| others.values().any(|member| member.store == *store));
        tokio::time::sleep_until(core.next_look(LEARN_INTERVAL)).await;
    }
}

/// Whether to ask the full question of a member that has been in doubt for `rounds` rounds. A member that was merely
/// unreachable answers it in one of the next rounds.
fn asks_all(rounds: u32) -> bool {
    rounds < ROUNDS_OF_DOUBT && rounds.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_build_meets_a_question_that_it_does_not_know_three_times_a_minute() {
        let rounds = ROUNDS_OF_DOUBT + ROUNDS_OF_REST;
        assert_eq!((0..rounds).filter(|&round| asks_all(round)).count(), 3);
        assert!(LEARN_INTERVAL * rounds >= Duration::from_secs(60));
    }
}
