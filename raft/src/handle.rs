//! What callers do with a node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::clocks::PeerClock;
use crate::error::{ProposeError, Retry};
use crate::members::{Change, MemberError};
use crate::node::Inner;
use crate::proposal::COMMANDS_MAX;
use crate::status::Status;
use crate::transport::Unproposed;

/// Bytes of one proposal at most, commands taken together.
pub const PROPOSAL_BYTES_MAX: usize = 32 << 10;
/// How long a change of the membership waits for a leader, the change itself included: less than clients
/// are given, so that they hear the reason.
const CHANGE_MAX: Duration = Duration::from_millis(9_500);
/// Pause before the leader is asked again for a read index.
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What callers do with a [`Node`](crate::Node); cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

impl Handle {
    /// Has commands applied, in order and together, and returns their replies in that order.
    /// Works on any node: followers send them to the leader.
    ///
    /// # Errors
    /// See [`ProposeError`]; always by the deadline.
    ///
    /// # Panics
    /// When the commands are larger than [`PROPOSAL_BYTES_MAX`], or more than 2,048.
    pub async fn propose(
        &self,
        commands: Vec<Vec<u8>>,
        retry: Retry,
        deadline: Instant,
    ) -> Result<Vec<Vec<u8>>, ProposeError> {
        let (count, bytes) = (commands.len(), commands.iter().map(Vec::len).sum::<usize>());
        let fits = count <= COMMANDS_MAX && bytes <= PROPOSAL_BYTES_MAX;
        assert!(fits, "a proposal of {count} commands and {bytes} bytes is too large");
        let commands = self.inner.let_in(commands, deadline).await.map_err(not_let_in)?;
        self.inner.propose(commands, retry, deadline, false).await
    }

    /// Waits until this node has applied everything that was committed when the call began: a
    /// read of the local state is linearizable afterwards.
    ///
    /// # Errors
    /// [`ProposeError::Unavailable`] when no quorum confirmed a leader by the deadline.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ProposeError> {
        let late = |what: &str| ProposeError::Unavailable(what.to_owned());
        let index = loop {
            match timeout_at(deadline, self.inner.read_index()).await {
                Ok(Some(index)) => break index,
                Ok(None) if Instant::now() + READ_RETRY_INTERVAL < deadline => {
                    tokio::time::sleep(READ_RETRY_INTERVAL).await;
                }
                _ => return Err(late("no leader with a quorum")),
            }
        };
        let mut metrics = self.inner.raft.metrics();
        let applied = metrics.wait_for(|now| now.last_applied.is_some_and(|id| id.index >= index));
        match timeout_at(deadline, applied).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(late("this node lags behind the leader")),
        }
    }

    /// Adds a node as a learner and, if `voter`, promotes it once it has caught up; if not, a voter
    /// becomes a learner. Waits out an election, for under 10 s. May be asked again after it was not
    /// finished in time. `http` may be empty: the node is asked for it.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn add_member(
        &self,
        id: u64,
        raft: String,
        http: String,
        voter: bool,
    ) -> Result<(), MemberError> {
        self.inner
            .change(
                Change::Add { id, raft, http, voter, store: None, release: None },
                change_deadline(),
            )
            .await
    }

    /// Removes a node, voter or learner; it stops by itself when it learns of it. Waits out an election,
    /// for under 10 s.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn remove_member(&self, id: u64) -> Result<(), MemberError> {
        let deadline = change_deadline();
        let known = match self.inner.member(id) {
            Some(known) => known,
            // It may have joined a moment ago.
            None => {
                let barrier = self.read_barrier(deadline).await;
                barrier.map_err(|error| MemberError::Unavailable(error.to_string()))?;
                self.inner.member(id).ok_or(MemberError::Unknown(id))?
            }
        };
        self.inner.change(Change::Remove { id, store: known.store }, deadline).await
    }

    /// Makes a voter the leader. Waits out an election, for under 10 s. New proposals wait about one election timeout meanwhile.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn transfer_leader(&self, id: u64) -> Result<(), MemberError> {
        self.inner.change(Change::Transfer { id }, change_deadline()).await
    }

    /// Raises the level of the cluster to the highest that every member supports, learners included. All
    /// of them are asked; does nothing when there is nothing to raise it to.
    ///
    /// # Errors
    /// [`MemberError::Level`] names who could not be asked or is too old; see [`MemberError`].
    pub async fn raise_level(&self) -> Result<(), MemberError> {
        self.inner.change(Change::RaiseLevel, change_deadline()).await
    }

    /// Every peer's clock against this node's, as far as messages told it lately; the leader
    /// hears from everybody, a follower from the leader.
    #[must_use]
    pub fn clocks(&self) -> Vec<PeerClock> {
        self.inner.local.clocks().offsets(self.inner.clock.now_ms())
    }

    /// The median of the voters' clocks in Unix milliseconds, which the leader stamps entries
    /// with; `None` while this node has not heard it lately. It may step.
    #[must_use]
    pub fn median_now_ms(&self) -> Option<u64> {
        self.inner.local.cluster_now_ms()
    }

    /// What this node knows of the cluster, without asking anybody.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::of(&self.inner)
    }
}

fn change_deadline() -> Instant {
    Instant::now() + CHANGE_MAX
}

/// The caller's commands stand or fall together, so the first reason is as good as any.
fn not_let_in(error: Unproposed) -> ProposeError {
    match error {
        Unproposed::Refused(refused) => refused.into_iter().next().map_or_else(
            || ProposeError::Unavailable("nothing was proposed".to_owned()),
            |first| ProposeError::Rejected(first.why),
        ),
        _ => ProposeError::Unavailable("no leader with a quorum".to_owned()),
    }
}
