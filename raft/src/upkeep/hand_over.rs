//! Hands leadership over from a node whose disk or links are bad to a voter that would lead better.
//!
//! Every commit waits for the leader's own disk, and for the answers of the members that a quorum needs. From what it
//! measures itself, each node calculates how long a commit would take if it led, and reports that in answer to
//! heartbeats. A leader that is several times worse than a voter with the same log hands over. If all disks or links
//! are slow, no voter is better, and the leader stays.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::core::Core;
use crate::membership::Membership;
use crate::runtime::Spawner;

/// Time between two comparisons.
const LOOK_INTERVAL: Duration = Duration::from_millis(400);
/// Another voter leads better only if few of its commits would exceed the leader's usual time divided by this.
const BETTER_BY: u32 = 4;
/// Another voter leads better only if it also saves at least this much. On a disk that alternates between fast and
/// slow, such as a shared one, no voter is better.
const SAVES_MIN: Duration = Duration::from_millis(100);
/// Another voter must lead better for this long, so that one slow sync does not move leadership.
const HELD_MIN: Duration = Duration::from_millis(500);
/// A voter's report about itself counts for this long.
const CONDITION_AGE_MAX: Duration = Duration::from_secs(1);
/// A leader that handed over does not try again for this long.
const REST: Duration = Duration::from_secs(60);
/// A leader whose attempt failed does not try again for this long. The time doubles with each further failure, up to
/// [`REST`].
const RETRY: Duration = Duration::from_secs(1);

/// For as long as this node runs, compares it with the other voters whenever it leads.
pub(crate) async fn hand_over(membership: Arc<Membership>) {
    let core = Arc::clone(membership.core());
    let mut better_since: Option<Instant> = None;
    let mut failures = 0_u32;
    loop {
        sleep_until(core.next_look(LOOK_INTERVAL)).await;
        // One slow sync may be chance, and a leader without changes syncs so rarely that it would not find out.
        let may_be_bad = core.heard.syncs().may_have_turned_bad(SAVES_MIN, BETTER_BY);
        if core.leads() && may_be_bad {
            let identity = Arc::clone(&core.identity);
            // If the storage failed, that has stopped the node.
            Spawner::current().spawn(async move { identity.try_disk().await.is_ok() });
        }
        let Some((id, commit, own)) = better_leader(&core) else {
            better_since = None;
            continue;
        };
        let since = *better_since.get_or_insert_with(Instant::now);
        if since.elapsed() < HELD_MIN {
            continue;
        }
        let (own_ms, its_ms) = (own.as_millis(), commit.as_millis());
        let outcome = membership.hand_over(id).await;
        let (failed, error) = (outcome.is_err(), outcome.err().map(|error| error.to_string()));
        tracing::warn!(
            node = core.identity.node_id(),
            to = id,
            own_ms,
            its_ms,
            error,
            "a commit takes this node much longer than it would take another, so it tried to hand over leadership"
        );
        better_since = None;
        failures = if failed { failures + 1 } else { 0 };
        let pause = match failures {
            0 => REST,
            failures => RETRY.saturating_mul(2_u32.saturating_pow(failures - 1)).min(REST),
        };
        sleep(pause).await;
    }
}

/// The voter that would lead best, if it is much better than this leader. Returns its id, and how long a commit would
/// take with it and with this node as the leader.
fn better_leader(core: &Core) -> Option<(u64, Duration, Duration)> {
    if !core.leads() {
        return None;
    }
    let (me, heard) = (core.identity.node_id(), &core.heard);
    let own = heard.commit_time()?;
    let members = core.identity.members();
    let (matched, applied) = core.metrics(|now| (now.replication.clone(), now.last_applied));
    let matched = matched.unwrap_or_default();
    // A voter that lags would have to catch up first.
    let is_close = |id: u64| matched.get(&id).copied().flatten() >= applied;
    let voters = members.voter_ids().filter(|&id| {
        id != me && is_close(id) && !heard.weather().is_older_than(id, CONDITION_AGE_MAX)
    });
    let best = voters.filter_map(|id| Some((heard.weather().commit(id)?, id))).min()?;
    let (commit, id) = best;
    (is_much_better(commit, own)).then_some((id, commit, own))
}

fn is_much_better(commit: Duration, own: Duration) -> bool {
    commit * BETTER_BY <= own && own - commit >= SAVES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_hands_over_only_where_that_saves_much() {
        let ms = Duration::from_millis;
        assert!(is_much_better(ms(2), ms(2_000)) && is_much_better(ms(60), ms(300)));
        assert!(!is_much_better(ms(1), ms(90)), "an election is not worth it");
        assert!(!is_much_better(ms(2_000), ms(4_000)), "both are slow");
        assert!(!is_much_better(ms(300), ms(2)));
    }
}
