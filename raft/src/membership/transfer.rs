//! Transfer of leadership, on the leader's side.

use std::time::Duration;

use tokio::time::{sleep, sleep_until, timeout};

use super::progress::{
    CALL_TIMEOUT, LAG_ENTRIES_MAX, Outcome, no_leader, unavailable, wait_until_caught_up,
};
use crate::core::Core;
use crate::message::{MembershipError, Request};
use crate::types::Member;

/// Longest time that a transfer may hold up proposals once leases have run out, unless an election takes longer on slow
/// disks and links. A failed transfer has usually deposed the old leader, and ends in an election.
const TRANSFER_MAX: Duration = Duration::from_secs(1);

/// Transfers leadership (Raft thesis, 3.10): stops appends, lets the target catch up, and makes it stand for election
/// with this leader's consent. Proposals wait until the transfer ends. On three nodes that takes as long as an
/// election. With more nodes the leader lease must also run out at the other followers.
pub(super) async fn transfer(core: &Core, id: u64) -> Outcome {
    carry_out(core, id, false).await
}

/// Transfers leadership even if an entry that is under way does not complete. Such an entry waits for this leader's
/// own disk. The followers usually have it already, because it is sent to them before it is on that disk (`DESIGN.md`,
/// "Early appends"), and then the target's log is as long as any. A target that lacks the entry gets no vote of a voter
/// that has it, and may not be elected.
pub(super) async fn hand_over(core: &Core, id: u64) -> Outcome {
    carry_out(core, id, true).await
}

async fn carry_out(core: &Core, id: u64, leaves_entry: bool) -> Outcome {
    if !core.identity.members().voter_ids().any(|voter| voter == id) {
        return Err(match core.member(id) {
            Some(_) => {
                MembershipError::Conflict(format!("node {id} is a learner, which cannot lead"))
            }
            None => MembershipError::Unknown(id),
        });
    }
    if id == core.identity.node_id() {
        return Ok(());
    }
    let member = core.member(id).ok_or(MembershipError::Unknown(id))?;
    // Checked before appends stop: a target that is down would stop all writes for nothing.
    let late = |_| unavailable(format!("node {id} does not follow closely enough"));
    let close = wait_until_caught_up(core, id, LAG_ENTRIES_MAX);
    timeout(CALL_TIMEOUT, close).await.map_err(late)?;
    if !core.heard.is_reachable(id) {
        return Err(unavailable(format!("node {id} cannot be reached")));
    }
    // For the length of a leader lease, openraft makes a new leader refuse its vote to every candidate.
    if let Some(since) = core.heard.contact().leading_since() {
        sleep_until(since + lease_end(core)).await;
    }
    // An entry that is under way completes first: it would make this leader's log longer than the target's.
    let no_appends = timeout(CALL_TIMEOUT, core.transfer.lock_appends()).await;
    if no_appends.is_err() && !leaves_entry {
        return Err(unavailable("no quorum confirms what was proposed before".to_owned()));
    }
    // Of three voters, the target and this leader are a quorum. Of five, the other voters refuse their votes for the
    // length of a leader lease.
    let has_more = core.identity.members().voter_ids().count() > 3;
    let silence = if has_more { lease_end(core) } else { Duration::ZERO };
    let within = silence + TRANSFER_MAX.max(core.heard.election_time());
    let transferred = timeout(within, send_timeout_now(core, id, &member, silence)).await;
    let late = || unavailable(format!("node {id} did not take over in time"));
    transferred.unwrap_or_else(|_| Err(late()))
}

/// The time after which this leader's lease has run out at every follower.
fn lease_end(core: &Core) -> Duration {
    let message_max = core.options.tuning.message_max;
    core.heard.timers().lease_end(message_max, core.heard.quorum_round_trip())
}

/// Falls silent for `silence`, and then makes the target stand for election.
async fn send_timeout_now(core: &Core, id: u64, member: &Member, silence: Duration) -> Outcome {
    wait_until_caught_up(core, id, 0).await;
    let _no_heartbeats = core.transfer.pause_heartbeats();
    sleep(silence).await;
    let mut metrics = core.raft.metrics();
    let from = core.vote();
    if from.leader_id.node_id != core.identity.node_id() || !from.is_committed() {
        return Err(no_leader());
    }
    core.transfer.leave();
    let called = core.client.call(id, member, Request::TimeoutNow { from }, CALL_TIMEOUT).await;
    called.map_err(unavailable)?;
    let another = metrics.wait_for(|now| now.vote > from && now.vote.is_committed()).await;
    let another = another.map_err(unavailable)?.vote.leader_id.node_id;
    if another == id {
        return Ok(());
    }
    Err(unavailable(format!("node {another} was elected instead")))
}
