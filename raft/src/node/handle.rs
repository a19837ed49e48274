//! The interface of a node to its callers.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::SyncReadings;
use tokio::time::{Instant, timeout_at};

use super::status::Status;
use crate::core::Core;
use crate::error::{AskError, Delivery, NotConfirmed, ProposeError, Rejected};
use crate::leader_requests::{LEADER_REQUEST_BYTES_MAX, LeaderRequests};
use crate::membership::Membership;
use crate::message::{Change, ForwardError, MembershipError, Precaution};
use crate::peers::PeerClock;
use crate::types::NamesLeader;
use crate::types::bounds::COMMANDS_MAX;

/// Maximum size of one proposal in bytes, all of its commands together.
pub const PROPOSAL_BYTES_MAX: usize = 32 << 10;
/// Longest time that a change of the membership takes, including the wait for a leader. Clients wait longer, so that
/// they receive the reason.
const CHANGE_MAX: Duration = Duration::from_millis(9_500);
/// Pause before the leader is asked again for a read index.
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The interface of a [`Node`](crate::Node) to its callers; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) core: Arc<Core>,
    pub(crate) membership: Arc<Membership>,
}

impl Handle {
    /// Has commands applied, in order and together, and returns their replies in that order. It works on any node,
    /// because followers send the commands to the leader.
    ///
    /// # Errors
    /// See [`ProposeError`]; always by the deadline. A proposal larger than [`PROPOSAL_BYTES_MAX`], or of more than
    /// 2,048 commands, is [`Rejected::Unfit`].
    pub async fn propose(
        &self,
        commands: Vec<Vec<u8>>,
        delivery: Delivery,
        deadline: Instant,
    ) -> Result<Vec<Vec<u8>>, ProposeError> {
        let (count, bytes) = (commands.len(), commands.iter().map(Vec::len).sum::<usize>());
        let fits = count <= COMMANDS_MAX && bytes <= PROPOSAL_BYTES_MAX;
        if !fits {
            let why = format!("a proposal of {count} commands and {bytes} bytes is too large");
            return Err(ProposeError::Rejected(Rejected::Unfit(why)));
        }
        let commands = self.core.check_commands(commands, deadline).await.map_err(not_checked)?;
        self.core.propose(commands, delivery, deadline, false).await
    }

    /// Waits until this node has applied everything that was committed when the call began. A read of the
    /// local state is linearizable afterwards (Raft thesis, 6.4).
    ///
    /// # Errors
    /// [`ProposeError::Unavailable`] when no quorum confirmed a leader by the deadline.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ProposeError> {
        let late = |what: &str| ProposeError::Unavailable(what.to_owned());
        let index = loop {
            match timeout_at(deadline, self.core.read_index()).await {
                Ok(Some(index)) => break index,
                Ok(None) if Instant::now() + READ_RETRY_INTERVAL < deadline => {
                    tokio::time::sleep(READ_RETRY_INTERVAL).await;
                }
                _ => return Err(late("no leader with a quorum")),
            }
        };
        let mut metrics = self.core.raft.metrics();
        let applied = metrics.wait_for(|now| now.last_applied.is_some_and(|id| id.index >= index));
        match timeout_at(deadline, applied).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(late("this node lags behind the leader")),
        }
    }

    /// Has a quorum confirm that this node leads, and returns its term as the leader. The round of messages begins
    /// after this call, and trusts no clock and no lease: no other node led in a later term when the call was made
    /// (`DESIGN.md`, "Confirmed leadership"). By the time it returns, another node may lead.
    ///
    /// # Errors
    /// See [`NotConfirmed`]; by the deadline.
    pub async fn confirm_leadership(&self, deadline: Instant) -> Result<u64, NotConfirmed> {
        self.core.confirm_leadership(deadline).await
    }

    /// Sends a request to the node that leads as far as this node knows; its [`LeaderRequests`] answers. The request
    /// is sent there once, and a node that does not lead does not forward it.
    ///
    /// # Errors
    /// See [`AskError`]; by the deadline.
    ///
    /// # Panics
    /// When the request is larger than [`LEADER_REQUEST_BYTES_MAX`].
    pub async fn ask_leader(
        &self,
        request: Vec<u8>,
        deadline: Instant,
    ) -> Result<Vec<u8>, AskError> {
        check_request(&request);
        self.core.ask_leader(request, deadline).await
    }

    /// Sends a request to this member, whether it leads or not; otherwise like [`ask_leader`](Self::ask_leader).
    ///
    /// # Errors
    /// See [`AskError`]; by the deadline.
    ///
    /// # Panics
    /// When the request is larger than [`LEADER_REQUEST_BYTES_MAX`].
    pub async fn ask_member(
        &self,
        id: u64,
        request: Vec<u8>,
        deadline: Instant,
    ) -> Result<Vec<u8>, AskError> {
        check_request(&request);
        self.core.ask_member(id, request, deadline).await
    }

    /// Registers `answerer` for the requests that other members send to this node. The first one stays.
    pub fn answer_by(&self, answerer: Arc<dyn LeaderRequests>) {
        self.core.requests.answer_by(answerer);
    }

    /// This node's id.
    #[must_use]
    pub fn node_id(&self) -> u64 {
        self.core.identity.node_id()
    }

    /// The node that leads as far as this node knows; it may be gone by now.
    #[must_use]
    pub fn leader_id(&self) -> Option<u64> {
        self.core.leader()
    }

    /// Resolves when a node other than `than` is known to lead, or when no leader is known any more.
    pub async fn leader_other_than(&self, than: Option<u64>) {
        let mut metrics = self.core.raft.server_metrics();
        if metrics.wait_for(|now| now.leader() != than).await.is_err() {
            // openraft has ended, and so will this node.
            std::future::pending::<()>().await;
        }
    }

    /// Adds a node as a learner and, if `voter`, promotes it once it has caught up; otherwise makes a voter a
    /// learner. Waits out an election, for under 10 s. A caller may repeat a request that was not finished in time.
    /// If `http` is empty, the node itself is asked for it. A change of the voters begins only once a majority of the
    /// voters that it leaves has answered, unless `force` is set.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn add_member(
        &self,
        id: u64,
        raft: String,
        http: String,
        voter: bool,
        force: bool,
    ) -> Result<(), MembershipError> {
        let add = Change::Add { id, raft, http, voter, store: None, release: None };
        self.membership.change(add, precaution(force), change_deadline()).await
    }

    /// Removes a node, voter or learner, which stops when it learns of that. Waits out an election, for under 10 s.
    /// The removal of a voter begins only once a majority of the others has answered, unless `force` is set.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn remove_member(&self, id: u64, force: bool) -> Result<(), MembershipError> {
        let deadline = change_deadline();
        let known = match self.core.member(id) {
            Some(known) => known,
            // The node may have joined a moment ago.
            None => {
                let barrier = self.read_barrier(deadline).await;
                barrier.map_err(|error| MembershipError::Unavailable(error.to_string()))?;
                self.core.member(id).ok_or(MembershipError::Unknown(id))?
            }
        };
        let removal = Change::Remove { id, store: known.store };
        self.membership.change(removal, precaution(force), deadline).await
    }

    /// Asks the voters other than `id`, as its removal would, and changes nothing. For a caller that records a
    /// removal before it requests it.
    ///
    /// # Errors
    /// [`MembershipError::Conflict`] when too few of them answer this node.
    pub async fn ask_voters_without(&self, id: u64) -> Result<(), MembershipError> {
        self.membership.ask_voters_without(id).await
    }

    /// Makes a voter the leader. Waits out an election, for under 10 s. New proposals wait during the transfer, for
    /// about one election timeout.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn transfer_leader(&self, id: u64) -> Result<(), MembershipError> {
        let transfer = Change::Transfer { id };
        self.membership.change(transfer, Precaution::AskVoters, change_deadline()).await
    }

    /// Keeps leaders from handing over to this node: it is about to stop.
    pub fn decline_leadership(&self) {
        self.core.transfer.decline();
    }

    /// Raises the level of the cluster to the highest that every member supports, learners included. The leader asks
    /// all of them, and does nothing if they support no higher level than the cluster has.
    ///
    /// # Errors
    /// [`MembershipError::Level`] names the members that could not be asked or are too old; see [`MembershipError`].
    pub async fn raise_level(&self) -> Result<(), MembershipError> {
        let raise = Change::RaiseLevel;
        self.membership.change(raise, Precaution::AskVoters, change_deadline()).await
    }

    /// Every peer's clock compared with this node's, according to recent messages. The leader hears from every
    /// member, a follower mostly from the leader.
    #[must_use]
    pub fn clocks(&self) -> Vec<PeerClock> {
        self.core.heard.clocks().offsets(self.core.heard.own_ms())
    }

    /// The median of the voters' clocks in Unix milliseconds, which the leader stamps entries with. `None` if this
    /// node has not received it lately. The median may step, forward or back.
    #[must_use]
    pub fn median_now_ms(&self) -> Option<u64> {
        self.core.heard.cluster_now_ms()
    }

    /// A time that few changes proposed here exceed: a commit of the leader, the way there and back, and this node's own
    /// part, with its usual syncs, until it has applied the change. `None` while that is not known.
    #[must_use]
    pub fn change_time(&self) -> Option<Duration> {
        let leads = self.core.leads();
        // One slow sync says little of the next, and callers wait for four times this.
        let sync = self.core.heard.syncs().usually().unwrap_or_default();
        let own_part = if leads { Duration::ZERO } else { 2 * sync };
        Some(self.core.proposal_time()? + own_part)
    }

    /// How long the syncs of this node's log took since its start; `None` if they are not measured.
    #[must_use]
    pub fn sync_times(&self) -> Option<SyncReadings> {
        self.core.log.sync_times()
    }

    /// What this node knows of the cluster without asking any other node.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::of(&self.core)
    }
}

fn precaution(force: bool) -> Precaution {
    if force { Precaution::None } else { Precaution::AskVoters }
}

fn check_request(request: &[u8]) {
    let bytes = request.len();
    assert!(bytes <= LEADER_REQUEST_BYTES_MAX, "a request of {bytes} bytes is too large");
}

fn change_deadline() -> Instant {
    Instant::now() + CHANGE_MAX
}

/// The error for the caller. Its commands succeed or fail together, so it is enough to report the first reason.
fn not_checked(error: ForwardError) -> ProposeError {
    match error {
        ForwardError::Refused(refused) => refused.into_iter().next().map_or_else(
            || ProposeError::Unavailable("nothing was proposed".to_owned()),
            |first| ProposeError::Rejected(first.why),
        ),
        _ => ProposeError::Unavailable("no leader with a quorum".to_owned()),
    }
}
