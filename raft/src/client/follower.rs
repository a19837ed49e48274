//! A member that gets messages from this node: how this node sends a message, and how far the member's log reaches.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{NetworkError, RPCError, RaftError, Unreachable};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::calls::{CallError, Client};
use crate::message::{Request, Response};
use crate::peers::PeerObservations;
use crate::runtime::MESSAGE_MAX;
use crate::types::{Member, RaftLogId, RaftVote, Types};

/// How often the sender checks whether an unanswered message is lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);

/// A member that gets messages from this node.
pub(super) struct Follower {
    pub(super) client: Arc<Client>,
    pub(super) heard: Arc<PeerObservations>,
    pub(super) target: u64,
    pub(super) member: Member,
    /// Held while entries are on their way to the member.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    reached: Mutex<Reached>,
}

/// How far the log of a follower is known to equal the leader's.
#[derive(Clone, Copy, Default)]
pub(super) struct Reached {
    /// The vote of the leader whose message the follower answered.
    vote: RaftVote,
    last: Option<RaftLogId>,
    /// The commit index in that leader's message.
    pub(super) committed: Option<RaftLogId>,
}

impl Reached {
    /// What a follower has reached once it accepts a message.
    pub(super) fn by(message: &AppendEntriesRequest<Types>) -> Self {
        let last = message.entries.last().map(|entry| entry.log_id).or(message.prev_log_id);
        Self { vote: message.vote, last, committed: message.leader_commit }
    }

    /// How far the follower's log equals the log of the leader with this vote.
    pub(super) fn under(&self, vote: RaftVote) -> Option<RaftLogId> {
        self.last.filter(|_| self.vote == vote)
    }

    /// Whether this reaches at least as far as `other` under the same leader, so that the follower needs no message to
    /// get there.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.vote == other.vote && self.last >= other.last
    }
}

/// The error that openraft gets while a leader without a quorum sends nothing.
#[derive(Debug, thiserror::Error)]
#[error("no quorum answers this leader")]
struct WithoutQuorum;

/// The error that openraft gets for a message without an answer in the usual time, whose receiver does not report that
/// it is writing.
#[derive(Debug, thiserror::Error)]
#[error("no answer, and the receiver is not writing it")]
struct Unanswered;

impl Follower {
    pub(super) fn new(
        client: Arc<Client>,
        heard: Arc<PeerObservations>,
        target: u64,
        member: Member,
    ) -> Self {
        let (turn, reached) = Default::default();
        Self { client, heard, target, member, turn, reached }
    }

    /// How far the member's log equals this node's, according to its answers.
    pub(super) fn reached(&self) -> Reached {
        *self.reached.lock()
    }

    /// Records what the member has answered.
    pub(super) fn has_reached(&self, reached: Reached) {
        *self.reached.lock() = reached;
    }

    /// Sends a leader's message, unless no quorum answers this leader.
    pub(super) async fn append(
        &self,
        rpc: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        let (term, sent) = (rpc.vote.leader_id.term, Instant::now());
        if !self.heard.may_send(term, sent) {
            return Err(RPCError::Unreachable(Unreachable::new(&WithoutQuorum)));
        }
        let Response::Append(response) = self.call(Request::Append(rpc)).await? else {
            return Err(self.unexpected());
        };
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            self.heard.contact().acknowledged(term, self.target, sent);
        }
        Ok(response)
    }

    /// Sends a message, and waits for the answer or until the message counts as lost. A receiver that reports that it
    /// is writing gets the time that its disk needs: a second copy of the message would only wait behind the first.
    pub(super) async fn call<E: std::error::Error>(
        &self,
        request: Request,
    ) -> Result<Response, RPCError<u64, Member, E>> {
        let (sent, weather) = (Instant::now(), self.heard.weather());
        let mut called = pin!(self.client.call(self.target, &self.member, request, MESSAGE_MAX));
        let called = loop {
            // Each answer to a heartbeat may move this.
            let lost_at = weather.lost_at(self.target, sent).min(Instant::now() + LOOK_INTERVAL);
            tokio::select! {
                biased;
                called = &mut called => break called,
                () = sleep_until(lost_at) => {
                    if weather.lost_at(self.target, sent) <= Instant::now() {
                        return Err(RPCError::Network(NetworkError::new(&Unanswered)));
                    }
                }
            }
        };
        called.map_err(|error| match error {
            // openraft leaves an unreachable peer alone for a while, but sends again at once if only the answer was
            // late.
            CallError::Lost { .. } => RPCError::Network(NetworkError::new(&error)),
            CallError::Unreachable { .. }
            | CallError::Refused { .. }
            | CallError::Discounted { .. } => RPCError::Unreachable(Unreachable::new(&error)),
        })
    }

    pub(super) fn unexpected<E: std::error::Error>(&self) -> RPCError<u64, Member, E> {
        let reason = "answered something other than what was asked".to_owned();
        let error = CallError::Lost { address: self.member.raft.clone(), reason };
        RPCError::Unreachable(Unreachable::new(&error))
    }
}
