//! Many proposals, one log entry.
//!
//! openraft 0.9 syncs once per proposal. So one task per node gathers what is queued into one
//! batch, carries it through, and only then takes the next: batches grow by themselves with the
//! load, and a lone proposal never waits for company. On the leader a batch becomes one log entry;
//! elsewhere it travels to the leader as one message.
//!
//! A batch whose fate is unknown (the answer was lost, or the leader changed under it) is proposed
//! again only for proposals that said so: a grab that happens twice wastes an interval, which the
//! safety argument allows; an administrator's change must not be applied twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::planted;
use openraft::error::{ClientWriteError, RaftError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::error::{ProposeError, Retry};
use crate::node::Inner;
use crate::proposal::{BATCH_BYTES_MAX, COMMANDS_MAX, Checked, Refused};
use crate::transport::{CallError, Request, Response, Unproposed};
use crate::types::{Batch, Member};

/// Proposals that may wait; one more is refused as overload.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Pause before the same batch is tried again, the first time. It doubles with every attempt, up to
/// the longest: an election takes half a second, in which every attempt fails and costs as much as a
/// commit. It ends at once when another leader is known.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
const RETRY_INTERVAL_MAX: Duration = Duration::from_millis(160);
/// How long a leader that was deposed is given to say what became of a batch.
const LAST_ANSWER_MAX: Duration = Duration::from_millis(50);
/// How long one attempt may take, so that a hung leader does not hold a batch to its deadline.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Commands of one caller, kept together and in order.
pub(crate) struct Proposal {
    pub(crate) commands: Checked,
    pub(crate) retry: Retry,
    pub(crate) deadline: Instant,
    /// Sent on by another node, which decides itself where to try next.
    pub(crate) forwarded: bool,
    pub(crate) answer: oneshot::Sender<Result<Vec<Vec<u8>>, ProposeError>>,
}

impl Proposal {
    // Nobody listens any more when the caller's own deadline has passed.
    fn settle(self, result: Result<Vec<Vec<u8>>, ProposeError>) {
        let _ = self.answer.send(result);
    }
}

/// What became of an attempt.
enum Attempt {
    Applied(Vec<Vec<u8>>),
    /// Certainly not in the log.
    NotAppended(String),
    /// May be in the log, now or later.
    Unknown(String),
    /// The leader has too much to do; certainly not in the log.
    Overloaded,
    /// The leader does not let these commands of the batch into the log, and none of it is there.
    Refused(Vec<Refused>),
}

/// Proposals that wait for their turn.
struct Backlog {
    queue: mpsc::Receiver<Proposal>,
    /// Taken out of the queue, and still to be carried; they come first.
    held: VecDeque<Proposal>,
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

    /// Sends back what other nodes have sent here, for as long as this is polled. A node that does not
    /// lead carries nothing for others, and whom it waits for may be waiting for its answer: a leader
    /// that has just handed over, and its successor.
    async fn return_forwarded(&mut self) {
        while self.held.len() < QUEUE_MAX
            && let Some(proposal) = self.queue.recv().await
        {
            self.held.extend(return_forwarded(vec![proposal]));
        }
        std::future::pending::<()>().await;
    }
}

/// Gathers and carries proposals until the queue closes.
pub(crate) async fn run(inner: Arc<Inner>, queue: mpsc::Receiver<Proposal>) {
    let mut backlog = Backlog { queue, held: VecDeque::new() };
    while let Some(first) = backlog.next().await {
        let batch = gather(first, &mut backlog);
        carry(&inner, batch, &mut backlog).await;
    }
}

/// Takes what waits, up to the bounds.
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

/// Tries until every proposal of the batch is settled; deadlines bound it.
async fn carry(inner: &Inner, mut batch: Vec<Proposal>, backlog: &mut Backlog) {
    let mut last_trouble = "no leader is known".to_owned();
    let mut pause = RETRY_INTERVAL;
    loop {
        batch = drop_expired(batch, &last_trouble);
        let leader = inner.leader();
        if leader != Some(inner.local.node_id()) {
            batch = return_forwarded(batch);
        }
        if batch.is_empty() {
            return;
        }
        let attempt = match leader {
            Some(id) if id == inner.local.node_id() => append(inner, &batch).await,
            Some(id) => tokio::select! {
                attempt = forward(inner, id, &batch) => attempt,
                () = backlog.return_forwarded() => unreachable!("never resolves"),
            },
            None => Attempt::NotAppended("no leader is known".to_owned()),
        };
        match attempt {
            Attempt::Applied(replies) => return settle_all(batch, replies),
            Attempt::NotAppended(trouble) => last_trouble = trouble,
            Attempt::Overloaded => return fail_all(batch, &ProposeError::Overloaded),
            Attempt::Refused(refused) => {
                let before = batch.len();
                batch = settle_refused(batch, &refused);
                if batch.len() < before {
                    continue; // With whatever is left, at once.
                }
                last_trouble = "the leader refused something else than was proposed".to_owned();
            }
            Attempt::Unknown(trouble) => {
                batch = settle_unknown(batch, &trouble);
                last_trouble = trouble;
            }
        }
        wait_for_another(inner, leader, retry_at(&batch, pause)).await;
        pause = RETRY_INTERVAL_MAX.min(2 * pause);
    }
}

fn drop_expired(batch: Vec<Proposal>, trouble: &str) -> Vec<Proposal> {
    let now = Instant::now();
    let (late, live): (Vec<_>, Vec<_>) = batch.into_iter().partition(|p| p.deadline <= now);
    fail_all(late, &ProposeError::Unavailable(trouble.to_owned()));
    live
}

/// Only one node sends a proposal on, or two that take each other for the leader would play ball.
fn return_forwarded(batch: Vec<Proposal>) -> Vec<Proposal> {
    let (forwarded, own): (Vec<_>, Vec<_>) = batch.into_iter().partition(|p| p.forwarded);
    fail_all(forwarded, &ProposeError::Unavailable("this node does not lead".to_owned()));
    own
}

fn settle_unknown(batch: Vec<Proposal>, trouble: &str) -> Vec<Proposal> {
    let (again, never): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|p| p.retry == Retry::Always && !p.forwarded);
    fail_all(never, &ProposeError::Unknown(trouble.to_owned()));
    again
}

/// Tells those whose commands the leader does not let in, and returns their neighbours.
fn settle_refused(batch: Vec<Proposal>, refused: &[Refused]) -> Vec<Proposal> {
    let mut first = 0;
    let mut rest = Vec::with_capacity(batch.len());
    for proposal in batch {
        let own = first..first + proposal.commands.len();
        first = own.end;
        let is_own = |at: u32| usize::try_from(at).is_ok_and(|at| own.contains(&at));
        match refused.iter().find(|refused| is_own(refused.at)) {
            Some(Refused { why, .. }) => proposal.settle(Err(ProposeError::Rejected(why.clone()))),
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

fn settle_all(batch: Vec<Proposal>, mut replies: Vec<Vec<u8>>) {
    let commands: usize = batch.iter().map(|proposal| proposal.commands.len()).sum();
    assert_eq!(commands, replies.len(), "every command has one reply");
    if planted("replies-swapped") {
        replies.reverse();
    }
    let mut replies = replies.into_iter();
    for proposal in batch {
        let rest = if planted("reply-given-twice") { &mut replies.clone() } else { &mut replies };
        let own = rest.take(proposal.commands.len()).collect();
        proposal.settle(Ok(own));
    }
}

/// After a pause, and not later than the first caller has to be told.
fn retry_at(batch: &[Proposal], pause: Duration) -> Instant {
    let first = batch.iter().map(|proposal| proposal.deadline).min();
    let retry = Instant::now() + pause;
    first.map_or(retry, |first| first.min(retry))
}

/// Waits until another leader is known than the one that was tried, but not for ever.
async fn wait_for_another(inner: &Inner, tried: Option<u64>, until: Instant) {
    let mut metrics = inner.raft.server_metrics();
    let another = |id| Some(id) != tried;
    let changed = async {
        // Once the core has ended there is no change to wait for, and the pause is all there is.
        if metrics.wait_for(|now| now.current_leader.is_some_and(another)).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let _ = timeout_at(until, changed).await;
}

/// How long an attempt for this batch may take.
fn attempt_deadline(batch: &[Proposal]) -> Instant {
    let latest = batch.iter().map(|proposal| proposal.deadline).max();
    let attempt = Instant::now() + ATTEMPT_TIMEOUT;
    latest.map_or(attempt, |latest| latest.min(attempt))
}

fn commands_of(batch: &[Proposal]) -> Vec<Vec<u8>> {
    batch.iter().flat_map(|proposal| proposal.commands.iter().cloned()).collect()
}

/// Proposes on this node, which leads as far as it knows.
async fn append(inner: &Inner, batch: &[Proposal]) -> Attempt {
    let deadline = attempt_deadline(batch);
    let Ok(_turn) = timeout_at(deadline, inner.appending.lock()).await else {
        return Attempt::NotAppended("leadership is being handed over".to_owned());
    };
    if inner.leader() != Some(inner.local.node_id()) {
        return Attempt::NotAppended("leadership was handed over".to_owned());
    }
    let entry = Batch { now_ms: inner.local.median_ms(), commands: commands_of(batch) };
    match timeout_at(deadline, inner.raft.client_write(entry)).await {
        Ok(Ok(written)) => Attempt::Applied(written.data.0),
        // Leadership may have been lost before or after the entry was appended.
        Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {
            Attempt::Unknown("leadership was lost".to_owned())
        }
        Ok(Err(error)) => Attempt::Unknown(error.to_string()),
        Err(_) => Attempt::Unknown("no quorum confirmed it in time".to_owned()),
    }
}

/// Proposes through the leader; gives up early when another leader appears.
async fn forward(inner: &Inner, leader: u64, batch: &[Proposal]) -> Attempt {
    let Some(member) = inner.member(leader) else {
        return Attempt::NotAppended("the leader's address is not known".to_owned());
    };
    tokio::select! {
        attempt = send(inner, leader, &member, batch) => attempt,
        () = deposed(inner, leader) => Attempt::Unknown("the leader changed".to_owned()),
    }
}

/// Resolves a little after another leader is known. One that handed over says at once that it appended
/// nothing, which the new leader's first message may overtake.
async fn deposed(inner: &Inner, leader: u64) {
    let mut metrics = inner.raft.server_metrics();
    let another = |current| current != leader;
    let _ = metrics.wait_for(|now| now.current_leader.is_some_and(another)).await;
    tokio::time::sleep(LAST_ANSWER_MAX).await;
}

async fn send(inner: &Inner, leader: u64, member: &Member, batch: &[Proposal]) -> Attempt {
    let within = attempt_deadline(batch).saturating_duration_since(Instant::now());
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let commands: usize = batch.iter().map(|proposal| proposal.commands.len()).sum();
    let request = Request::Propose { commands: commands_of(batch), within_ms };
    match inner.client.call(leader, member, request, within).await {
        Ok(Response::Proposed(Ok(replies))) if replies.len() == commands => {
            Attempt::Applied(replies)
        }
        Ok(Response::Proposed(Err(Unproposed::NotAppended))) => {
            Attempt::NotAppended(format!("node {leader} does not lead any more"))
        }
        Ok(Response::Proposed(Err(Unproposed::Overloaded))) => Attempt::Overloaded,
        Ok(Response::Proposed(Err(Unproposed::Refused(refused)))) => Attempt::Refused(refused),
        Ok(_) => Attempt::Unknown(format!("node {leader} could not carry it through")),
        Err(error @ (CallError::Lost { .. } | CallError::Discounted { .. })) => {
            Attempt::Unknown(error.to_string())
        }
        Err(error) => Attempt::NotAppended(error.to_string()),
    }
}
