//! Batches proposals: many proposals share one log entry (Raft thesis, 10.2.2).
//!
//! openraft 0.9 syncs once per proposal. So one task per node gathers the queued proposals into a batch, and gathers the
//! next only while fewer than [`batches_max`] are under way. Batches grow with the load, and a lone proposal never waits
//! for company. The leader turns a batch into one log entry; any other node sends the batch to the leader as one
//! message.
//!
//! The fate of a batch is unknown if its answer was lost, or if the leader changed while it was under way. Such a
//! batch is proposed again only for proposals that allow it. A grab that happens twice wastes an interval, which the
//! safety argument permits. An administrator's change must not be applied twice.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{ClientWriteError, RaftError};
use openraft::metrics::RaftServerMetrics;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use crate::client::CallError;
use crate::core::{Core, Proposal};
use crate::error::{Delivery, ProposeError};
use crate::estimate::{Estimate, overdue};
use crate::message::{ForwardError, RefusedCommand, Request, Response};
use crate::runtime::in_process;
use crate::types::bounds::{BATCH_BYTES_MAX, COMMANDS_MAX};
use crate::types::{Batch, Member, NamesLeader};

/// Maximum number of waiting proposals; the node refuses one more as overload.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Pause before the first retry of a batch. It doubles with every attempt, up to [`RETRY_INTERVAL_MAX`]: an election
/// takes half a second, and until it is over every attempt fails and costs as much as a commit. The pause ends at
/// once when another leader is known.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
const RETRY_INTERVAL_MAX: Duration = Duration::from_millis(160);
/// A deposed leader gets this long to report the outcome of a batch.
const LAST_ANSWER_MAX: Duration = Duration::from_millis(50);
/// How long one attempt may take, so that a hung leader does not hold a batch until its deadline. If recent attempts
/// were slow, the limit is three times their usual upper bound.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1500);
/// An attempt gets more time than this only if the present state of links and disks explains it.
const UNEXPLAINED_MAX: Duration = Duration::from_secs(3);

/// The outcome of an attempt.
enum Attempt {
    Applied(Vec<Vec<u8>>),
    /// The batch is certainly not in the log.
    NotAppended(String),
    /// The batch may be in the log, now or later.
    Unknown(String),
    /// The attempt ran out of time. The batch may be in the log, now or later.
    Overdue,
    /// The leader is overloaded; the batch is certainly not in the log.
    Overloaded,
    /// The leader refuses these commands of the batch, and none of the batch is in the log.
    Refused(Vec<RefusedCommand>),
}

/// Proposals that wait for their turn.
struct Backlog {
    queue: mpsc::Receiver<Proposal>,
    /// Proposals that were taken out of the queue but not carried yet; they come first.
    held: VecDeque<Proposal>,
}

/// What the batches of a node share.
#[derive(Default)]
struct Shared {
    /// How long recent attempts took.
    pace: Mutex<Estimate>,
    /// Held while a batch is appended. A node that comes to lead may carry two.
    append: tokio::sync::Mutex<()>,
}

impl Backlog {
    async fn next(&mut self) -> Option<Proposal> {
        match self.held.pop_front() {
            Some(proposal) => Some(proposal),
            None => self.queue.recv().await,
        }
    }

    fn try_next(&mut self) -> Option<Proposal> {
        self.held.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    /// While the future is polled and this node does not lead, refuses proposals that other nodes forwarded to this one,
    /// and holds this node's own. A node that does not lead carries no proposals for others: the leader that it forwards
    /// to may itself be waiting for its answer. That happens between a leader that has just transferred leadership and
    /// its successor.
    async fn refuse_as_leader_meanwhile(&mut self, core: &Core) {
        let me = Some(core.identity.node_id());
        let _ = core.raft.server_metrics().wait_for(|now| now.leader() != me).await;
        while self.held.len() < QUEUE_MAX
            && let Some(proposal) = self.queue.recv().await
        {
            self.held.extend(refuse_as_leader(vec![proposal]));
        }
        std::future::pending::<()>().await;
    }
}

/// Gathers and carries proposals until the queue closes.
pub(crate) async fn run(core: Arc<Core>, queue: mpsc::Receiver<Proposal>) {
    let mut backlog = Backlog { queue, held: VecDeque::new() };
    let (shared, mut carried) = (Arc::new(Shared::default()), JoinSet::new());
    while let Some(first) = backlog.next().await {
        // One timer, or one read of a connection, may wake many tasks that propose: the others get their turn first.
        yield_now().await;
        let batch = gather(first, &mut backlog);
        let (core_of_batch, shared) = (Arc::clone(&core), Arc::clone(&shared));
        carried.spawn(in_process(async move { carry(&core_of_batch, batch, &shared).await }));
        while carried.len() >= batches_max(&core) {
            tokio::select! {
                Some(ended) = carried.join_next() => propagate_panic(ended),
                () = backlog.refuse_as_leader_meanwhile(&core) => unreachable!("never resolves"),
            }
        }
    }
    while let Some(ended) = carried.join_next().await {
        propagate_panic(ended);
    }
}

/// How many batches a node carries at a time. A leader appends one, and what arrives meanwhile shares the next entry. The
/// batch of another node waits at the leader while an entry is committed. With only one batch under way, a proposal that
/// arrives then would miss the next entry as well.
fn batches_max(core: &Core) -> usize {
    if core.leads() { 1 } else { 2 }
}

/// A panic stops the node, as one of the task that gathers would.
fn propagate_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// Takes the proposals that wait, up to the bounds of one entry.
fn gather(first: Proposal, backlog: &mut Backlog) -> Vec<Proposal> {
    let (mut commands, mut bytes) = (first.commands.len(), first.commands.bytes());
    let mut batch = vec![first];
    while let Some(proposal) = backlog.try_next() {
        commands += proposal.commands.len();
        bytes += proposal.commands.bytes();
        if commands > COMMANDS_MAX || bytes > BATCH_BYTES_MAX {
            backlog.held.push_front(proposal);
            break;
        }
        batch.push(proposal);
    }
    batch
}

/// Retries until every proposal of the batch is settled, at the latest at the proposals' deadlines.
async fn carry(core: &Core, mut batch: Vec<Proposal>, shared: &Shared) {
    let mut last_trouble = "no leader is known".to_owned();
    let mut pause = RETRY_INTERVAL;
    loop {
        batch = drop_expired(batch, &last_trouble);
        let leader = core.leader();
        if leader != Some(core.identity.node_id()) {
            batch = refuse_as_leader(batch);
        }
        if batch.is_empty() {
            return;
        }
        let began = Instant::now();
        let attempt = attempt(core, leader, &batch, shared).await;
        // An attempt that ran out of time is a measurement too: the next one gets more.
        if matches!(attempt, Attempt::Applied(_) | Attempt::Overdue) {
            shared.pace.lock().record(began.elapsed());
        }
        match attempt {
            Attempt::Applied(replies) => return settle_all(batch, replies),
            Attempt::NotAppended(trouble) => {
                last_trouble = trouble;
                // The nodes that forwarded such proposals get this answer before they know of another leader. So they
                // can tell that nothing was appended.
                batch = refuse_as_leader(batch);
            }
            Attempt::Overloaded => return fail_all(batch, &ProposeError::Overloaded),
            Attempt::Refused(refused) => {
                let before = batch.len();
                batch = settle_refused(batch, &refused);
                if batch.len() < before {
                    continue; // The rest is tried at once.
                }
                last_trouble = "the leader refused commands that were not proposed".to_owned();
            }
            Attempt::Unknown(trouble) => {
                batch = settle_unknown(batch, &trouble);
                last_trouble = trouble;
            }
            Attempt::Overdue => {
                last_trouble = "no quorum confirmed it in time".to_owned();
                batch = settle_unknown(batch, &last_trouble);
            }
        }
        wait_for_another(core, leader, retry_at(&batch, pause)).await;
        pause = RETRY_INTERVAL_MAX.min(2 * pause);
    }
}

fn drop_expired(batch: Vec<Proposal>, trouble: &str) -> Vec<Proposal> {
    let now = Instant::now();
    let (late, live): (Vec<_>, Vec<_>) = batch.into_iter().partition(|p| p.deadline <= now);
    fail_all(late, &ProposeError::Unavailable(trouble.to_owned()));
    live
}

/// Refuses the proposals that only a leader may carry: those forwarded by other nodes, and this node's own with
/// `Delivery::AsLeader`. Returns the rest. A proposal is forwarded at most once, so two nodes that each take the
/// other for the leader cannot bounce it back and forth. Its sender tries again.
fn refuse_as_leader(batch: Vec<Proposal>) -> Vec<Proposal> {
    let only_as_leader = |p: &Proposal| p.forwarded || p.delivery == Delivery::AsLeader;
    let (refused, rest): (Vec<_>, Vec<_>) = batch.into_iter().partition(only_as_leader);
    fail_all(refused, &ProposeError::Unavailable("this node does not lead".to_owned()));
    rest
}

fn settle_unknown(batch: Vec<Proposal>, trouble: &str) -> Vec<Proposal> {
    let (again, never): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|p| p.delivery == Delivery::AtLeastOnce && !p.forwarded);
    fail_all(never, &ProposeError::Unknown(trouble.to_owned()));
    again
}

/// Answers the proposals whose commands the leader refuses, and returns the others.
fn settle_refused(batch: Vec<Proposal>, refused: &[RefusedCommand]) -> Vec<Proposal> {
    let mut first = 0;
    let mut rest = Vec::with_capacity(batch.len());
    for proposal in batch {
        let own = first..first + proposal.commands.len();
        first = own.end;
        let is_own = |at: u32| usize::try_from(at).is_ok_and(|at| own.contains(&at));
        match refused.iter().find(|refused| is_own(refused.at)) {
            Some(RefusedCommand { why, .. }) => {
                proposal.settle(Err(ProposeError::Rejected(why.clone())));
            }
            None => rest.push(proposal),
        }
    }
    rest
}

fn fail_all(batch: Vec<Proposal>, error: &ProposeError) {
    for proposal in batch {
        proposal.settle(Err(error.clone()));
    }
}

fn settle_all(batch: Vec<Proposal>, replies: Vec<Vec<u8>>) {
    let commands: usize = batch.iter().map(|proposal| proposal.commands.len()).sum();
    assert_eq!(commands, replies.len(), "every command has one reply");
    let mut replies = replies.into_iter();
    for proposal in batch {
        let own = replies.by_ref().take(proposal.commands.len()).collect();
        proposal.settle(Ok(own));
    }
}

/// The time of the next attempt: after a pause, and not later than the first deadline.
fn retry_at(batch: &[Proposal], pause: Duration) -> Instant {
    let first = batch.iter().map(|proposal| proposal.deadline).min();
    let retry = Instant::now() + pause;
    first.map_or(retry, |first| first.min(retry))
}

/// Waits until a leader other than the one that was tried is known, or until the given time.
async fn wait_for_another(core: &Core, tried: Option<u64>, until: Instant) {
    let mut metrics = core.raft.server_metrics();
    let another = |id| Some(id) != tried;
    let changed = async {
        // Once openraft has ended, no change can come. Only the pause is left.
        if metrics.wait_for(|now| now.leader().is_some_and(another)).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let _ = timeout_at(until, changed).await;
}

/// One attempt to carry a batch, by the leader that this node knows.
async fn attempt(core: &Core, leader: Option<u64>, batch: &[Proposal], shared: &Shared) -> Attempt {
    let Some(leader) = leader else {
        return Attempt::NotAppended("no leader is known".to_owned());
    };
    let (began, usual) = (Instant::now(), shared.pace.lock().bound());
    let latest = batch.iter().map(|proposal| proposal.deadline).max().unwrap_or(began);
    let explained = || core.proposal_time().unwrap_or_default();
    let deadline = || latest.min(began + attempt_max(usual, explained()));
    let carried = async {
        if leader == core.identity.node_id() {
            let _turn = shared.append.lock().await;
            return append(core, batch).await;
        }
        forward(core, leader, batch, deadline()).await
    };
    tokio::select! {
        // First, because a call that timed out is overdue as well.
        biased;
        () = overdue(deadline) => Attempt::Overdue,
        attempt = carried => attempt,
    }
}

/// How long an attempt may take. Recent batches usually took up to `usual`, but the cause may be gone. So an attempt
/// also ends once it has taken much longer than `explained`, the time that present links and disks account for. It gets
/// twice that time at least, because a batch waits at the leader until the batch before it is committed.
fn attempt_max(usual: Duration, explained: Duration) -> Duration {
    let at_least = ATTEMPT_TIMEOUT.max(2 * explained);
    (3 * usual).clamp(at_least, UNEXPLAINED_MAX.max(4 * explained))
}

fn commands_of(batch: &[Proposal]) -> Vec<Vec<u8>> {
    batch.iter().flat_map(|proposal| proposal.commands.iter().cloned()).collect()
}

/// Appends a batch on this node, which leads as far as it knows.
async fn append(core: &Core, batch: &[Proposal]) -> Attempt {
    // The node appends one batch at a time, so only a transfer can hold the lock.
    let Some(_turn) = core.transfer.try_lock_appends() else {
        return Attempt::NotAppended("leadership is being handed over".to_owned());
    };
    if !core.leads() {
        return Attempt::NotAppended("leadership was handed over".to_owned());
    }
    let entry = Batch { now_ms: core.heard.median_ms(), commands: commands_of(batch) };
    match core.raft.client_write(entry).await {
        Ok(written) => Attempt::Applied(written.data.0),
        // Leadership may have been lost before or after the entry was appended.
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
            Attempt::Unknown("leadership was lost".to_owned())
        }
        Err(error) => Attempt::Unknown(error.to_string()),
    }
}

/// Forwards a batch to the leader; gives up early if another leader appears.
async fn forward(core: &Core, leader: u64, batch: &[Proposal], until: Instant) -> Attempt {
    let Some(member) = core.member(leader) else {
        return Attempt::NotAppended("the leader's address is not known".to_owned());
    };
    let term = core.vote().leader_id.term;
    tokio::select! {
        attempt = call_leader(core, leader, &member, batch, until) => attempt,
        () = deposed(core, (leader, term)) => Attempt::Unknown("the leader changed".to_owned()),
    }
}

/// Resolves shortly after another leader is known, or the same one in a later term: it has restarted or lost its
/// quorum meanwhile, and may never have got the batch. A leader that transferred leadership answers at once that it
/// appended nothing, and the new leader's first message may overtake that answer.
async fn deposed(core: &Core, (leader, term): (u64, u64)) {
    let mut metrics = core.raft.server_metrics();
    let is_another = |now: &RaftServerMetrics<u64, Member>| {
        now.leader().is_some_and(|current| current != leader || now.vote.leader_id.term != term)
    };
    let _ = metrics.wait_for(is_another).await;
    tokio::time::sleep(LAST_ANSWER_MAX).await;
}

/// Sends a batch to the leader and waits for the answer.
async fn call_leader(
    core: &Core,
    leader: u64,
    member: &Member,
    batch: &[Proposal],
    until: Instant,
) -> Attempt {
    let within = until.saturating_duration_since(Instant::now());
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let commands: usize = batch.iter().map(|proposal| proposal.commands.len()).sum();
    let request = Request::Propose { commands: commands_of(batch), within_ms };
    match core.client.call(leader, member, request, within).await {
        Ok(Response::Proposed(Ok(replies))) if replies.len() == commands => {
            Attempt::Applied(replies)
        }
        Ok(Response::Proposed(Err(ForwardError::NotAppended))) => {
            Attempt::NotAppended(format!("node {leader} does not lead any more"))
        }
        Ok(Response::Proposed(Err(ForwardError::Overloaded))) => Attempt::Overloaded,
        Ok(Response::Proposed(Err(ForwardError::Refused(refused)))) => Attempt::Refused(refused),
        Ok(_) => Attempt::Unknown(format!("node {leader} could not carry it through")),
        Err(error @ (CallError::Lost { .. } | CallError::Discounted { .. })) => {
            Attempt::Unknown(error.to_string())
        }
        Err(error) => Attempt::NotAppended(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_slow_links_and_disks_explain_an_attempt_of_more_than_three_seconds() {
        assert_eq!(attempt_max(4 * SECOND / 5, SECOND / 1_000), 12 * SECOND / 5);
        assert_eq!(attempt_max(10 * SECOND, SECOND / 1_000), UNEXPLAINED_MAX);
        assert_eq!(attempt_max(10 * SECOND, 5 * SECOND), 20 * SECOND);
        assert_eq!(attempt_max(20 * SECOND, 15 * SECOND), 60 * SECOND);
    }

    #[test]
    fn a_first_attempt_gets_the_time_of_the_batch_before_it_as_well() {
        assert_eq!(attempt_max(Duration::ZERO, SECOND / 1_000), ATTEMPT_TIMEOUT);
        assert_eq!(attempt_max(Duration::ZERO, 5 * SECOND), 10 * SECOND);
    }
}
