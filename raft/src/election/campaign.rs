//! When a node campaigns.
//!
//! - A node campaigns only if the membership that it holds names its present store as a voter.
//! - It first asks the voters whether they would elect it (pre-vote; Raft thesis, 9.6). Nothing is written and no
//!   term rises, so a node without a quorum causes no disturbance.
//! - A voter agrees only if it has heard no leader for the length of a leader lease, and a leader only if no quorum
//!   answers it. Voters judge the vote itself in the same way when it arrives (Raft thesis, 4.2.3).
//! - A leader whose process is gone is replaced as soon as its leader lease has passed. Its machine refuses
//!   connections at once, so there is no doubt to wait out.
//!
//! These rules only affect speed and disturbance: every candidate needs the votes of a quorum.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use openraft::metrics::RaftServerMetrics;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::votes::{elect, is_quorum_alone, may_campaign, would_elect_another};
use crate::core::Core;
use crate::message::{Request, Response};
use crate::peers::LeaderContact;
use crate::runtime::random_below;
use crate::transport::{Target, Transport};
use crate::types::{Member, NamesLeader};

/// If a process listens again within this time, it may still be the leader's. On a slow link a refusal takes two round
/// trips.
const LOOK_AGAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// Added to a leader lease, because timers are not exact and a leader's last message does not reach all followers at
/// once.
const MARGIN: Duration = Duration::from_millis(10);
/// Minimum time between the campaigns of two voters whose leader's process is gone: the first has won by then. A
/// campaign needs three round trips.
const TURN: Duration = Duration::from_millis(60);
/// Longest time that a candidate gets to win before it tries again, unless its disk or its links are slower than
/// that.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// Pause after the first failed attempt. It is short because the other voters may just have been a moment behind. It
/// doubles up to [`PAUSE_MAX`], or up to the time of an election's messages, so that another candidate may win.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// How soon a node that may not campaign looks at its membership again: a node that starts reads it within moments.
/// The interval doubles with each look, up to [`MEMBERSHIP_INTERVAL_MAX`].
const MEMBERSHIP_INTERVAL_MIN: Duration = Duration::from_millis(1);
const MEMBERSHIP_INTERVAL_MAX: Duration = Duration::from_millis(200);

type Metrics = watch::Receiver<RaftServerMetrics<u64, Member>>;

/// Campaigns whenever the leader is silent or its process is gone, as long as the node runs.
pub(crate) async fn run(core: Arc<Core>, transport: Arc<dyn Transport>) {
    let mut metrics = core.raft.server_metrics();
    let mut failures = 0;
    // The leader whose end was logged last.
    let mut told_of = None;
    loop {
        let leader = metrics.borrow_and_update().leader();
        tokio::select! {
            () = until_silent(&core, leader) => {}
            () = until_gone(&core, &*transport, leader) => {
                if told_of != leader {
                    told_of = leader;
                    tracing::info!(leader, "no process listens at the leader's address: standing for election");
                }
            }
            // The server metrics change with the leader, the vote and the membership, not with every answer.
            runs = metrics.changed() => {
                if runs.is_err() {
                    return;
                }
                if metrics.borrow().leader().is_some() {
                    (failures, told_of) = (0, None);
                }
                continue;
            }
        }
        let Ok(won) = campaign(&core, &mut metrics, failures).await else { return };
        failures = if won { 0 } else { failures + 1 };
        if !won {
            sleep(pause_after(failures, core.heard.election_messages())).await;
        }
    }
}

/// The election timer. It is gone with this value, however the wait for it ends: a node that stands down has no timer
/// that could be late, and so goes on voting.
struct ElectionTimer<'a>(&'a LeaderContact);

impl ElectionTimer<'_> {
    fn fire_at(&self, at: Instant) {
        self.0.set_timer(Some(at));
    }
}

impl Drop for ElectionTimer<'_> {
    fn drop(&mut self) {
        self.0.set_timer(None);
    }
}

/// Resolves when no leader was heard for an election timeout. Never resolves on a node that leads or may not
/// campaign.
async fn until_silent(core: &Core, leader: Option<u64>) {
    let contact = core.heard.contact();
    if leader == Some(core.identity.node_id()) {
        return std::future::pending().await;
    }
    // The membership may become visible a moment after the change that woke this task.
    let mut interval = MEMBERSHIP_INTERVAL_MIN;
    while !may_campaign(core) {
        sleep(interval).await;
        interval = MEMBERSHIP_INTERVAL_MAX.min(2 * interval);
    }
    if is_quorum_alone(core) {
        return;
    }
    // When this node campaigns, as a fraction of the time between the two election timeouts.
    let part = random_below(Duration::from_secs(1)).as_secs_f64();
    let began = Instant::now();
    let timer = ElectionTimer(contact);
    loop {
        let at = campaign_at(core, leader.is_some(), began, part);
        if Instant::now() >= at {
            return;
        }
        // Timers shrink as soon as round trips are known.
        let look = at.min(Instant::now() + core.options.tuning.election_max);
        timer.fire_at(look);
        sleep_until(look).await;
        if contact.is_late(Instant::now()) {
            contact.begin_anew(Instant::now());
        }
    }
}

/// When this node campaigns if it hears no leader: once its patience with the leader has run out. If it has voted for a
/// candidate, it first gives that candidate time to win.
fn campaign_at(core: &Core, leader_is_known: bool, began: Instant, part: f64) -> Instant {
    let (contact, timers) = (core.heard.contact(), core.heard.timers());
    let spread = timers.election_max - timers.election_min;
    // A node that is about to stop would have to hand the leadership over again, so all others go first.
    let beyond_others = if core.transfer.has_declined() { spread } else { Duration::ZERO };
    let beyond_min = spread.mul_f64(part) + beyond_others;
    // No leader is known, so only the leader leases that other nodes may hold have to run out.
    let patience = if leader_is_known { timers.election_min } else { timers.lease + MARGIN };
    let missed = contact.silent_since().unwrap_or(began) + patience;
    let lost = contact.voted_at().map(|at| at + patience.max(core.heard.election_time()));
    lost.map_or(missed, |lost| lost.max(missed)) + beyond_min
}

/// Resolves when the leader's process is gone and it is this node's turn. Never resolves if there is no leader to
/// follow.
async fn until_gone(core: &Core, transport: &dyn Transport, leader: Option<u64>) {
    let Some((leader, turn)) = leader.and_then(|leader| follow(core, leader)) else {
        return std::future::pending().await;
    };
    let target = Target { address: &leader.1.raft, node_id: Some(leader.0) };
    loop {
        transport.wait_refused(target).await;
        let heard = core.heard.contact().silent_since().unwrap_or_else(Instant::now);
        let round_trip = core.heard.quorum_round_trip();
        let its_turn = turn * TURN.max(3 * round_trip);
        sleep_until(heard + core.heard.timers().lease + MARGIN + its_turn).await;
        let look_again = LOOK_AGAIN_TIMEOUT.max(2 * round_trip);
        if timeout(look_again, transport.wait_refused(target)).await.is_ok() {
            return;
        }
    }
}

/// The leader to follow, and how many of the other voters campaign before this node does.
fn follow(core: &Core, leader: u64) -> Option<((u64, Member), u32)> {
    let me = core.identity.node_id();
    if !may_campaign(core) {
        return None;
    }
    let members = core.identity.members();
    let mut successors: Vec<u64> = members.voter_ids().filter(|id| *id != leader).collect();
    successors.sort_unstable();
    let place = successors.iter().position(|id| *id == me)?;
    let turn = if core.transfer.has_declined() { successors.len() } else { place };
    Some(((leader, core.member(leader)?), u32::try_from(turn).ok()?))
}

/// Stands for election once, if a quorum would elect this node. Returns whether a leader is known afterwards.
///
/// # Errors
/// When openraft has ended.
async fn campaign(core: &Arc<Core>, metrics: &mut Metrics, failures: u32) -> Result<bool, Ended> {
    if !may_campaign(core) {
        return Ok(false);
    }
    let before = metrics.borrow_and_update().vote;
    // During the pre-vote the leader may have been heard again, or this node may have voted.
    let is_wanted = is_wanted(core).await
        && (is_quorum_alone(core) || would_elect_another(core))
        && metrics.borrow_and_update().vote == before;
    if !is_wanted {
        return Ok(false);
    }
    elect(core).await.map_err(|_| Ended)?;
    let mut elected = pin!(metrics.wait_for(|now| now.vote > before && now.vote.is_committed()));
    let began = Instant::now();
    loop {
        // Every attempt makes the votes of the previous one void, so each gets more time than the last, in case disks
        // and links are slower than is known. An attempt that began on a slow link ends sooner once the link is quick.
        let expected = core.heard.election_time();
        let patience = expected.saturating_mul(2_u32.saturating_pow(failures.min(8)));
        let ends = began + patience.min(ATTEMPT_MAX.max(2 * expected));
        let look = ends.min(Instant::now() + core.options.tuning.election_max);
        match timeout_at(look, &mut elected).await {
            Ok(Ok(_)) => return Ok(true),
            Ok(Err(_)) => return Err(Ended),
            Err(_) if Instant::now() >= ends => return Ok(false),
            Err(_) => {}
        }
    }
}

/// The error of a node whose openraft has ended, which ends the node.
struct Ended;

/// Asks the other voters whether they would elect this node. Returns whether a quorum would, this node included.
async fn is_wanted(core: &Arc<Core>) -> bool {
    let (last, members) = (core.last_log_id(), core.identity.members());
    let asked = core.quorum_agrees(&members, move |core, id, member| async move {
        let within = core.heard.weather().message_max(id).min(ATTEMPT_MAX);
        let answer = core.client.call(id, &member, Request::PreVote { last }, within).await;
        matches!(answer, Ok(Response::PreVote { granted: true }))
    });
    asked.await
}

fn pause_after(failures: u32, messages: Duration) -> Duration {
    let longest = PAUSE_MAX.min(PAUSE * 2_u32.saturating_pow(failures.min(8))).max(messages);
    longest / 2 + random_below(longest / 2)
}
