//! Calls to peers, over pooled keep-alive connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::codec;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::wire::{Wire, WireError};
use super::{Answer, Frame, PROTOCOL, Request, Response};
use crate::guard::{Identity, Refusal};
use crate::local::Local;
use crate::starts::Start;
use crate::types::{Member, RaftLogId, RaftVote, Types};

/// How long replication leaves an unreachable peer alone before it tries again. An attempt costs more
/// than a heartbeat that arrives.
const UNREACHABLE_BACKOFF: Duration = Duration::from_millis(400);

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Not sent, or not whole: nothing happened at the other end.
    #[error("cannot reach {address}: {reason}")]
    Unreachable { address: String, reason: String },
    /// Sent, but no answer came: it may have happened.
    #[error("no answer from {address}: {reason}")]
    Lost { address: String, reason: String },
    /// Refused by the other end; nothing happened.
    #[error("refused by {address}: {refusal}")]
    Refused { address: String, refusal: Refusal },
    /// Answered by a start or a store that does not count any more: it may have happened.
    #[error("the answer of {address} does not count: {refusal}")]
    Discounted { address: String, refusal: Refusal },
}

/// Sends requests to peers and remembers who answered lately.
pub(crate) struct Client {
    local: Arc<Local>,
    wire: Arc<dyn Wire>,
    /// Where the operator says the founders are.
    listed: BTreeMap<u64, String>,
    /// When each peer last answered, or failed to.
    contacts: Mutex<BTreeMap<u64, (bool, Instant)>>,
}

impl Client {
    pub(crate) fn new(
        local: Arc<Local>,
        wire: Arc<dyn Wire>,
        listed: BTreeMap<u64, String>,
    ) -> Self {
        Self { local, wire, listed, contacts: Mutex::default() }
    }

    /// Whether the last call to this peer was answered; `None` when there was none lately.
    pub(crate) fn is_reachable(&self, node_id: u64) -> Option<bool> {
        const LATELY: Duration = Duration::from_secs(5);
        let contacts = self.contacts.lock();
        contacts.get(&node_id).filter(|(_, at)| at.elapsed() < LATELY).map(|&(reached, _)| reached)
    }

    /// Calls a member of this node's cluster, and nobody else at its address.
    pub(crate) async fn call(
        &self,
        node_id: u64,
        member: &Member,
        request: Request,
        within: Duration,
    ) -> Result<Response, CallError> {
        let Some(cluster) = self.local.cluster() else {
            let reason = "this node belongs to no cluster yet".to_owned();
            return Err(CallError::Unreachable { address: member.raft.clone(), reason });
        };
        self.call_as(cluster, node_id, member, request, within).await
    }

    /// Calls a member of a cluster that this node may not belong to yet.
    pub(crate) async fn call_as(
        &self,
        cluster: u128,
        node_id: u64,
        member: &Member,
        request: Request,
        within: Duration,
    ) -> Result<Response, CallError> {
        let header = self.local.header(cluster, node_id, member);
        let told = header.to.start_seen;
        let frame = Frame { header: Some(header), request };
        let mut address = &member.raft;
        let mut result = self.send(address, &frame, within).await;
        if let Err(CallError::Unreachable { .. }) = result
            && let Some(listed) = self.listed.get(&node_id).filter(|listed| *listed != address)
        {
            // The whole cluster may have moved: then only what the operator says is up to date.
            address = listed;
            result = self.send(address, &frame, within).await;
        }
        if let Err(CallError::Refused { refusal: Refusal::Restarted { seen }, .. }) = result
            && !self.local.is_belied(seen).await
        {
            let vouch = Frame { header: Some(header), request: Request::Vouch { seen } };
            self.send(address, &vouch, within).await?;
            result = self.send(address, &frame, within).await;
        }
        let reached = matches!(&result, Ok(_) | Err(CallError::Refused { .. }));
        self.contacts.lock().insert(node_id, (reached, Instant::now()));
        let (from, response) = result?;
        self.check_answer(member, told, from)
            .await
            .map_err(|refusal| CallError::Discounted { address: address.clone(), refusal })?;
        Ok(response)
    }

    /// Introduces this node to whoever listens at an address.
    pub(crate) async fn hello(
        &self,
        address: &str,
        hello: Request,
        within: Duration,
    ) -> Result<(Identity, Response), CallError> {
        self.send(address, &Frame { header: None, request: hello }, within).await
    }

    // An answer from an older copy of a peer's store must not count either.
    async fn check_answer(
        &self,
        member: &Member,
        told: Option<Start>,
        from: Identity,
    ) -> Result<(), Refusal> {
        if from.store != member.store {
            return Err(Refusal::WrongStore);
        }
        self.local.note(told, &from).await
    }

    async fn send(
        &self,
        address: &str,
        frame: &Frame,
        within: Duration,
    ) -> Result<(Identity, Response), CallError> {
        let lost = |reason: String| CallError::Lost { address: address.to_owned(), reason };
        let answer = tokio::time::timeout(within, self.exchange(address, frame));
        let answer = answer.await.map_err(|_| lost(format!("timed out after {within:?}")))??;
        // Only members know each other's clocks; a stranger's must not pass for one of them.
        if frame.header.is_some() {
            self.local.clocks().read(answer.from.node_id, answer.clock_ms);
        }
        match answer.result {
            Ok(response) => Ok((answer.from, response)),
            Err(refusal) => {
                if refusal.is_fatal() {
                    let why = format!("refused by {address}: {refusal}");
                    self.local.stop_as_refused(&refusal, why).await;
                }
                Err(CallError::Refused { address: address.to_owned(), refusal })
            }
        }
    }

    async fn exchange(&self, address: &str, frame: &Frame) -> Result<Answer, CallError> {
        let answer = self.wire.exchange(address, codec::encode(PROTOCOL, frame)).await;
        let address = address.to_owned();
        let body = answer.map_err(|error| match error {
            WireError::Unreachable(reason) => {
                CallError::Unreachable { address: address.clone(), reason }
            }
            WireError::Lost(reason) => CallError::Lost { address: address.clone(), reason },
            WireError::Refused(why) => {
                CallError::Refused { address: address.clone(), refusal: Refusal::Failed(why) }
            }
        })?;
        let decoded = codec::decode(&body).map(|(_, answer)| answer);
        decoded.map_err(|error| CallError::Lost { address, reason: error.to_string() })
    }
}

/// Makes openraft's connections to members.
pub(crate) struct NetworkFactory(pub(crate) Arc<Client>);

impl RaftNetworkFactory<Types> for NetworkFactory {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, member: &Member) -> Connection {
        let (client, member) = (Arc::clone(&self.0), member.clone());
        Connection { client, target, member, news: News::default() }
    }
}

/// openraft's way to one member.
pub(crate) struct Connection {
    client: Arc<Client>,
    target: u64,
    member: Member,
    news: News,
}

/// What a member has been told of the commit index on one connection.
///
/// openraft sends a message of its own to every follower whenever an entry is committed. That is half
/// of all messages, and nobody waits for it: who proposed is answered by the leader, a linearizable
/// read asks the leader and is told, the next entries carry the index, and so does the next heartbeat.
/// So such a message is held back once. Whatever is sent again is sent.
#[derive(Default)]
struct News {
    /// The newest commit index that arrived; `None` before any message has.
    told: Option<Option<RaftLogId>>,
    held_back: Option<RaftLogId>,
}

impl News {
    /// Whether a message says only that more is committed, and says so for the first time.
    fn can_wait(&mut self, message: &AppendEntriesRequest<Types>) -> bool {
        let committed = message.leader_commit;
        let is_news = self.told.is_some_and(|told| told < committed);
        let can_wait = message.entries.is_empty() && is_news && self.held_back != committed;
        if can_wait {
            self.held_back = committed;
        }
        can_wait
    }
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
#[error("held back: the next message says so, too")]
struct HeldBack;

/// Why a leader sends nothing for a while.
#[derive(Debug, thiserror::Error)]
#[error("no quorum answers this leader")]
struct WithoutQuorum;

/// Why an answer with a later vote does not count.
#[derive(Debug, thiserror::Error)]
#[error("a later vote of one that is no voter of the leader's membership")]
struct NoVoter;

impl Connection {
    async fn call<E: std::error::Error>(
        &self,
        request: Request,
        option: &RPCOption,
    ) -> Result<Response, RPCError<u64, Member, E>> {
        let called = self.client.call(self.target, &self.member, request, option.hard_ttl()).await;
        called.map_err(|error| match error {
            // openraft leaves an unreachable peer alone for a while, and asks again at once
            // where only the answer was late.
            CallError::Lost { .. } => RPCError::Network(NetworkError::new(&error)),
            CallError::Unreachable { .. }
            | CallError::Refused { .. }
            | CallError::Discounted { .. } => RPCError::Unreachable(Unreachable::new(&error)),
        })
    }

    /// Lets a later vote depose this leader only if it comes from a voter of its membership. A learner
    /// decides nothing, and one that was a voter in an older membership must not unseat leaders.
    fn may_depose<E: std::error::Error>(
        &self,
        vote: RaftVote,
    ) -> Result<(), RPCError<u64, Member, E>> {
        let members = self.client.local.members();
        let named = members.membership().get_node(&self.target);
        let is_voter = members.voter_ids().any(|id| id == self.target);
        if is_voter && named.is_some_and(|named| named.store == self.member.store) {
            return Ok(());
        }
        self.client.local.contact().heard_later_vote(vote, Instant::now());
        Err(RPCError::Unreachable(Unreachable::new(&NoVoter)))
    }

    fn unexpected<E: std::error::Error>(&self) -> RPCError<u64, Member, E> {
        let reason = "answered something else than was asked".to_owned();
        let error = CallError::Lost { address: self.member.raft.clone(), reason };
        RPCError::Unreachable(Unreachable::new(&error))
    }
}

impl RaftNetwork<Types> for Connection {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        if self.news.can_wait(&rpc) {
            return Err(RPCError::Network(NetworkError::new(&HeldBack)));
        }
        let (committed, term, sent) = (rpc.leader_commit, rpc.vote.leader_id.term, Instant::now());
        if !self.client.local.may_send(term, sent) {
            return Err(RPCError::Unreachable(Unreachable::new(&WithoutQuorum)));
        }
        match self.call(Request::Append(rpc), &option).await? {
            Response::Append(AppendEntriesResponse::HigherVote(vote)) => {
                self.may_depose(vote)?;
                Ok(AppendEntriesResponse::HigherVote(vote))
            }
            Response::Append(response) => {
                self.client.local.contact().acknowledged(term, self.target, sent);
                self.news.told = Some(committed);
                Ok(response)
            }
            _ => Err(self.unexpected()),
        }
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<u64>,
        RPCError<u64, Member, RaftError<u64, InstallSnapshotError>>,
    > {
        let own = rpc.vote;
        match self.call(Request::Snapshot(rpc), &option).await? {
            Response::Snapshot(response) => {
                if response.vote > own {
                    self.may_depose(response.vote)?;
                }
                Ok(response)
            }
            _ => Err(self.unexpected()),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        let handed_over_by = self.client.local.contact().handed_over_by(rpc.vote.leader_id.term);
        match self.call(Request::Vote { rpc, handed_over_by }, &option).await? {
            Response::Vote(response) => Ok(response),
            _ => Err(self.unexpected()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(UNREACHABLE_BACKOFF))
    }
}

#[cfg(test)]
mod tests {
    use openraft::{Entry, EntryPayload, LeaderId, Vote};

    use super::*;

    fn log_id(index: u64) -> RaftLogId {
        RaftLogId::new(LeaderId::new(1, 1), index)
    }

    fn message(committed: u64, entries: u64) -> AppendEntriesRequest<Types> {
        let blank = |index| Entry { log_id: log_id(index), payload: EntryPayload::Blank };
        AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: Some(log_id(committed)),
            entries: (1..=entries).map(|after| blank(committed + after)).collect(),
            leader_commit: Some(log_id(committed)),
        }
    }

    #[test]
    fn news_of_a_commit_waits_for_the_next_message_and_then_goes_out() {
        let mut news = News { told: Some(Some(log_id(5))), held_back: None };
        assert!(news.can_wait(&message(6, 0)));
        assert!(!news.can_wait(&message(6, 0)), "the heartbeat after it");
        assert!(news.can_wait(&message(7, 0)));
        assert!(!news.can_wait(&message(7, 1)), "entries");
    }

    #[test]
    fn heartbeats_without_news_and_first_messages_never_wait() {
        let mut news = News { told: Some(Some(log_id(5))), held_back: None };
        assert!(!news.can_wait(&message(5, 0)));
        assert!(
            !News::default().can_wait(&message(5, 0)),
            "a read asks on a connection of its own"
        );
    }
}
