//! Judges requests, and passes each to the task or the part of the node that answers it.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::codec;
use openraft::entry::RaftPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::leader_checks::{
    KnownCommitted, check_history, check_leads, check_members, check_order,
};
use crate::bootstrap::{self, handshake, rejoin};
use crate::core::Core;
use crate::election;
use crate::error::{Delivery, ProposeError};
use crate::identity::{RequestKind, check_member, names};
use crate::membership::Membership;
use crate::message::{Answer, Change, ForwardError, Frame, Header, Refusal, Request, Response};
use crate::runtime::Pending;
use crate::transport::{FrameHandler, PROTOCOL, Peer};
use crate::types::{RaftEntry, RaftLogId, RaftVote, Types};

/// Longest wait that a peer may ask for.
const WITHIN_MAX: Duration = Duration::from_secs(10);

/// Answers the requests of peers.
pub(crate) struct RpcHandler {
    core: Arc<Core>,
    membership: Arc<Membership>,
    /// A leader's log is compared with it.
    known_committed: Mutex<KnownCommitted>,
}

impl FrameHandler for RpcHandler {
    fn handle<'a>(&'a self, _: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let (_, Frame { header, request }) =
                codec::decode(frame).map_err(|error| format!("not a frame: {error}"))?;
            if header.is_none() && !matches!(request, Request::Handshake(_)) {
                return Err("the frame has no header".to_owned());
            }
            let result = self.respond(header, request).await;
            let (from, clock_ms) = (self.core.identity.origin(), self.core.heard.own_ms());
            Ok(codec::encode(PROTOCOL, &Answer { from, clock_ms, result }))
        })
    }
}

impl RpcHandler {
    pub(crate) fn new(core: Arc<Core>, membership: Arc<Membership>) -> Self {
        Self { core, membership, known_committed: Mutex::default() }
    }

    /// Judges and answers one request.
    async fn respond(&self, header: Option<Header>, request: Request) -> Result<Response, Refusal> {
        let core = &*self.core;
        if let Some(header) = &header {
            self.admit(header, &request).await?;
        }
        let sender = header.as_ref().map(|header| header.from.node_id);
        match request {
            Request::Append(rpc) => self.append_from(sender, rpc).await,
            Request::Vote { rpc, transferred_by } => {
                self.vote_for(sender, rpc, transferred_by).await
            }
            Request::PreVote { last } => Ok(election::pre_vote(core, last)),
            Request::Snapshot(rpc) => self.install_from(sender, rpc).await,
            Request::Propose { commands, within_ms } => {
                self.check_proposer(header.as_ref())?;
                Ok(Response::Proposed(self.propose_for_peer(commands, within_ms).await))
            }
            Request::ReadIndex => Ok(Response::ReadIndex(core.read_index_as_leader().await)),
            Request::Handshake(handshake) => {
                handshake::answer(core, &handshake).map(Response::Handshake)
            }
            Request::Change(change) => {
                // A node that tells its new addresses takes itself for a member, and may have been removed.
                if let (Some(header), true) = (&header, change.is_from_member()) {
                    check_member(&core.identity.members(), &header.from)?;
                }
                self.change_for_peer(change).await
            }
            Request::Supports => Ok(Response::Supports(core.state.supports())),
            Request::TimeoutNow { from } => {
                election::timeout_now(core, sender, from).await.map(|()| Response::Done)
            }
            Request::Removed { members_index } => {
                // A notice that arrives after the node was added again is out of date.
                if core.identity.origin().members_index < Some(members_index) {
                    core.identity.stop_as_removed(members_index).await;
                }
                Ok(Response::Done)
            }
            Request::Return { vote, last_log_index } => {
                let Some(header) = header else { return Err(failed("nobody returns")) };
                rejoin::judge(core, &header.from, &vote, last_log_index)?;
                Ok(Response::Done)
            }
            Request::Ping => Ok(Response::Done),
            Request::ConfirmIncarnation { seen } => {
                let Some(header) = header else { return Err(failed("nobody vouches")) };
                core.identity.record_incarnation(Some(seen), &header.from).await?;
                Ok(Response::Done)
            }
            Request::Prepare(request) => {
                bootstrap::prepare_for_coordinator(core, header.as_ref(), request).await
            }
            Request::Abort { cluster } => {
                let Some(header) = header else { return Err(failed("nobody releases")) };
                core.identity.bootstrap().abort(cluster, header.from.store).await?;
                Ok(Response::Done)
            }
        }
    }

    /// Refuses a request whose sender is not who it has to be, and records what the header tells of the
    /// sender.
    async fn admit(&self, header: &Header, request: &Request) -> Result<(), Refusal> {
        let Core { identity, heard, .. } = &*self.core;
        identity.admit(header, kind(request)).await?;
        if relies_on_memory(request) {
            identity.check_confirmed(&header.from)?;
        }
        if identity.knows(header.from.node_id, header.from.store) {
            heard.reachability().heard(header.from.node_id);
            heard.clocks().read(header.from.node_id, header.clock_ms);
        }
        if let Some(median_ms) = header.median_ms {
            heard.clocks().read_median(median_ms);
        }
        Ok(())
    }

    async fn append_from(
        &self,
        sender: Option<u64>,
        rpc: AppendEntriesRequest<Types>,
    ) -> Result<Response, Refusal> {
        let (prev, entries) = (rpc.prev_log_id, &rpc.entries);
        let last = entries.last().map(|entry| entry.log_id).max(prev);
        check_leads(sender, &rpc.vote, last)?;
        check_order(prev, entries)?;
        entries.iter().filter_map(RaftPayload::get_membership).try_for_each(check_members)?;
        check_history(rpc.leader_commit, prev, entries)?;
        self.check_against_committed(&rpc.vote, rpc.leader_commit.min(last), prev, entries)?;
        self.hear_leader(&rpc.vote);
        let answered = self.core.raft.append_entries(rpc).await.map_err(failed)?;
        // The append may have taken as long as a sync takes, and the leader waited for it.
        if !matches!(answered, AppendEntriesResponse::HigherVote(_)) {
            self.core.heard.contact().heard_leader(Instant::now());
        }
        Ok(Response::Append(answered))
    }

    /// Counts a message against the leader's silence, unless a later leader is known.
    fn hear_leader(&self, leader: &RaftVote) {
        if *leader >= self.core.raft.metrics().borrow().vote {
            self.core.heard.contact().heard_leader(Instant::now());
        }
    }

    /// Votes, unless a leader is alive that this node follows or is (Raft thesis, 4.2.3). The voters agreed to
    /// a pre-vote before, so this concerns a leader that has been heard again since. A leader that transfers
    /// leadership wants the vote itself.
    async fn vote_for(
        &self,
        sender: Option<u64>,
        rpc: VoteRequest<u64>,
        transferred_by: Option<RaftVote>,
    ) -> Result<Response, Refusal> {
        let core = &*self.core;
        if Some(rpc.vote.leader_id.node_id) != sender {
            return Err(failed("the vote asked for is not the sender's"));
        }
        if !election::is_transfer(core, transferred_by) && !election::would_elect_another(core) {
            return Err(failed("a leader is alive"));
        }
        let answer = core.raft.vote(rpc).await.map_err(failed)?;
        if answer.vote_granted {
            core.heard.contact().voted(Instant::now());
        }
        Ok(Response::Vote(answer))
    }

    async fn install_from(
        &self,
        sender: Option<u64>,
        rpc: InstallSnapshotRequest<Types>,
    ) -> Result<Response, Refusal> {
        let reach = rpc.meta.last_log_id;
        check_leads(sender, &rpc.vote, reach)?;
        if reach.is_some() {
            check_members(rpc.meta.last_membership.membership())?;
        }
        self.check_against_committed(&rpc.vote, reach, reach, &[])?;
        self.hear_leader(&rpc.vote);
        self.core.raft.install_snapshot(rpc).await.map(Response::Snapshot).map_err(failed)
    }

    fn check_against_committed(
        &self,
        vote: &RaftVote,
        committed: Option<RaftLogId>,
        prev: Option<RaftLogId>,
        entries: &[RaftEntry],
    ) -> Result<(), Refusal> {
        let own = {
            let metrics = self.core.raft.metrics();
            let now = metrics.borrow();
            (now.last_applied, now.vote)
        };
        self.known_committed.lock().check(own, vote, committed, prev, entries)
    }

    /// Carries out what a follower's batcher has forwarded, if this node leads.
    async fn propose_for_peer(
        &self,
        commands: Vec<Vec<u8>>,
        within_ms: u64,
    ) -> Result<Vec<Vec<u8>>, ForwardError> {
        if !self.core.leads() {
            return Err(ForwardError::NotAppended);
        }
        let deadline = Instant::now() + Duration::from_millis(within_ms).min(WITHIN_MAX);
        let commands = self.core.check_commands(commands, deadline).await?;
        let proposed = self.core.propose(commands, Delivery::AtMostOnce, deadline, true).await;
        proposed.map_err(|error| match error {
            ProposeError::Unavailable(_) | ProposeError::Rejected(_) => ForwardError::NotAppended,
            ProposeError::Unknown(_) => ForwardError::Unknown,
            ProposeError::Overloaded => ForwardError::Overloaded,
        })
    }

    /// Refuses proposals of nodes that are no members. The leader's membership is the newest there is, and no
    /// node learns who leads before that membership contains it.
    fn check_proposer(&self, header: Option<&Header>) -> Result<(), Refusal> {
        let members = self.core.identity.members();
        match header {
            Some(Header { from, .. }) if names(&members, from.node_id, from.store) => Ok(()),
            _ => Err(failed("only a member's proposals are let in")),
        }
    }

    // A newcomer asks the member that it knows. Only that first request may be forwarded.
    async fn change_for_peer(&self, change: Change) -> Result<Response, Refusal> {
        let outcome = if self.core.leads() || !change.is_from_newcomer() {
            self.membership.change_as_leader(change).await
        } else {
            self.membership.change_now(change).await
        };
        Ok(Response::Changed(outcome))
    }
}

fn kind(request: &Request) -> RequestKind {
    match request {
        Request::Vote { .. } | Request::PreVote { .. } => RequestKind::Vote,
        Request::Prepare(_) | Request::Abort { .. } => RequestKind::Bootstrap,
        _ => RequestKind::Other,
    }
}

/// Whether a request relies on the sender's memory of what it acknowledged.
fn relies_on_memory(request: &Request) -> bool {
    matches!(
        request,
        Request::Append(_) | Request::Vote { .. } | Request::PreVote { .. } | Request::Snapshot(_)
    )
}

fn failed(error: impl ToString) -> Refusal {
    Refusal::Failed(error.to_string())
}
