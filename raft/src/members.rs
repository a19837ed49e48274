//! Membership and leadership, changed one step at a time, on the leader.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout, timeout_at};

use crate::form::Purpose;
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
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two looks at a follower's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);

/// A change of the membership or of the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// Add a node as a learner and, if asked, make it a voter once it has caught up.
    /// `store` is known when the node asks for itself.
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
    /// There is no such member.
    #[error("node {0} is not a member")]
    Unknown(u64),
    /// No leader, no quorum, or not in time; worth another try.
    #[error("{0}")]
    Unavailable(String),
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
        matches!(self, Self::Unavailable(_) | Self::Busy)
    }
}

type Outcome = Result<(), MemberError>;

impl Inner {
    /// Carries a change out here when this node leads, and asks the leader otherwise.
    pub(crate) async fn change(self: &Arc<Self>, change: Change) -> Outcome {
        let leader = self.leader().ok_or_else(no_leader)?;
        if leader == self.local.node_id() {
            return self.change_as_leader(change).await;
        }
        let member = self.member(leader).ok_or_else(no_leader)?;
        let within = CHANGE_TIMEOUT + CALL_TIMEOUT;
        match self.client.call(leader, &member, Request::Change(change), within).await {
            Ok(Response::Changed(outcome)) => outcome,
            Ok(_) => Err(unavailable("the leader answered something else than was asked")),
            Err(error) => Err(unavailable(error)),
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
        settled.ok().flatten().ok_or_else(|| unavailable("no quorum confirms the membership"))
    }

    async fn add(
        &self,
        id: u64,
        raft: String,
        http: String,
        voter: bool,
        store: Option<u128>,
    ) -> Outcome {
        let member = match store {
            Some(store) => Member { raft, http, store },
            None => self.ask_newcomer(id, raft, http).await?,
        };
        match self.member(id) {
            Some(present) if present.store != member.store => {
                let why = format!(
                    "node {id} is a member already, with another data directory; remove it first"
                );
                return Err(MemberError::Conflict(why));
            }
            Some(present) if present == member => {}
            _ => {
                let nodes = BTreeMap::from([(id, member.clone())]);
                self.change_membership(ChangeMembers::SetNodes(nodes)).await?;
                tracing::info!(node = id, raft = %member.raft, "added a learner");
            }
        }
        if voter { self.promote(id).await } else { Ok(()) }
    }

    /// Learns a newcomer's store from itself.
    async fn ask_newcomer(
        &self,
        id: u64,
        raft: String,
        http: String,
    ) -> Result<Member, MemberError> {
        let asked = self.say_hello(&raft, Purpose::Join).await;
        let (from, introduction) = asked.map_err(|error| match error {
            CallError::Refused { .. } => MemberError::Conflict(error.to_string()),
            error => unavailable(error),
        })?;
        if from.node_id != id {
            let why = format!("node {} listens at {raft}, not node {id}", from.node_id);
            return Err(MemberError::Conflict(why));
        }
        if introduction.cluster.is_some_and(|cluster| Some(cluster) != self.local.cluster()) {
            let why = format!("node {id} belongs to another cluster; wipe its data directory");
            return Err(MemberError::Conflict(why));
        }
        self.check_supports(id, &introduction.release)?;
        let http = if http.is_empty() { introduction.http } else { http };
        Ok(Member { raft, http, store: from.store })
    }

    async fn promote(&self, id: u64) -> Outcome {
        let members = self.local.members();
        let uniform = members.membership().get_joint_config().len() == 1;
        if uniform && members.voter_ids().any(|voter| voter == id) {
            return Ok(());
        }
        let caught_up = self.wait_until_caught_up(id, LAG_ENTRIES_MAX);
        let late =
            |_| unavailable(format!("node {id} is a learner and still catching up; ask again"));
        timeout(CATCH_UP_TIMEOUT, caught_up).await.map_err(late)?;
        self.change_membership(ChangeMembers::AddVoterIds(BTreeSet::from([id]))).await?;
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
            self.change_membership(ChangeMembers::RemoveVoters(ids)).await?;
        } else {
            self.change_membership(ChangeMembers::RemoveNodes(ids)).await?;
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

    /// Ends a change that its leader did not live to end: openraft leaves the cluster between two
    /// configurations then, where it needs the majorities of both.
    pub(crate) async fn finish_joint_change(self: &Arc<Self>) {
        let members = self.local.members();
        let joint = members.membership().get_joint_config().len() > 1;
        if !joint || self.leader() != Some(self.local.node_id()) {
            return;
        }
        let Ok(_one_at_a_time) = self.changing.try_lock() else { return };
        match self.change_membership(ChangeMembers::AddVoterIds(BTreeSet::new())).await {
            Ok(()) => tracing::info!("finished a change of the membership that was cut off"),
            Err(error) => tracing::warn!(%error, "a change of the membership waits to be finished"),
        }
    }

    /// Resolves when this node does not lead (any more).
    pub(crate) async fn deposed(&self) {
        let me = self.local.node_id();
        let mut metrics = self.raft.metrics();
        let _ = metrics.wait_for(|now| now.current_leader != Some(me)).await;
    }

    async fn change_membership(&self, change: ChangeMembers<u64, Member>) -> Outcome {
        let mut change = pin!(self.raft.change_membership(change, false));
        // A leader that is deposed may never hear what became of its entry; one that removes
        // itself hears it a little after it has stopped leading.
        let changed = tokio::select! {
            changed = &mut change => changed,
            () = self.deposed() => {
                let late = |_| unavailable("leadership was lost meanwhile; look again later");
                timeout(CALL_TIMEOUT, change).await.map_err(late)?
            }
        };
        match changed {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(refused(&error))
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Hands leadership over: quiet the log, let the target catch up, let the lease run out, and
    /// have the target stand for election. openraft 0.9 has no message for it, so this takes about
    /// one election timeout, during which new proposals wait.
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
        if self.client.is_reachable(id) != Some(true) {
            return Err(unavailable(format!("node {id} cannot be reached")));
        }
        let _quiet = Quiet::keep(self);
        let handed_over = timeout(self.options.tuning.transfer_max(), self.hand_over(id, &member));
        let outcome = handed_over.await;
        let late = || unavailable(format!("node {id} did not take over in time"));
        outcome.unwrap_or_else(|_| Err(late()))
    }

    async fn hand_over(&self, id: u64, member: &Member) -> Outcome {
        self.wait_until_caught_up(id, 0).await;
        self.silent.store(true, Relaxed);
        tokio::time::sleep(self.options.tuning.lease()).await;
        let mut metrics = self.raft.metrics();
        let deadline = Instant::now() + self.options.tuning.transfer_max();
        loop {
            let called = self.client.call(id, member, Request::Elect, CALL_TIMEOUT).await;
            called.map_err(unavailable)?;
            let attempt = (Instant::now() + self.options.tuning.lease()).min(deadline);
            let elected =
                timeout_at(attempt, metrics.wait_for(|now| now.current_leader == Some(id))).await;
            if elected.is_ok() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(unavailable(format!("node {id} was not elected")));
            }
        }
    }
}

/// Holds back proposals while it lives, and lets heartbeats flow again when it ends, however that
/// comes about.
struct Quiet<'a>(&'a Inner);

impl<'a> Quiet<'a> {
    fn keep(inner: &'a Inner) -> Self {
        inner.paused.send_replace(true);
        Self(inner)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.silent.store(false, Relaxed);
        self.0.paused.send_replace(false);
    }
}

fn no_leader() -> MemberError {
    unavailable("no leader is known at the moment")
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
