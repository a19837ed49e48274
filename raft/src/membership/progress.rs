//! How far members are behind, and the outcome and errors that all changes share.

use std::time::Duration;

use crate::core::Core;
use crate::message::MembershipError;

/// The outcome of a change.
pub(super) type Outcome = Result<(), MembershipError>;

/// A new member counts as caught up if its log is at most this many entries behind.
pub(super) const LAG_ENTRIES_MAX: u64 = 100;
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a member is pinged again.
pub(super) const PING_AGAIN_INTERVAL: Duration = Duration::from_millis(100);
/// How often a follower's progress is checked.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until a member's log is at most `lag_max` entries behind. Callers set a timeout.
pub(super) async fn wait_until_caught_up(core: &Core, id: u64, lag_max: u64) {
    loop {
        if is_caught_up(core, id, lag_max) {
            return;
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
}

/// Whether a member's log is at most `lag_max` entries behind, as far as the leader knows.
pub(super) fn is_caught_up(core: &Core, id: u64, lag_max: u64) -> bool {
    core.metrics(|now| {
        let matched = now.replication.as_ref().and_then(|all| *all.get(&id)?);
        let last = now.last_log_index.unwrap_or(0);
        matched.is_some_and(|matched| matched.index.saturating_add(lag_max) >= last)
    })
}

pub(super) fn no_leader() -> MembershipError {
    MembershipError::NoLeader("no leader is known at the moment".to_owned())
}

pub(super) fn unavailable(why: impl ToString) -> MembershipError {
    MembershipError::Unavailable(why.to_string())
}
