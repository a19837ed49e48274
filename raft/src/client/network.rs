//! openraft's network: its way to each member.

use std::sync::Arc;
use std::time::Duration;

use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use tokio::time::Instant;

use super::calls::Client;
use super::commit_notice::{CommitNotice, HeldBack};
use super::early_appends::EarlyAppends;
use super::follower::{Follower, Reached};
use crate::identity::NodeIdentity;
use crate::leadership_transfer::LeadershipTransfer;
use crate::message::{Request, Response};
use crate::peers::PeerObservations;
use crate::runtime::MESSAGE_MAX;
use crate::types::{Member, RaftLogId, RaftVote, Types};

/// Replication leaves an unreachable peer alone for this long before it tries again. A failed attempt costs more than
/// a heartbeat that arrives.
const UNREACHABLE_BACKOFF: Duration = Duration::from_millis(400);

/// Makes openraft's connections to members.
pub(crate) struct NetworkFactory {
    pub(crate) client: Arc<Client>,
    pub(crate) identity: Arc<NodeIdentity>,
    pub(crate) heard: Arc<PeerObservations>,
    pub(crate) transfer: Arc<LeadershipTransfer>,
    pub(crate) early: Arc<EarlyAppends>,
}

impl RaftNetworkFactory<Types> for NetworkFactory {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, member: &Member) -> Connection {
        let (client, heard) = (Arc::clone(&self.client), Arc::clone(&self.heard));
        let follower = Arc::new(Follower::new(client, heard, target, member.clone()));
        Connection {
            identity: Arc::clone(&self.identity),
            transfer: Arc::clone(&self.transfer),
            early: Arc::clone(&self.early),
            receives_early_appends: false,
            follower,
            commit_notice: CommitNotice::default(),
        }
    }
}

/// openraft's way to one member.
pub(crate) struct Connection {
    identity: Arc<NodeIdentity>,
    transfer: Arc<LeadershipTransfer>,
    early: Arc<EarlyAppends>,
    /// Whether the member gets entries early. openraft has several ways to a member, and one of them carries entries.
    receives_early_appends: bool,
    follower: Arc<Follower>,
    commit_notice: CommitNotice,
}

/// The error that openraft gets in place of an answer whose later vote does not count.
#[derive(Debug, thiserror::Error)]
#[error("a later vote from a node that is not a voter of the leader's membership")]
struct NotAVoter;

/// The error that openraft gets when it replicates for a leadership that has ended.
#[derive(Debug, thiserror::Error)]
#[error("this node no longer leads by this vote")]
struct Deposed;

impl Connection {
    /// Lets a later vote depose this leader only if it comes from a voter of its membership. A learner has no say. In
    /// particular, a learner that was a voter of an older membership must not depose leaders (compare the disruptive
    /// servers of the Raft thesis, 4.2.3).
    fn ensure_may_depose<E: std::error::Error>(
        &self,
        vote: RaftVote,
    ) -> Result<(), RPCError<u64, Member, E>> {
        let Follower { target, member, heard, .. } = &*self.follower;
        let members = self.identity.members();
        let named = members.membership().get_node(target);
        let is_voter = members.voter_ids().any(|id| id == *target);
        // A lone voter has no other voter to transfer leadership to, and is elected again at once.
        let is_alone = members.voter_ids().eq([self.identity.node_id()]);
        let counts = is_alone || is_voter && named.is_some_and(|named| named.store == member.store);
        if counts {
            return Ok(());
        }
        heard.contact().heard_later_vote(vote, Instant::now());
        Err(RPCError::Unreachable(Unreachable::new(&NotAVoter)))
    }

    /// Judges the answer to a message of a leader, with which the member was sent this commit index.
    fn check_answer<E: std::error::Error>(
        &mut self,
        response: AppendEntriesResponse<u64>,
        committed: Option<RaftLogId>,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, E>> {
        match &response {
            AppendEntriesResponse::HigherVote(vote) => self.ensure_may_depose(*vote)?,
            _ => self.commit_notice.arrived(committed),
        }
        Ok(response)
    }
}

impl RaftNetwork<Types> for Connection {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        if self.commit_notice.can_wait(&rpc) {
            return Err(RPCError::Network(NetworkError::new(&HeldBack)));
        }
        // openraft lets the replication of a leadership go on for a while after the leadership has ended. It then reads
        // entries that a later leader wrote, and sends them after an entry that this leader replaced: two followers
        // would hold different entries before the same one. openraft asked for the later vote to be saved before it
        // wrote such entries, so they are noticed here, after they were read.
        if !self.early.is_latest(rpc.vote) {
            return Err(RPCError::Unreachable(Unreachable::new(&Deposed)));
        }
        let (follower, then) = (Arc::clone(&self.follower), Reached::by(&rpc));
        if rpc.entries.is_empty() {
            let response = follower.append(rpc).await?;
            return self.check_answer(response, then.committed);
        }
        // Entries wait for those that are on their way, because the answer to those may be the answer to these.
        let _turn = follower.turn.lock().await;
        let reached = follower.reached();
        if reached.covers(&then) {
            return self.check_answer(AppendEntriesResponse::Success, reached.committed);
        }
        let response = follower.append(rpc).await?;
        if let AppendEntriesResponse::Success = response {
            follower.has_reached(then);
            if !self.receives_early_appends {
                self.early.add(follower.target, &follower);
                self.receives_early_appends = true;
            }
        }
        self.check_answer(response, then.committed)
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<u64>,
        RPCError<u64, Member, RaftError<u64, InstallSnapshotError>>,
    > {
        let own = rpc.vote;
        match self.follower.call(Request::Snapshot(rpc)).await? {
            Response::Snapshot(response) => {
                if response.vote > own {
                    self.ensure_may_depose(response.vote)?;
                }
                Ok(response)
            }
            _ => Err(self.follower.unexpected()),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        let transferred_by = self.transfer.transferred_by(rpc.vote.leader_id.term);
        // The voter writes its vote down before it answers. The candidate decides how long it waits before it stands
        // again.
        let request = Request::Vote { rpc, transferred_by };
        let Follower { client, target, member, .. } = &*self.follower;
        match client.call(*target, member, request, MESSAGE_MAX).await {
            Ok(Response::Vote(response)) => Ok(response),
            Ok(_) => Err(self.follower.unexpected()),
            Err(error) => Err(RPCError::Unreachable(Unreachable::new(&error))),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(UNREACHABLE_BACKOFF))
    }
}
