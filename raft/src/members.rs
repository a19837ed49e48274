//! Membership and leadership, changed one step at a time, on the leader.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::form::Purpose;
use crate::guard::Refusal;
use crate::level::Release;
use crate::node::Inner;
use crate::transport::{CallError, Request, Response};
use crate::types::Member;

/// A new member counts as caught up when its log is at most this many entries behind.
const LAG_ENTRIES_MAX: u64 = 100;
/// How long a caller waits for a change; the change itself goes on.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a change waits for the one before: a newcomer is visible a moment before its own change
/// has ended.
const TURN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a learner may take to catch up before it is left a learner for now.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a hand-over may hold up proposals. One that fails has most often deposed the old leader,
/// and ends in an election.
const HAND_OVER_MAX: Duration = Duration::from_secs(1);
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before the leader is looked for again.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between two looks at a follower's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(5);

/// A change of the membership or of the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// Add a node as a learner and, if asked, make it a voter once it has caught up; or make a voter
    /// a learner. `store` is known when the node asks for itself, which leaves its part as it is.
    Add {
        id: u64,
        raft: String,
        http: String,
        voter: bool,
        store: Option<u128>,
        /// What it supports, where it asks for itself.
        release: Option<Release>,
    },
    /// Remove a node, voter or learner. `store` is the one it was known with where the removal was
    /// asked for: a request that comes late must not meet a node that has joined since.
    Remove { id: u64, store: u128 },
    /// Make a voter the leader.
    Transfer { id: u64 },
    /// Raise the level of the cluster to what all members support.
    RaiseLevel,
}

impl Change {
    /// Whether a node tells its own addresses, as a member.
    pub(crate) fn is_from_member(&self) -> bool {
        matches!(self, Self::Add { store: Some(_), release: None, .. })
    }

    /// Whether a node that is no member yet asks for itself.
    pub(crate) fn is_from_newcomer(&self) -> bool {
        matches!(self, Self::Add { store: Some(_), .. })
    }
}

/// Why a change of the membership did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MemberError {
    /// It contradicts the present membership.
    #[error("{0}")]
    Conflict(String),
    /// The node that was named belongs to another cluster.
    #[error("{0}")]
    WrongCluster(String),
    /// There is no such member.
    #[error("node {0} is not a member")]
    Unknown(u64),
    /// Not in time, or not yet; worth another try.
    #[error("{0}")]
    Unavailable(String),
    /// No leader with a quorum was there to carry it out, or it was lost on the way and may have happened.
    /// Worth another try once one is elected.
    #[error("{0}")]
    NoLeader(String),
    /// A member or a newcomer does not support what the level of the cluster is or shall be, or could
    /// not be asked.
    #[error("{0}")]
    Level(String),
    /// It contradicts a change that is under way; worth another try.
    #[error("another change is in progress")]
    Busy,
}

impl MemberError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NoLeader(_) | Self::Busy)
    }
}

type Outcome = Result<(), MemberError>;

impl Inner {
    /// Has a change carried out, and waits for a leader until the deadline. Asking again is safe: a change that
    /// happened already has nothing left to do, and a removal names the data directory that it means.
    pub(crate) async fn change(self: &Arc<Self>, change: Change, deadline: Instant) -> Outcome {
        let mut may_have_happened = false;
        loop {
            let outcome = match timeout_at(deadline, self.change_now(change.clone())).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    return Err(unavailable("not finished yet, and going on; look again later"));
                }
            };
            match (outcome, &change) {
                (Err(MemberError::NoLeader(_)), _) => may_have_happened = true,
                // Of an earlier attempt, which its caller has lost sight of.
                (Err(MemberError::Busy), _) if may_have_happened => {}
                (Err(MemberError::Unknown(_)), Change::Remove { .. }) if may_have_happened => {
                    return Ok(());
                }
                (outcome, _) => return outcome,
            }
            if Instant::now() + ASK_AGAIN_INTERVAL >= deadline {
                return Err(no_leader());
            }
            tokio::time::sleep(ASK_AGAIN_INTERVAL).await;
        }
    }

    /// Carries a change out here when this node leads, and asks the leader otherwise.
    pub(crate) async fn change_now(self: &Arc<Self>, change: Change) -> Outcome {
        let leader = self.leader().ok_or_else(no_leader)?;
        if leader == self.local.node_id() {
            return self.change_as_leader(change).await;
        }
        let member = self.member(leader).ok_or_else(no_leader)?;
        let within = CHANGE_TIMEOUT + CALL_TIMEOUT;
        match self.client.call(leader, &member, Request::Change(change), within).await {
            Ok(Response::Changed(outcome)) => outcome,
            Ok(_) => Err(unavailable("the leader answered something else than was asked")),
            Err(error) => Err(MemberError::NoLeader(format!("the leader was lost: {error}"))),
        }
    }

    /// Carries a change out, one at a time, in a task of its own: a caller who goes away must not
    /// leave the membership half-way between two configurations, or the leader silent.
    pub(crate) async fn change_as_leader(self: &Arc<Self>, change: Change) -> Outcome {
        if self.leader() != Some(self.local.node_id()) {
            return Err(no_leader());
        }
        let turn = timeout(TURN_TIMEOUT, Arc::clone(&self.changing).lock_owned());
        let Ok(one_at_a_time) = turn.await else {
            return Err(MemberError::Busy);
        };
        let inner = Arc::clone(self);
        let carried_out = self.runtime.spawn(async move {
            let _one_at_a_time = one_at_a_time;
            inner.carry_out(change).await
        });
        match timeout(CHANGE_TIMEOUT, carried_out).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(unavailable("the node is stopping")),
            Err(_) => Err(unavailable("not finished yet, and going on; look again later")),
        }
    }

    async fn carry_out(&self, change: Change) -> Outcome {
        self.settle_members().await?;
        self.flatten_members().await?;
        match change {
            Change::Add { id, raft, http, voter, store, release } => {
                if let Some(release) = release {
                    self.check_supports(id, &release)?;
                }
                self.add(id, raft, http, voter, store).await
            }
            Change::RaiseLevel => self.raise_level().await,
            Change::Remove { id, store } => self.remove(id, store).await,
            Change::Transfer { id } => self.transfer(id).await,
        }
    }

    /// Waits until the membership in effect here is committed and this node is sure to lead: what is
    /// done already, or impossible, may be said only of what will last. An entry of a leader that was cut
    /// away is in effect there, and nowhere else ever.
    async fn settle_members(&self) -> Outcome {
        let settled = async {
            self.read_index_as_leader().await?;
            let index = self.local.members().log_id().map(|id| id.index);
            let mut metrics = self.raft.metrics();
            metrics.wait_for(|now| now.last_applied.map(|id| id.index) >= index).await.ok()?;
            Some(())
        };
        let settled = timeout(CALL_TIMEOUT, settled).await;
        let no_quorum = || MemberError::NoLeader("no quorum confirms the membership".to_owned());
        settled.ok().flatten().ok_or_else(no_quorum)
    }

    async fn add(
        &self,
        id: u64,
        raft: String,
        http: String,
        voter: bool,
        store: Option<u128>,
    ) -> Outcome {
        let asks_for_itself = store.is_some();
        let member = match store {
            Some(store) => Member { raft, http, store },
            None => self.ask_newcomer(id, raft, http).await?,
        };
        match self.member(id) {
            Some(present) if present.store != member.store => {
                let why = format!(
                    "node {id} is a member already, with another data directory: check --node-id and \
                     --data; if that directory is lost, remove the node first"
                );
                return Err(MemberError::Conflict(why));
            }
            Some(present) if present == member => {}
            _ => {
                let nodes = BTreeMap::from([(id, member.clone())]);
                self.change_membership(ChangeMembers::SetNodes(nodes), Leavers::Go).await?;
                tracing::info!(node = id, raft = %member.raft, "added a learner");
            }
        }
        match voter {
            true => self.promote(id).await,
            false if asks_for_itself => Ok(()),
            false => self.demote(id).await,
        }
    }

    /// Learns a newcomer's store from itself. A member that is down is known all the same. Whatever else
    /// there is at the address is no node that can be added, and what it is exactly is not told to who asks:
    /// this is no tool to explore a network with. The log has it.
    async fn ask_newcomer(
        &self,
        id: u64,
        raft: String,
        http: String,
    ) -> Result<Member, MemberError> {
        let foreign = || {
            let why = format!("the node at {raft} belongs to another cluster; check the address");
            MemberError::WrongCluster(why)
        };
        let asked = match self.say_hello(&raft, Purpose::Join).await {
            Err(CallError::Refused { refusal: Refusal::WrongCluster { .. }, .. }) => {
                return Err(foreign());
            }
            Ok((_, introduction))
                if introduction
                    .cluster
                    .is_some_and(|cluster| Some(cluster) != self.local.cluster()) =>
            {
                return Err(foreign());
            }
            Ok((from, introduction)) if from.node_id == id => Ok((from, introduction)),
            Ok((from, _)) => Err(format!("node {} listens there", from.node_id)),
            Err(error) => Err(error.to_string()),
        };
        match asked {
            Ok((from, introduction)) => {
                self.check_supports(id, &introduction.release)?;
                let http = if http.is_empty() { introduction.http } else { http };
                Ok(Member { raft, http, store: from.store })
            }
            Err(found) => {
                tracing::info!(node = id, %raft, %found, "no node to add");
                let present = self.member(id).filter(|present| present.raft == raft);
                let present = present.ok_or_else(|| nobody_to_add(id, &raft))?;
                let http = if http.is_empty() { present.http } else { http };
                Ok(Member { http, ..present })
            }
        }
    }

    /// Makes a voter a learner. A leader first makes another one lead, which is then asked.
    async fn demote(&self, id: u64) -> Outcome {
        let voters: BTreeSet<u64> = self.local.members().voter_ids().collect();
        if !voters.contains(&id) {
            return Ok(());
        }
        let Some(successor) = self.successor(&voters, id) else {
            let why = "the last voter cannot become a learner".to_owned();
            return Err(MemberError::Conflict(why));
        };
        if id == self.local.node_id() {
            self.transfer(successor).await?;
            return Err(MemberError::NoLeader(format!("node {successor} leads now; ask it")));
        }
        let demotion = ChangeMembers::RemoveVoters(BTreeSet::from([id]));
        self.change_membership(demotion, Leavers::Stay).await?;
        tracing::info!(node = id, "made a voter a learner");
        Ok(())
    }

    /// Who leads when this voter does not: the one of the others that follows most closely.
    fn successor(&self, voters: &BTreeSet<u64>, id: u64) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let matched = |id: &u64| metrics.replication.as_ref().and_then(|all| *all.get(id)?);
        let others = voters.iter().copied().filter(|voter| *voter != id);
        others.max_by_key(|other| (self.client.is_reachable(*other), matched(other)))
    }

    async fn promote(&self, id: u64) -> Outcome {
        let members = self.local.members();
        let uniform = members.membership().get_joint_config().len() == 1;
        if uniform && members.voter_ids().any(|voter| voter == id) {
            return Ok(());
        }
        let member = self.member(id).ok_or(MemberError::Unknown(id))?;
        // How far it was, and when it was heard last, says nothing of one that is down by now: with its
        // vote, the cluster would need it. So it is asked.
        let caught_up = async {
            self.wait_until_caught_up(id, LAG_ENTRIES_MAX).await;
            while self.client.call(id, &member, Request::Ping, CALL_TIMEOUT).await.is_err() {
                tokio::time::sleep(ASK_AGAIN_INTERVAL).await;
            }
        };
        let late =
            |_| unavailable(format!("node {id} is a learner and still catching up; ask again"));
        timeout(CATCH_UP_TIMEOUT, caught_up).await.map_err(late)?;
        let promotion = ChangeMembers::AddVoterIds(BTreeSet::from([id]));
        self.change_membership(promotion, Leavers::Go).await?;
        tracing::info!(node = id, "promoted a learner to voter");
        Ok(())
    }

    /// Waits without an end of its own; callers set one.
    async fn wait_until_caught_up(&self, id: u64, lag_max: u64) {
        loop {
            let caught_up = {
                let metrics = self.raft.metrics();
                let metrics = metrics.borrow();
                let matched = metrics.replication.as_ref().and_then(|all| *all.get(&id)?);
                let last = metrics.last_log_index.unwrap_or(0);
                matched.is_some_and(|matched| matched.index + lag_max >= last)
            };
            if caught_up {
                return;
            }
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    async fn remove(&self, id: u64, store: u128) -> Outcome {
        let member = self.member(id).ok_or(MemberError::Unknown(id))?;
        if store != member.store {
            let why = format!("node {id} has joined again since, with another data directory");
            return Err(MemberError::Conflict(why));
        }
        let voters: BTreeSet<u64> = self.local.members().voter_ids().collect();
        if voters == BTreeSet::from([id]) {
            return Err(MemberError::Conflict("the last voter cannot be removed".to_owned()));
        }
        let ids = BTreeSet::from([id]);
        if voters.contains(&id) {
            self.change_membership(ChangeMembers::RemoveVoters(ids), Leavers::Go).await?;
        } else {
            self.change_membership(ChangeMembers::RemoveNodes(ids), Leavers::Go).await?;
        }
        tracing::info!(node = id, "removed a node");
        self.bid_farewell(id, &member).await;
        Ok(())
    }

    /// Tells a node that it was removed: replication to it has ended, so it would not learn it.
    async fn bid_farewell(&self, id: u64, member: &Member) {
        if id == self.local.node_id() {
            return;
        }
        let members_index = self.local.members().log_id().map_or(0, |log_id| log_id.index);
        let farewell = Request::Farewell { members_index };
        if let Err(error) = self.client.call(id, member, farewell, CALL_TIMEOUT).await {
            tracing::info!(node = id, %error, "the removed node could not be told");
        }
    }

    /// Ends a change that its leader did not live to end, unless another is under way.
    pub(crate) async fn finish_joint_change(self: &Arc<Self>) {
        if !self.is_joint() || self.leader() != Some(self.local.node_id()) {
            return;
        }
        let Ok(_one_at_a_time) = self.changing.try_lock() else { return };
        if let Err(error) = self.flatten_members().await {
            tracing::warn!(%error, "a change of the membership waits to be finished");
        }
    }

    /// Has another voter lead in the next term while a learner holds a later vote than this leader's: it
    /// was a voter once, and takes no entry of an earlier term. Its vote unseats nobody, so the term
    /// rises in good order.
    pub(crate) async fn outgrow_learners(self: &Arc<Self>) {
        let (me, own) = (self.local.node_id(), self.raft.metrics().borrow().vote);
        let later = self.local.contact().later_vote(Instant::now()).filter(|later| *later > own);
        let Some(later) = later.filter(|_| self.leader() == Some(me)) else { return };
        let members = self.local.members();
        let mut others = members.voter_ids().filter(|id| *id != me);
        let Some(id) = others.find(|id| self.client.is_reachable(*id)) else {
            return;
        };
        tracing::info!(node = id, %later, "a learner voted in a later term: handing over to catch up");
        if let Err(error) = self.change_as_leader(Change::Transfer { id }).await {
            tracing::warn!(%error, "cannot hand over so that a learner can follow");
        }
    }

    /// Ends what another leader left between two configurations, where the cluster needs the majorities
    /// of both; openraft does not by itself. Whoever was a voter stays as a learner: whether it was to be
    /// removed nobody knows any more, and whoever asked for that asks again.
    async fn flatten_members(&self) -> Outcome {
        if !self.is_joint() {
            return Ok(());
        }
        let nobody = ChangeMembers::AddVoterIds(BTreeSet::new());
        self.change_membership(nobody, Leavers::Stay).await?;
        tracing::info!("finished a change of the membership that was cut off");
        Ok(())
    }

    fn is_joint(&self) -> bool {
        self.local.members().membership().get_joint_config().len() > 1
    }

    /// Resolves when this node does not lead (any more).
    pub(crate) async fn deposed(&self) {
        let me = self.local.node_id();
        let mut metrics = self.raft.metrics();
        let _ = metrics.wait_for(|now| now.current_leader != Some(me)).await;
    }

    async fn change_membership(
        &self,
        change: ChangeMembers<u64, Member>,
        leavers: Leavers,
    ) -> Outcome {
        let retain = leavers == Leavers::Stay;
        let mut change = pin!(self.raft.change_membership(change, retain));
        // A leader that is deposed may never hear what became of its entry; one that removes
        // itself hears it a little after it has stopped leading.
        let changed = tokio::select! {
            changed = &mut change => changed,
            () = self.deposed() => {
                let lost = "leadership was lost meanwhile; look again later";
                let late = |_| MemberError::NoLeader(lost.to_owned());
                timeout(CALL_TIMEOUT, change).await.map_err(late)?
            }
        };
        match changed {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(refused(&error))
            }
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => Err(no_leader()),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Hands leadership over: quiet the log, let the target catch up, and have it stand for election
    /// with this leader's consent (thesis, 3.10). Proposals wait meanwhile, for as long as an election
    /// takes on three nodes; among more, also until the lease of the other followers has run out.
    async fn transfer(&self, id: u64) -> Outcome {
        if !self.local.members().voter_ids().any(|voter| voter == id) {
            return Err(MemberError::Unknown(id));
        }
        if id == self.local.node_id() {
            return Ok(());
        }
        let member = self.member(id).ok_or(MemberError::Unknown(id))?;
        // Before anything waits for it: a target that is down would stop all writes for nothing.
        let late = |_| unavailable(format!("node {id} does not follow closely enough"));
        let close = self.wait_until_caught_up(id, LAG_ENTRIES_MAX);
        timeout(CALL_TIMEOUT, close).await.map_err(late)?;
        if !self.client.is_reachable(id) {
            return Err(unavailable(format!("node {id} cannot be reached")));
        }
        // openraft lets a new leader refuse its vote for as long as a lease, to everybody.
        if let Some(since) = self.local.contact().leading_since() {
            sleep_until(since + self.options.tuning.lease_end()).await;
        }
        // An entry that is under way ends first: with it, this leader's log would be longer than the target's.
        let busy = |_| unavailable("no quorum confirms what was proposed before".to_owned());
        let _no_appends = timeout(CALL_TIMEOUT, self.appending.lock()).await.map_err(busy)?;
        let handed_over = timeout(HAND_OVER_MAX, self.hand_over(id, &member)).await;
        let late = || unavailable(format!("node {id} did not take over in time"));
        handed_over.unwrap_or_else(|_| Err(late()))
    }

    async fn hand_over(&self, id: u64, member: &Member) -> Outcome {
        self.wait_until_caught_up(id, 0).await;
        let _silence = Silence::keep(self);
        // The target and this leader are a quorum of three. The others of five refuse for a lease.
        if self.local.members().voter_ids().count() > 3 {
            tokio::time::sleep(self.options.tuning.lease_end()).await;
        }
        let mut metrics = self.raft.metrics();
        let from = metrics.borrow().vote;
        if from.leader_id.node_id != self.local.node_id() || !from.is_committed() {
            return Err(no_leader());
        }
        let called = self.client.call(id, member, Request::TakeOver { from }, CALL_TIMEOUT).await;
        called.map_err(unavailable)?;
        let another = metrics.wait_for(|now| now.vote > from && now.vote.is_committed()).await;
        let another = another.map_err(unavailable)?.vote.leader_id.node_id;
        if another == id {
            return Ok(());
        }
        Err(unavailable(format!("node {another} was elected instead")))
    }
}

/// Keeps a leader from sending heartbeats while it lives, and lets them flow again when it ends, however
/// that comes about.
struct Silence<'a>(&'a Inner);

impl<'a> Silence<'a> {
    fn keep(inner: &'a Inner) -> Self {
        inner.silent.store(true, Relaxed);
        Self(inner)
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.0.silent.store(false, Relaxed);
    }
}

/// What becomes of voters that a change leaves without a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leavers {
    /// They are learners.
    Stay,
    /// They are no members.
    Go,
}

fn no_leader() -> MemberError {
    MemberError::NoLeader("no leader is known at the moment".to_owned())
}

/// The one answer for whatever is no node that can be added.
fn nobody_to_add(id: u64, raft: &str) -> MemberError {
    MemberError::Conflict(format!(
        "there is no new node {id} at {raft}: check both, that it was started with --join, and that it has \
         the cluster's secret"
    ))
}

fn unavailable(why: impl ToString) -> MemberError {
    MemberError::Unavailable(why.to_string())
}

fn refused(error: &ChangeMembershipError<u64>) -> MemberError {
    match error {
        ChangeMembershipError::InProgress(_) => MemberError::Busy,
        ChangeMembershipError::LearnerNotFound(missing) => MemberError::Unknown(missing.node_id),
        ChangeMembershipError::EmptyMembership(_) => {
            MemberError::Conflict("the last voter cannot be removed".to_owned())
        }
    }
}
