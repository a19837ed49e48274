//! What the tasks of a node share: its parts, and the few operations that several tasks need. The core knows none of
//! the tasks.

mod confirm;
mod proposal;
mod quorum;
mod releases;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mintleaf_codec::Blob;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::{Client, EarlyAppends};
use crate::error::{AskError, Delivery, ProposeError, Rejected};
use crate::given_votes::GivenVotes;
use crate::identity::NodeIdentity;
use crate::leadership_transfer::LeadershipTransfer;
use crate::message::{ForwardError, RefusedCommand, Request, Response, Unasked};
use crate::options::Options;
use crate::peers::PeerObservations;
use crate::raft_storage::{LogStore, Replay};
use crate::state_machine::StateMachine;
use crate::types::{Member, NamesLeader, Raft, RaftLogId, RaftMetrics, RaftVote, read_metrics};

pub(crate) use proposal::{CheckedCommands, Proposal};
pub(crate) use releases::KnownReleases;
pub(crate) use requests::Requests;

/// A read index is requested again after this long, or after a few round trips of a slow link.
const READ_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest interval between two looks of a task on the only member of a cluster.
const LONE_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of a node that its tasks share.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) identity: Arc<NodeIdentity>,
    pub(crate) heard: Arc<PeerObservations>,
    pub(crate) client: Arc<Client>,
    pub(crate) early: Arc<EarlyAppends>,
    pub(crate) transfer: Arc<LeadershipTransfer>,
    pub(crate) given_votes: GivenVotes,
    pub(crate) raft: Raft,
    pub(crate) log: LogStore,
    pub(crate) replay: Arc<Replay>,
    pub(crate) state: Arc<dyn StateMachine>,
    /// How many times a leader took over since this node started.
    pub(crate) leader_changes: AtomicU64,
    /// What a node that belongs to no cluster yet waits for.
    pub(crate) waits_for: Mutex<Option<String>>,
    /// What the other members run.
    pub(crate) releases: KnownReleases,
    /// What other members ask this node in its role as leader.
    pub(crate) requests: Requests,
    /// The queue of the batcher.
    pub(crate) queue: mpsc::Sender<Proposal>,
    /// The internal address that this node advertises to others.
    pub(crate) advertise_raft: String,
    /// When this node opened.
    pub(crate) opened: Instant,
}

impl Core {
    /// This node as a member.
    pub(crate) fn myself(&self) -> Member {
        Member {
            raft: self.advertise_raft.clone(),
            http: self.options.advertise_http.clone(),
            store: self.identity.store(),
        }
    }

    /// When a task that looks every `interval` looks next. The intervals of such tasks are multiples of the heartbeat's
    /// and are counted from one moment, so the tasks look together: each time that a thread wakes costs more than most
    /// looks. The only member of a cluster has nothing to look at that is urgent.
    pub(crate) fn next_look(&self, interval: Duration) -> Instant {
        let is_alone = self.identity.members().nodes().count() == 1;
        let interval = if is_alone { interval.max(LONE_INTERVAL) } else { interval };
        let past = self.opened.elapsed().as_nanos() % interval.as_nanos();
        let past = Duration::from_nanos(u64::try_from(past).unwrap_or_default());
        Instant::now() + interval.saturating_sub(past)
    }

    /// The leader as far as this node knows; it may be gone by now.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.metrics(|now| now.leader())
    }

    /// The vote that this node holds: its own, or that of the candidate or leader it voted for.
    pub(crate) fn vote(&self) -> RaftVote {
        self.metrics(|now| now.vote)
    }

    /// The latest vote that this node holds, has given or may be giving.
    pub(crate) fn latest_vote(&self) -> RaftVote {
        self.given_votes.latest(self.vote())
    }

    /// Reads openraft's metrics. `read` must neither wait nor read metrics again ([`read_metrics`]).
    pub(crate) fn metrics<R>(&self, read: impl FnOnce(&RaftMetrics) -> R) -> R {
        read_metrics(&self.raft.metrics(), read)
    }

    /// Whether this node leads as far as it knows.
    pub(crate) fn leads(&self) -> bool {
        self.leader() == Some(self.identity.node_id())
    }

    /// Whether this node leads by this very vote, as far as it knows.
    pub(crate) fn leads_by(&self, vote: RaftVote) -> bool {
        let me = Some(self.identity.node_id());
        self.metrics(|now| now.leader() == me && now.vote == vote)
    }

    /// A member as the membership in effect describes it.
    pub(crate) fn member(&self, id: u64) -> Option<Member> {
        self.identity.members().membership().get_node(&id).cloned()
    }

    /// All members except this node's store.
    pub(crate) fn others(&self) -> BTreeMap<u64, Member> {
        let members = self.identity.members();
        let others = members.nodes().filter(|(_, member)| member.store != self.identity.store());
        others.map(|(id, member)| (*id, member.clone())).collect()
    }

    /// The cluster that this node has taken part in; `None` while it is new.
    pub(crate) fn cluster(&self) -> Option<u128> {
        let took_part = self.metrics(|now| now.last_log_index.is_some() || now.current_term > 0);
        if took_part { self.identity.cluster() } else { None }
    }

    /// The end of this node's log.
    pub(crate) fn last_log_id(&self) -> Option<RaftLogId> {
        self.log.last_log_id().ok().flatten()
    }

    /// Resolves once this node does not lead.
    pub(crate) async fn until_deposed(&self) {
        let me = self.identity.node_id();
        let mut metrics = self.raft.metrics();
        let _ = metrics.wait_for(|now| now.leader() != Some(me)).await;
    }

    /// Checks commands before they are appended; the error names each refused command and the reason. A command is
    /// refused as above the cluster's level only after this node has applied every entry that may have raised the
    /// level.
    pub(crate) async fn check_commands(
        &self,
        commands: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<CheckedCommands, ForwardError> {
        let is_level = |refused: &RefusedCommand| matches!(refused.why, Rejected::Level { .. });
        let commands = match CheckedCommands::check(&*self.state, commands) {
            Err((refused, commands)) if refused.iter().any(is_level) => commands,
            checked => return checked.map_err(|(refused, _)| ForwardError::Refused(refused)),
        };
        let caught_up = timeout_at(deadline, self.catch_up()).await;
        caught_up.ok().flatten().ok_or(ForwardError::NotAppended)?;
        let checked = CheckedCommands::check(&*self.state, commands);
        checked.map_err(|(refused, _)| ForwardError::Refused(refused))
    }

    /// Waits until this node has applied everything that is committed. Returns `None` if no quorum confirms the
    /// commit index.
    async fn catch_up(&self) -> Option<()> {
        let index = self.read_index().await?;
        let mut metrics = self.raft.metrics();
        let applied = metrics.wait_for(|now| now.last_applied.map(|id| id.index) >= Some(index));
        applied.await.ok().map(|_| ())
    }

    /// Passes commands to the batcher and waits for their replies until the deadline. `forwarded` is set if another
    /// node sent them.
    pub(crate) async fn propose(
        &self,
        commands: CheckedCommands,
        delivery: Delivery,
        deadline: Instant,
        forwarded: bool,
    ) -> Result<Vec<Vec<u8>>, ProposeError> {
        let (answer, answered) = oneshot::channel();
        let proposal = Proposal { commands, delivery, deadline, forwarded, answer };
        self.queue.try_send(proposal).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })?;
        // The batcher answers by the deadline. The grace period lets its answer, with the reason, arrive.
        let grace = deadline + Duration::from_millis(100);
        match timeout_at(grace, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(stopping())),
            Err(_) => Err(ProposeError::Unknown("no answer by the deadline".to_owned())),
        }
    }

    /// The log index that a read starting now must wait for (Raft thesis, 6.4). `None` means that the caller has to
    /// ask again, possibly at another node.
    pub(crate) async fn read_index(&self) -> Option<u64> {
        let leader = self.leader()?;
        if leader == self.identity.node_id() {
            return self.read_index_as_leader().await;
        }
        let member = self.member(leader)?;
        let request = Request::ReadIndex;
        match self.client.call(leader, &member, request, self.read_attempt()).await {
            Ok(Response::ReadIndex(index)) => index,
            _ => None,
        }
    }

    /// Asks the leader once, and no other node after it.
    pub(crate) async fn ask_leader(
        &self,
        request: Vec<u8>,
        deadline: Instant,
    ) -> Result<Vec<u8>, AskError> {
        let leader = self.leader().filter(|id| *id != self.identity.node_id());
        self.ask_member(leader.ok_or(AskError::NoLeader)?, request, deadline).await
    }

    /// Asks a member once.
    pub(crate) async fn ask_member(
        &self,
        id: u64,
        request: Vec<u8>,
        deadline: Instant,
    ) -> Result<Vec<u8>, AskError> {
        let unanswered = |why: &str| AskError::Unanswered(format!("node {id} {why}"));
        let member = self.member(id).ok_or_else(|| unanswered("is no member"))?;
        let within = deadline.saturating_duration_since(Instant::now());
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Ask { request: Blob(request), within_ms };
        // One call may send several messages, and each of them may take this long.
        let called = self.client.call(id, &member, request, within);
        match timeout_at(deadline, called).await {
            Ok(Ok(Response::Asked(Ok(answer)))) => Ok(answer.0),
            Ok(Ok(Response::Asked(Err(Unasked::Overloaded)))) => Err(AskError::Overloaded),
            Ok(Ok(_)) => Err(unanswered("has no answer")),
            Ok(Err(error)) => Err(AskError::Unanswered(error.to_string())),
            Err(_) => Err(unanswered("did not answer in time")),
        }
    }

    /// A time that few proposals of this node have exceeded lately until they were answered: a commit of the leader,
    /// and the way there and back. `None` while that is not known.
    pub(crate) fn proposal_time(&self) -> Option<Duration> {
        let (heard, leader) = (&self.heard, self.leader()?);
        if leader == self.identity.node_id() {
            return heard.commit_bound();
        }
        Some(heard.weather().commit(leader)? + heard.weather().round_trip(leader)?)
    }

    /// Timeout of one attempt to get a read index: the leader asks a quorum, whose disks may be busy.
    fn read_attempt(&self) -> Duration {
        READ_ATTEMPT_TIMEOUT.max(2 * self.heard.election_time())
    }

    /// The read index of this node, if a quorum confirms that it leads.
    pub(crate) async fn read_index_as_leader(&self) -> Option<u64> {
        let confirmed =
            timeout(self.read_attempt(), self.raft.get_read_log_id()).await.ok()?.ok()?;
        Some(confirmed.0?.index)
    }
}

fn stopping() -> ProposeError {
    ProposeError::Unavailable("this node is stopping".to_owned())
}
