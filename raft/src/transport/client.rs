//! Calls to peers, over pooled keep-alive connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::{codec, planted};
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};

use tokio::time::Instant;

use super::wire::{Wire, WireError};
use super::{Answer, Frame, PROTOCOL, Request, Response};
use crate::guard::{Header, Identity, Refusal, Target};
use crate::local::Local;
use crate::reach::Reach;
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
    reach: Reach,
}

impl Client {
    pub(crate) fn new(
        local: Arc<Local>,
        wire: Arc<dyn Wire>,
        listed: BTreeMap<u64, String>,
    ) -> Self {
        Self { local, wire, listed, reach: Reach::default() }
    }

    /// Who showed a sign of life lately.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether this peer was heard within the last 2 s.
    pub(crate) fn is_reachable(&self, node_id: u64) -> bool {
        self.reach.is_fresh(node_id)
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
        let mut answer = self.send(address, &frame, within).await;
        if is_missed(&answer, &header.to)
            && let Some(listed) = self.listed.get(&node_id).filter(|listed| *listed != address)
        {
            // The whole cluster may have moved, maybe to each other's places: then only what the operator
            // says is up to date.
            address = listed;
            answer = self.send(address, &frame, within).await;
        }
        if let Err(CallError::Unreachable { .. }) = answer {
            self.reach.gone(node_id);
        }
        if let Ok(Answer { from, result: Err(Refusal::Restarted { seen }), .. }) = &answer
            && is_from(from, &header.to)
            && !self.local.is_belied(*seen).await
        {
            let vouch = Frame { header: Some(header), request: Request::Vouch { seen: *seen } };
            self.send(address, &vouch, within).await?;
            answer = self.send(address, &frame, within).await;
        }
        self.conclude(address, &header, told, answer?).await
    }

    /// Introduces this node to whoever listens at an address. Nothing that a stranger answers ends a node.
    pub(crate) async fn hello(
        &self,
        address: &str,
        hello: Request,
        within: Duration,
    ) -> Result<(Identity, Response), CallError> {
        let answer = self.send(address, &Frame { header: None, request: hello }, within).await?;
        match answer.result {
            Ok(response) => Ok((answer.from, response)),
            Err(refusal) => Err(CallError::Refused { address: address.to_owned(), refusal }),
        }
    }

    /// Judges who answered, and what that means here.
    async fn conclude(
        &self,
        address: &str,
        header: &Header,
        told: Option<Start>,
        answer: Answer,
    ) -> Result<Response, CallError> {
        let Answer { from, clock_ms, result } = answer;
        let address = address.to_owned();
        if is_from(&from, &header.to) {
            self.reach.heard(from.node_id);
            // Only members know each other's clocks; a stranger's must not pass for one of them.
            self.local.clocks().read(from.node_id, clock_ms);
        }
        let response = match result {
            Ok(response) => response,
            Err(refusal) => {
                if refusal.is_fatal() && self.is_from_a_member(header, &from) {
                    let why = format!("refused by node {} at {address}: {refusal}", from.node_id);
                    self.local.stop_as_refused(&refusal, why).await;
                }
                return Err(CallError::Refused { address, refusal });
            }
        };
        self.check_answer(header, told, from)
            .await
            .map_err(|refusal| CallError::Discounted { address, refusal })?;
        Ok(response)
    }

    /// Whether an answer was given by the very store that the membership names, to a message of this
    /// node's own cluster: only then it may end this node. Whoever else listens at an address knows
    /// nothing of this node, however sure it is.
    fn is_from_a_member(&self, header: &Header, from: &Identity) -> bool {
        let ours = self.local.cluster() == Some(header.cluster);
        let named = self.local.knows(from.node_id, from.store);
        ours && named && is_from(from, &header.to) || planted("refusal-of-a-stranger-believed")
    }

    // An answer from an older copy of a peer's store must not count either.
    async fn check_answer(
        &self,
        header: &Header,
        told: Option<Start>,
        from: Identity,
    ) -> Result<(), Refusal> {
        if from.store != header.to.store {
            return Err(Refusal::WrongStore);
        }
        self.local.note(told, &from).await
    }

    async fn send(
        &self,
        address: &str,
        frame: &Frame,
        within: Duration,
    ) -> Result<Answer, CallError> {
        let lost = |reason: String| CallError::Lost { address: address.to_owned(), reason };
        let answer = tokio::time::timeout(within, self.exchange(address, frame));
        answer.await.map_err(|_| lost(format!("timed out after {within:?}")))?
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

/// Whether the member that was meant does not listen at the address, whoever else does: then nothing
/// happened there.
fn is_missed(answer: &Result<Answer, CallError>, to: &Target) -> bool {
    match answer {
        Ok(answer) => answer.result.is_err() && !is_from(&answer.from, to),
        Err(error) => matches!(error, CallError::Unreachable { .. }),
    }
}

/// Whether who answered is whom a message was for.
fn is_from(from: &Identity, to: &Target) -> bool {
    (from.node_id, from.store) == (to.node_id, to.store)
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
        // A lone voter has nobody to hand over to, and is elected again at once.
        let is_alone = members.voter_ids().eq([self.client.local.node_id()]);
        let counts =
            is_alone || is_voter && named.is_some_and(|named| named.store == self.member.store);
        if counts || planted("whoever-wishes-stands") {
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
