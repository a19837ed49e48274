//! Judges requests, and passes each to the task or the part of the node that answers it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mintleaf_codec::{self as codec, Blob};
use openraft::entry::RaftPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::leader_checks::{
    KnownCommitted, check_history, check_leads, check_members, check_order,
};
use super::vouchers::Vouchers;
use crate::bootstrap::{self, handshake, rejoin};
use crate::core::Core;
use crate::election;
use crate::error::{Delivery, ProposeError};
use crate::identity::Speaker;
use crate::membership::Membership;
use crate::message::{
    Answer, Change, Condition, Description, ForwardError, Frame, Header, Lead, Origin, Precaution,
    Refusal, Request, Response,
};
use crate::runtime::{Pending, Spawner, to_completion};
use crate::transport::{FrameHandler, PROTOCOL, Peer};
use crate::types::{RaftEntry, RaftLogId, RaftVote, Types};

/// Longest wait that a peer may ask for. A commit takes many seconds if a sync does.
const WITHIN_MAX: Duration = Duration::from_secs(25);

/// Answers the requests of peers.
pub(crate) struct RpcHandler {
    core: Arc<Core>,
    membership: Arc<Membership>,
    /// What a leader's log is compared with.
    known_committed: Mutex<KnownCommitted>,
    vouchers: Arc<Vouchers>,
    /// How many messages of leaders are being carried out.
    writing: AtomicUsize,
    /// Held while the contents of a heartbeat are carried out.
    heartbeat: Arc<tokio::sync::Mutex<()>>,
}

/// Counts a message of a leader while it is carried out.
struct Writing<'a>(&'a AtomicUsize);

impl<'a> Writing<'a> {
    fn begin(writing: &'a AtomicUsize) -> Self {
        writing.fetch_add(1, Relaxed);
        Self(writing)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl FrameHandler for RpcHandler {
    fn is_member(&self, caller: Peer, frame: &[u8]) -> bool {
        // If nothing is proven, or a certificate names no store, the sender's claim is accepted.
        let Ok((_, Frame { header: Some(header), .. })) = codec::decode(frame) else {
            return false;
        };
        let Origin { node_id, store, .. } = header.from;
        caller.may_speak_for(node_id, store) && self.core.identity.knows(node_id, store)
    }

    fn handle<'a>(&'a self, caller: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let (_, Frame { header, request }) =
                codec::decode(frame).map_err(|error| format!("not a frame: {error}"))?;
            let sender = match (&header, &request) {
                (Some(header), _) => header.from,
                (None, Request::Handshake(handshake)) => handshake.from,
                (None, _) => return Err("the frame has no header".to_owned()),
            };
            let result = match caller.may_speak_for(sender.node_id, sender.store) {
                true => self.respond(header, request).await,
                false => Err(failed("the sender is not the node that has proved itself")),
            };
            let (from, clock_ms) = (self.core.identity.origin(), self.core.heard.own_ms());
            Ok(codec::encode(PROTOCOL, &Answer { from, clock_ms, result }))
        })
    }
}

impl RpcHandler {
    pub(crate) fn new(core: Arc<Core>, membership: Arc<Membership>) -> Self {
        let (known_committed, vouchers, writing, heartbeat) = Default::default();
        Self { core, membership, known_committed, vouchers, writing, heartbeat }
    }

    /// Answers one request, after judging its sender.
    async fn respond(&self, header: Option<Header>, request: Request) -> Result<Response, Refusal> {
        match (header, request) {
            (Some(header), request) => {
                // Counted from here on, because the first message of an incarnation waits until the incarnation is
                // recorded.
                let is_append = matches!(request, Request::Append(_));
                let _writing = is_append.then(|| Writing::begin(&self.writing));
                let is_recorded = self.admit(&header, &request).await?;
                self.carry_out(&header.from, request, is_recorded).await
            }
            (None, Request::Handshake(handshake)) => {
                handshake::answer(&self.core, &handshake).map(Response::Handshake)
            }
            (None, _) => Err(failed("the request has no sender")),
        }
    }

    /// Carries out a request that the sender may make. `is_recorded` says whether its incarnation is on disk here.
    async fn carry_out(
        &self,
        from: &Origin,
        request: Request,
        is_recorded: bool,
    ) -> Result<Response, Refusal> {
        let (core, sender) = (&*self.core, from.node_id);
        match request {
            Request::Append(rpc) => self.append_from(sender, rpc).await,
            Request::Heartbeat { lead } => self.heartbeat_from(sender, lead, is_recorded),
            Request::Vote { rpc, transferred_by } => {
                self.vote_for(sender, rpc, transferred_by).await
            }
            Request::PreVote { last } => Ok(election::pre_vote(core, last)),
            Request::Snapshot(rpc) => self.install_from(sender, rpc).await,
            Request::Propose { commands, within_ms } => {
                Ok(Response::Proposed(self.propose_for_peer(commands, within_ms).await))
            }
            Request::ReadIndex => Ok(Response::ReadIndex(core.read_index_as_leader().await)),
            Request::Ask { request, within_ms } => {
                let deadline = Instant::now() + Duration::from_millis(within_ms).min(WITHIN_MAX);
                Ok(Response::Asked(core.requests.answer(request.0, deadline).await.map(Blob)))
            }
            Request::Handshake(_) => Err(failed("a handshake has no header")),
            Request::Change(change) => {
                self.change_for_peer(from, change, Precaution::AskVoters).await
            }
            Request::ForceChange(change) => {
                self.change_for_peer(from, change, Precaution::None).await
            }
            Request::Supports => Ok(Response::Supports(core.state.supports())),
            Request::Describe => Ok(Response::Described(Description {
                release: core.state.supports(),
                zone: core.options.zone.clone(),
            })),
            Request::TimeoutNow { from } => {
                election::timeout_now(&self.core, sender, from).await.map(|()| Response::Done)
            }
            Request::Removed { members_index } => {
                if core.identity.believes_removal(from, members_index) {
                    core.identity.stop_as_removed(members_index).await;
                }
                Ok(Response::Done)
            }
            Request::Return { vote, last_log_index } => {
                rejoin::judge(core, from, &vote, last_log_index).map(|()| Response::Done)
            }
            Request::Ping => Ok(Response::Done),
            Request::ConfirmIncarnation { seen } => {
                core.identity.record_incarnation(Some(seen), from).await?;
                Ok(Response::Done)
            }
            Request::Prepare(request) => {
                bootstrap::prepare_for_coordinator(core, from, request).await
            }
            Request::Abort { cluster } => {
                core.identity.bootstrap().abort(cluster, from.store).await?;
                Ok(Response::Done)
            }
        }
    }

    /// Refuses a request whose sender is not the kind of node that may make it, and records what the header says
    /// about the sender. Clocks are taken only from members, and their median only from the leader that this node
    /// follows. Returns whether the sender's incarnation is on disk; a request that is answered from memory does not
    /// wait for that.
    async fn admit(&self, header: &Header, request: &Request) -> Result<bool, Refusal> {
        let Core { identity, heard, .. } = &*self.core;
        let Header { from, clock_ms, median_ms, .. } = *header;
        let speaker = Speaker::of(request);
        identity.admit(header, speaker).await?;
        let is_recorded = match request.is_answered_from_memory() {
            true => identity.observe_in_passing(&from)?,
            false => identity.observe_incarnation(&from, speaker).await.map(|()| true)?,
        };
        self.vouchers.check(&self.core, &from, request).await?;
        if relies_on_memory(request) {
            identity.check_confirmed(&from)?;
        }
        if identity.knows(from.node_id, from.store) {
            heard.reachability().heard(from.node_id);
            heard.clocks().read(from.node_id, clock_ms);
            let is_leader = self.core.leader() == Some(from.node_id);
            if let Some(median_ms) = median_ms.filter(|_| is_leader) {
                heard.clocks().read_median(median_ms);
            }
        }
        Ok(is_recorded)
    }

    async fn append_from(
        &self,
        sender: u64,
        rpc: AppendEntriesRequest<Types>,
    ) -> Result<Response, Refusal> {
        self.check_append(sender, &rpc)?;
        self.hear_leader(&rpc.vote);
        let answered = self.core.raft.append_entries(rpc).await.map_err(failed)?;
        // The append may have taken as long as a sync, and the leader waited for it.
        if !matches!(answered, AppendEntriesResponse::HigherVote(_)) {
            self.core.heard.contact().heard_leader(Instant::now());
        }
        Ok(Response::Append(answered))
    }

    fn check_append(&self, sender: u64, rpc: &AppendEntriesRequest<Types>) -> Result<(), Refusal> {
        let (prev, entries) = (rpc.prev_log_id, &rpc.entries);
        let last = entries.last().map(|entry| entry.log_id).max(prev);
        check_leads(sender, &rpc.vote, last)?;
        check_order(prev, entries)?;
        entries.iter().filter_map(RaftPayload::get_membership).try_for_each(check_members)?;
        check_history(rpc.leader_commit, prev, entries)?;
        self.check_against_committed(&rpc.vote, rpc.leader_commit.min(last), prev, entries)
    }

    /// Answers a heartbeat from memory. What a leader announces in it is carried out afterwards, and only if the
    /// leader's incarnation is on disk here.
    fn heartbeat_from(
        &self,
        sender: u64,
        lead: Option<Lead>,
        is_recorded: bool,
    ) -> Result<Response, Refusal> {
        if let Some(Lead { vote, matched, committed, patience_ms }) = lead {
            let (prev_log_id, leader_commit, entries) = (matched, committed, Vec::new());
            let rpc = AppendEntriesRequest { vote, prev_log_id, entries, leader_commit };
            self.check_append(sender, &rpc)?;
            self.hear_leader(&vote);
            let patience = Duration::from_millis(patience_ms);
            self.core.heard.contact().set_patience(sender, patience);
            if is_recorded {
                self.append_later(rpc);
            }
        }
        Ok(Response::Heartbeat(self.condition()))
    }

    /// Passes the contents of a heartbeat to openraft if they are new. Only one such message waits for openraft's
    /// core at a time; the next heartbeat repeats what another one would have announced.
    fn append_later(&self, rpc: AppendEntriesRequest<Types>) {
        let (vote, applied) = self.core.metrics(|now| (now.vote, now.last_applied));
        let is_news = rpc.vote > vote || rpc.vote == vote && rpc.leader_commit > applied;
        if is_news && let Ok(turn) = Arc::clone(&self.heartbeat).try_lock_owned() {
            let core = Arc::clone(&self.core);
            Spawner::current().spawn(async move {
                // The leader learns of a later vote from the answer to the heartbeat.
                let _ = core.raft.append_entries(rpc).await;
                drop(turn);
            });
        }
    }

    /// The current condition of this node.
    fn condition(&self) -> Condition {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let heard = &self.core.heard;
        Condition {
            vote: self.core.latest_vote(),
            writing: self.writing.load(Relaxed) > 0,
            sync_us: heard.syncs().lately().map(us),
            commit_us: match &self.core.transfer {
                transfer if transfer.has_declined() => Some(Condition::DECLINES),
                transfer if transfer.has_left_lately() => None,
                _ => heard.commit_bound().map(us),
            },
        }
    }

    /// Counts a message as a sign of life of the leader, unless a later leader is known.
    fn hear_leader(&self, leader: &RaftVote) {
        if *leader >= self.core.vote() {
            self.core.heard.contact().heard_leader(Instant::now());
        }
    }

    /// Votes, unless the leader that this node follows, or this node itself as leader, is alive (Raft thesis, 4.2.3).
    /// The voters agreed to a pre-vote before, so this concerns a leader that has been heard again since. A leader
    /// that transfers leadership wants the vote itself.
    async fn vote_for(
        &self,
        sender: u64,
        rpc: VoteRequest<u64>,
        transferred_by: Option<RaftVote>,
    ) -> Result<Response, Refusal> {
        let core = &*self.core;
        if rpc.vote.leader_id.node_id != sender {
            return Err(failed("the vote asked for is not the sender's"));
        }
        if !election::is_transfer(core, transferred_by) && !election::would_elect_another(core) {
            return Err(failed("a leader is alive"));
        }
        let core = Arc::clone(&self.core);
        // A candidate hangs up before a slow disk has the vote, which is given all the same. Until then this node
        // does not compete with the candidate, whose own disk may be just as slow.
        core.heard.contact().voted(Instant::now());
        let voted = to_completion(async move {
            let asked = core.given_votes.ask(rpc.vote);
            let answer = core.raft.vote(rpc).await;
            if answer.as_ref().is_ok_and(|answer| answer.vote_granted) {
                asked.given();
                core.heard.contact().voted(Instant::now());
            }
            answer
        });
        voted.await.map(Response::Vote).map_err(failed)
    }

    async fn install_from(
        &self,
        sender: u64,
        rpc: InstallSnapshotRequest<Types>,
    ) -> Result<Response, Refusal> {
        let reach = rpc.meta.last_log_id;
        check_leads(sender, &rpc.vote, reach)?;
        if reach.is_some() {
            check_members(rpc.meta.last_membership.membership())?;
        }
        self.check_against_committed(&rpc.vote, reach, reach, &[])?;
        self.hear_leader(&rpc.vote);
        let _writing = Writing::begin(&self.writing);
        self.core.raft.install_snapshot(rpc).await.map(Response::Snapshot).map_err(failed)
    }

    fn check_against_committed(
        &self,
        vote: &RaftVote,
        committed: Option<RaftLogId>,
        prev: Option<RaftLogId>,
        entries: &[RaftEntry],
    ) -> Result<(), Refusal> {
        let own = self.core.metrics(|now| (now.last_applied, now.vote));
        self.known_committed.lock().check(own, vote, committed, prev, entries)
    }

    /// Carries out proposals that a follower's batcher has forwarded, if this node leads.
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

    /// Carries a change out. If this node does not lead and the sender asks on its own behalf, passes the change on
    /// to the leader: a newcomer asks the member that it knows. A change that another node has passed on is not
    /// passed on again.
    async fn change_for_peer(
        &self,
        from: &Origin,
        change: Change,
        precaution: Precaution,
    ) -> Result<Response, Refusal> {
        let outcome = match self.core.leads() || !change.is_for(from.node_id) {
            true => self.membership.change_as_leader(change, precaution).await,
            false => self.membership.change_now(change, precaution).await,
        };
        Ok(Response::Changed(outcome))
    }
}

/// Whether a request relies on the sender's memory of what it acknowledged.
fn relies_on_memory(request: &Request) -> bool {
    matches!(
        request,
        Request::Append(_)
            | Request::Heartbeat { lead: Some(_) }
            | Request::Vote { .. }
            | Request::PreVote { .. }
            | Request::Snapshot(_)
    )
}

fn failed(error: impl ToString) -> Refusal {
    Refusal::Failed(error.to_string())
}
