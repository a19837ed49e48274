//! Who stands for election, and when.
//!
//! openraft counts votes and keeps terms, but it lets every voter stand as soon as its own timer fires,
//! and so one node that lost its contact, was paused, or was removed without learning it can depose
//! healthy leaders for ever. Its timer is off, and this task stands in its place:
//!
//! - A node stands only when the membership that it holds names its present store as a voter.
//! - It first asks the voters whether they would elect it (pre-vote: Ongaro's thesis, 9.6). Nothing is
//!   written for that and no term rises, so a node without a quorum disturbs nobody.
//! - A voter says yes only when it has heard no leader for the length of a lease, and a leader only
//!   when no quorum answers it. Votes are judged so again when they arrive (thesis, 6.2 and 9.6).
//! - A leader whose process is gone is replaced as soon as the lease has passed: its machine refuses
//!   connections at once, so there is no doubt to wait out.
//!
//! When and who is a matter of speed alone: whoever stands needs the votes of a quorum.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::planted;
use openraft::metrics::RaftServerMetrics;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::guard::Refusal;
use crate::node::Inner;
use crate::runtime::{in_process, random_below};
use crate::transport::{Request, Response, Wire};
use crate::types::{Member, RaftLogId, RaftMembership, RaftVote};

/// A leader that listens again within this long was restarted, and leads on.
const LOOK_AGAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// Timers are not exact, and the last message of a leader does not reach all followers at once.
const MARGIN: Duration = Duration::from_millis(10);
/// Between the candidacies of two voters whose leader is gone: the first has won by then.
const TURN: Duration = Duration::from_millis(60);
/// Longest time that a candidate is given to win before it tries again.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// Pauses after an attempt that failed: short at first, for others may have been a moment behind.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(160);

type Metrics = watch::Receiver<RaftServerMetrics<u64, Member>>;

impl Inner {
    /// Whether this node would let another lead: it leads itself and no quorum answers it, or it has
    /// heard no leader for the length of a lease.
    pub(crate) fn would_elect_another(&self) -> bool {
        let now = Instant::now();
        let contact = self.local.contact();
        if self.leader() != Some(self.local.node_id()) {
            return contact.leader_is_silent(now, self.options.tuning.lease);
        }
        let members = self.local.members();
        contact.without_quorum_for(self.local.node_id(), &members, now)
            >= self.options.tuning.election_max
    }

    /// Answers a pre-vote: whether this node would vote for a candidate with such a log.
    pub(crate) fn pre_vote(&self, last: Option<RaftLogId>) -> Response {
        let reaches = self.local.last_log_id() <= last;
        Response::PreVote { granted: reaches && self.would_elect_another() }
    }

    /// Whether a leader handed its leadership over in favour of this candidacy: the leader that this
    /// node follows, or this node itself. Then its lease binds nobody.
    pub(crate) fn is_handed_over(&self, by: Option<RaftVote>) -> bool {
        by.is_some_and(|by| by.is_committed() && by == self.raft.metrics().borrow().vote)
    }

    /// Stands for election because the leader asks for it. Nobody else may ask.
    pub(crate) async fn take_over(&self, sender: Option<u64>, by: RaftVote) -> Result<(), Refusal> {
        let from_leader = sender.is_some() && self.leader() == sender;
        if !from_leader || !self.is_handed_over(Some(by)) {
            return Err(Refusal::Failed("only its leader asks a node to take over".to_owned()));
        }
        if !self.may_stand() {
            return Err(Refusal::Failed("this node is no voter".to_owned()));
        }
        self.local.contact().take_over_from(by);
        self.raft.trigger().elect().await.map_err(|error| Refusal::Failed(error.to_string()))
    }

    /// Whether the membership that this node holds names its present store as a voter. An older
    /// membership may name a store that was lost since, under the same id.
    fn may_stand(&self) -> bool {
        let (members, me) = (self.local.members(), self.local.node_id());
        let named = members.membership().get_node(&me);
        let is_this_store = named.is_some_and(|member| member.store == self.local.store());
        let is_named = is_this_store || planted("whoever-wishes-stands");
        is_named && members.voter_ids().any(|id| id == me)
    }
}

/// Stands for election whenever the leader is silent or gone, for as long as the node runs.
pub(crate) async fn run(inner: Arc<Inner>, wire: Arc<dyn Wire>) {
    let mut metrics = inner.raft.server_metrics();
    let mut failures = 0;
    loop {
        let leader = metrics.borrow_and_update().current_leader;
        tokio::select! {
            () = until_silent(&inner, leader) => {}
            () = outlive(&inner, &*wire, leader) => {
                tracing::info!(leader, "nobody listens at the leader's address: standing for election");
            }
            // They change with the leader, the vote and the membership, not with every answer.
            runs = metrics.changed() => {
                if runs.is_err() {
                    return;
                }
                if metrics.borrow().current_leader.is_some() {
                    failures = 0;
                }
                continue;
            }
        }
        inner.local.contact().set_timer(None);
        let Ok(won) = campaign(&inner, &mut metrics, failures).await else { return };
        failures = if won { 0 } else { failures + 1 };
        if !won {
            sleep(pause_after(failures)).await;
        }
    }
}

/// Resolves when no leader was heard for an election timeout, and never on a node that leads or may
/// not stand.
async fn until_silent(inner: &Inner, leader: Option<u64>) {
    let (contact, tuning) = (inner.local.contact(), &inner.options.tuning);
    contact.set_timer(None);
    if leader == Some(inner.local.node_id()) || !inner.may_stand() {
        return std::future::pending().await;
    }
    // Nobody else could win against a lone voter.
    if is_quorum(&inner.local.members(), &BTreeSet::from([inner.local.node_id()])) {
        return;
    }
    let beyond_min = random_below(tuning.election_max - tuning.election_min);
    // Where no leader is known, there is none to be loyal to: a lease is all that others may keep.
    let patience = if leader.is_some() { tuning.election_min } else { tuning.lease + MARGIN };
    let now = Instant::now();
    loop {
        let since = contact.silent_since().unwrap_or(now);
        let at = since + patience + beyond_min;
        if Instant::now() >= at {
            return;
        }
        contact.set_timer(Some(at));
        sleep_until(at).await;
        if contact.is_late(Instant::now()) {
            contact.begin_anew(Instant::now());
        }
    }
}

/// Resolves when the leader's process is gone and it is this node's turn; never, when there is no
/// leader to follow.
async fn outlive(inner: &Inner, wire: &dyn Wire, leader: Option<u64>) {
    let Some((leader, turn)) = leader.and_then(|leader| follow(inner, leader)) else {
        return std::future::pending().await;
    };
    loop {
        wire.gone(&leader.raft).await;
        let heard = inner.local.contact().silent_since().unwrap_or_else(Instant::now);
        sleep_until(heard + inner.options.tuning.lease + MARGIN + turn * TURN).await;
        if timeout(LOOK_AGAIN_TIMEOUT, wire.gone(&leader.raft)).await.is_ok() {
            return;
        }
    }
}

/// The leader to follow, and how many of the other voters stand for election before this node does.
fn follow(inner: &Inner, leader: u64) -> Option<(Member, u32)> {
    let me = inner.local.node_id();
    if !inner.may_stand() {
        return None;
    }
    let members = inner.local.members();
    let mut successors: Vec<u64> = members.voter_ids().filter(|id| *id != leader).collect();
    successors.sort_unstable();
    let turn = successors.iter().position(|id| *id == me)?;
    Some((inner.member(leader)?, u32::try_from(turn).ok()?))
}

/// Stands for election once, if a quorum would elect this node; answers whether some leader is known
/// afterwards.
///
/// # Errors
/// When the Raft core has ended.
async fn campaign(inner: &Arc<Inner>, metrics: &mut Metrics, failures: u32) -> Result<bool, Ended> {
    if !inner.may_stand() {
        return Ok(false);
    }
    let before = metrics.borrow_and_update().vote;
    // While the others were asked, the leader may have been heard again, or this node may have voted.
    let is_wanted = is_wanted(inner).await
        && inner.would_elect_another()
        && metrics.borrow_and_update().vote == before;
    if !is_wanted && !planted("no-pre-vote") && !planted("whoever-wishes-stands") {
        return Ok(false);
    }
    inner.raft.trigger().elect().await.map_err(|_| Ended)?;
    let elected = metrics.wait_for(|now| now.vote > before && now.vote.is_committed());
    // A slow disk is given more time with every attempt: each makes votes of the one before void.
    let patience = inner.options.tuning.message_max * 2_u32.saturating_pow(failures.min(8));
    match timeout(patience.min(ATTEMPT_MAX), elected).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(_)) => Err(Ended),
        Err(_) => Ok(false),
    }
}

/// The Raft core has ended, and the node with it.
struct Ended;

/// Asks the other voters whether they would elect this node. It needs the consent of a quorum, its own
/// counted.
async fn is_wanted(inner: &Arc<Inner>) -> bool {
    let last = inner.local.last_log_id();
    let (me, members) = (inner.local.node_id(), inner.local.members());
    let mut consent = BTreeSet::from([me]);
    let mut asked = JoinSet::new();
    for id in members.voter_ids().collect::<BTreeSet<u64>>() {
        let Some(member) = members.membership().get_node(&id).filter(|_| id != me).cloned() else {
            continue;
        };
        let inner = Arc::clone(inner);
        asked.spawn(in_process(async move {
            let within = inner.options.tuning.message_max;
            let answer = inner.client.call(id, &member, Request::PreVote { last }, within).await;
            matches!(answer, Ok(Response::PreVote { granted: true })).then_some(id)
        }));
    }
    while !is_quorum(&members, &consent) {
        match asked.join_next().await {
            Some(Ok(Some(id))) => drop(consent.insert(id)),
            Some(_) => {}
            None => return false,
        }
    }
    true
}

fn is_quorum(members: &RaftMembership, granted: &BTreeSet<u64>) -> bool {
    let configs = members.membership().get_joint_config();
    configs.iter().all(|voters| 2 * voters.intersection(granted).count() > voters.len())
}

fn pause_after(failures: u32) -> Duration {
    let longest = PAUSE_MAX.min(PAUSE * 2_u32.saturating_pow(failures.min(8)));
    longest / 2 + random_below(longest / 2)
}
