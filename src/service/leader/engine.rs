//! The task of strict order. On the leader it confirms leadership, grabs, and hands out; on any other node it sends
//! requests to the leader.
//!
//! One round is in flight at a time, and counts for every request that came before it began. Requests that come during
//! it wait for the next round. So a lone caller waits for one round, and many callers share one.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::sequence::Counters;
use mintleaf_core::shape::Leadership;
use mintleaf_core::state::Command;
use mintleaf_raft::{AskError, LEADER_REQUEST_BYTES_MAX, NotConfirmed, overdue};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::holdings::Grab;
use super::ledger::{Batch, Ledger};
use super::request::{Outcome, Request, decode, encode};
use crate::limits::GRAB_MAX;
use crate::machine::clock::Clock;
use crate::metrics::{LeaderMessage, Metrics};
use crate::replica::{COMMANDS_MAX, Replica};
use crate::service::grabs::{Grabs, Granted, Proposer, Refused};
use crate::service::readiness::QuorumLoss;

/// While this many requests wait in the ledger, new ones wait in the queue, which is bounded too.
const WAITING_MAX: usize = 50_000;
/// Maximum number of messages to the leader in flight. The leader answers each after a round, so with two of them one
/// is always on its way.
const FORWARDS_MAX: usize = 2;
/// Maximum number of requests in one message to the leader.
pub(super) const FORWARDED_MAX: usize = 2_048;
/// Maximum size of a message to the leader: less than `raft/` carries, because the answer may be a little longer.
const FORWARDED_BYTES_MAX: usize = LEADER_REQUEST_BYTES_MAX - (32 << 10);
/// Maximum number of proposals of grabs in flight; a leader appends one batch at a time.
const PROPOSALS_MAX: usize = 2;
/// Pause after a round, a grab or a message that failed. It ends at once when another leader is known.
const RETRY_INTERVAL: Duration = Duration::from_millis(15);
/// How often the task drops requests that have no waiting caller any more, and checks whether there is a quorum at all.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A leader that was deposed gets this long to answer what it was asked.
const LAST_ANSWER_MAX: Duration = Duration::from_millis(50);

/// The caller that waits for the outcomes of a batch.
pub(in crate::service) struct WaitingCaller {
    pub(super) answer: oneshot::Sender<Vec<Outcome>>,
    pub(super) deadline: Instant,
    /// Whether the caller is another node, which took this one for the leader. It gets no outcomes if this node does
    /// not lead.
    pub(super) is_member: bool,
    /// The permits of the requests, one for each that may wait. They are given back with the answer.
    pub(super) _places: OwnedSemaphorePermit,
}

/// What this process holds and what callers wait for, shared with the listener of the log.
pub(in crate::service) type SharedLedger = Arc<Mutex<Ledger<WaitingCaller>>>;

/// A ledger that holds nothing, and has no requests.
pub(in crate::service) fn shared_ledger(counters: Counters) -> SharedLedger {
    Arc::new(Mutex::new(Ledger::new(counters)))
}

/// The leader, as far as this node knows.
type Leader = Option<u64>;

pub(super) struct Engine {
    pub(super) replica: Arc<Replica>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) grabs: Grabs,
    pub(super) ledger: SharedLedger,
    /// Names this process start.
    pub(super) nonce: u128,
}

/// The outcome of work that the task has spawned.
enum Ended {
    /// A round, and the seconds it took.
    Round(Result<u64, NotConfirmed>, f64),
    Grabbed(Vec<(u64, Granted)>),
    Forwarded(Vec<Batch<WaitingCaller>>, Result<Vec<Outcome>, AskError>),
}

/// The work that was spawned and has not ended.
struct Underway {
    work: JoinSet<Ended>,
    proposals: usize,
    forwards: usize,
    /// Whether the ledger may hold batches of members.
    members_ask: bool,
    /// Nothing more is spawned before this time.
    not_before: Instant,
    look_at: Instant,
}

impl Engine {
    /// Runs until the task is aborted, or until no caller is left that could ask.
    ///
    /// # Errors
    /// When one of its parts met a broken invariant; the node must stop then.
    pub(super) async fn run(
        self: Arc<Self>,
        mut queue: mpsc::Receiver<Batch<WaitingCaller>>,
    ) -> Result<(), JoinError> {
        let mut underway = Underway {
            work: JoinSet::new(),
            proposals: 0,
            forwards: 0,
            members_ask: false,
            not_before: Instant::now(),
            look_at: Instant::now(),
        };
        // Until then, the node may not have heard from the other members yet.
        let all_heard_by = Instant::now() + GRAB_MAX;
        let mut enqueue = Vec::new();
        loop {
            let leader = self.replica.node().leader_id();
            let now = Instant::now();
            self.begin(leader, now, &mut underway);
            if underway.look_at <= now {
                self.look(now, now >= all_heard_by);
                underway.look_at = now + LOOK_INTERVAL;
            }
            let (waiting, look) = (self.ledger.lock().waiting(), underway.look_at);
            let next = if underway.not_before > now { underway.not_before.min(look) } else { look };
            tokio::select! {
                biased;
                Some(ended) = underway.work.join_next() => self.end(ended?, &mut underway),
                received = queue.recv_many(&mut enqueue, WAITING_MAX), if waiting < WAITING_MAX => {
                    if received == 0 {
                        return Ok(());
                    }
                    underway.members_ask |= enqueue.iter().any(|batch| batch.caller.is_member);
                    let mut ledger = self.ledger.lock();
                    enqueue.drain(..).for_each(|batch| ledger.enqueue(batch));
                }
                () = self.replica.node().leader_other_than(leader) => {
                    underway.not_before = Instant::now();
                }
                () = sleep_until(next), if waiting > 0 => {}
            }
        }
    }

    /// Drops the requests that have no waiting caller any more. If there clearly is no quorum, also answers the other
    /// requests of this node's callers, as unavailable: the node knows no leader, and so many voters are silent that no
    /// quorum is left, for so long that the node would have heard of a new leader by now. This affects no number that
    /// is given out: at worst, a caller has to ask again.
    fn look(&self, now: Instant, all_heard: bool) {
        if self.ledger.lock().waiting() == 0 {
            return;
        }
        let is_over = |batch: &Batch<WaitingCaller>| {
            batch.caller.deadline <= now || batch.caller.answer.is_closed()
        };
        drop(self.ledger.lock().take_if(is_over));
        if all_heard && QuorumLoss::without_leader(&self.replica.node().status()).is_some() {
            answer(self.ledger.lock().take_if(|batch| !batch.caller.is_member));
        }
    }

    fn leads(&self, leader: Leader) -> bool {
        leader == Some(self.replica.node().node_id())
    }

    /// Spawns what can begin now: on the leader a round and grabs, on any other node messages to the leader.
    fn begin(self: &Arc<Self>, leader: Leader, now: Instant, underway: &mut Underway) {
        if now < underway.not_before {
            return;
        }
        if self.leads(leader) {
            if self.ledger.lock().begin_round() {
                let engine = Arc::clone(self);
                underway.work.spawn(async move {
                    let began = Instant::now();
                    let deadline = began + engine.replica.patience(GRAB_MAX);
                    let ended = engine.replica.node().confirm_leadership(deadline).await;
                    Ended::Round(ended, began.elapsed().as_secs_f64())
                });
            }
            if underway.proposals < PROPOSALS_MAX {
                let grabs = self.ledger.lock().grabs(COMMANDS_MAX, self.clock.monotonic_ms());
                if !grabs.is_empty() {
                    underway.proposals += 1;
                    underway.work.spawn(Arc::clone(self).grab(grabs));
                }
            }
            return;
        }
        // Batches of members are not passed on to another node. The members ask again, and by then address the new
        // leader.
        if std::mem::take(&mut underway.members_ask) {
            drop(self.ledger.lock().take_if(|batch| batch.caller.is_member));
        }
        let Some(leader) = leader else { return };
        // A node that does not lead can give nothing of what it holds, and the counters of keys take memory.
        self.ledger.lock().drop_all();
        while underway.forwards < FORWARDS_MAX {
            let batch = self.next_message();
            if batch.is_empty() {
                return;
            }
            underway.forwards += 1;
            underway.work.spawn(Arc::clone(self).forward(leader, batch));
        }
    }

    /// The batches that go to the leader in one message, in order of arrival.
    fn next_message(&self) -> Vec<Batch<WaitingCaller>> {
        let (mut count, mut bytes) = (0, 0);
        self.ledger.lock().take_for_message(|batch| {
            count += batch.open_count();
            bytes += batch.open().map(Request::bytes_max).sum::<usize>();
            count <= FORWARDED_MAX && bytes <= FORWARDED_BYTES_MAX
        })
    }

    /// Takes over the outcome of work that has ended.
    fn end(&self, ended: Ended, underway: &mut Underway) {
        let again = Instant::now() + RETRY_INTERVAL;
        let now_ms = self.clock.monotonic_ms();
        match ended {
            Ended::Round(Ok(term), seconds) => {
                let mut ledger = self.ledger.lock();
                self.metrics.round_confirmed(ledger.in_round(), seconds);
                answer(ledger.round_confirmed(term, now_ms));
            }
            Ended::Round(Err(_), _) => {
                self.ledger.lock().round_failed();
                self.metrics.round_failed();
                underway.not_before = again;
            }
            Ended::Grabbed(grabbed) => {
                underway.proposals -= 1;
                let (known, unknown): (Vec<_>, Vec<_>) =
                    grabbed.into_iter().partition(|(_, granted)| granted.is_some());
                let known = known.into_iter().filter_map(|(id, granted)| Some((id, granted?)));
                let mut ledger = self.ledger.lock();
                answer(ledger.granted(known, now_ms));
                if !unknown.is_empty() {
                    ledger.grabs_failed(unknown.into_iter().map(|(id, _)| id));
                    underway.not_before = again;
                }
            }
            Ended::Forwarded(batches, answered) => {
                underway.forwards -= 1;
                if !self.answered_by_leader(batches, answered) {
                    underway.not_before = again;
                }
            }
        }
    }

    /// Passes the leader's answer to a message on to the callers. Returns false if there was no answer; the requests of
    /// the message then wait again.
    fn answered_by_leader(
        &self,
        batches: Vec<Batch<WaitingCaller>>,
        answered: Result<Vec<Outcome>, AskError>,
    ) -> bool {
        self.ledger.lock().message_ended(&batches);
        let outcome = match answered {
            Ok(outcomes) => {
                settle(batches, outcomes.into_iter());
                LeaderMessage::Answered
            }
            Err(AskError::Overloaded) => {
                settle(batches, std::iter::repeat(Err(Refused::Overloaded)));
                LeaderMessage::Overloaded
            }
            Err(_) => {
                self.ledger.lock().requeue(batches);
                LeaderMessage::Failed
            }
        };
        self.metrics.leader_asked(outcome);
        outcome != LeaderMessage::Failed
    }

    /// Reserves numbers, in the term that this node was confirmed in.
    async fn grab(self: Arc<Self>, grabs: Vec<Grab>) -> Ended {
        let node_id = self.replica.node().node_id();
        let command = |grab: &Grab| {
            let by = Leadership { node_id, nonce: self.nonce, term: grab.term };
            let (tag, size, line) = (grab.tag.clone(), grab.size, grab.line);
            Command::GrabLine { tag, size, line, by: Some(by) }
        };
        let commands: Vec<Command> = grabs.iter().map(command).collect();
        let granted = self.grabs.carry_out(&commands, Proposer::Leader).await;
        Ended::Grabbed(grabs.iter().map(|grab| grab.id).zip(granted).collect())
    }

    /// Sends a message to the leader. Gives up soon after another node is known to lead, and once the wait is longer
    /// than links and disks, now well again, can explain: a lost answer must not hold up later messages for as long as
    /// its callers would wait.
    async fn forward(self: Arc<Self>, leader: u64, batches: Vec<Batch<WaitingCaller>>) -> Ended {
        let requests: Vec<&Request> = batches.iter().flat_map(Batch::open).collect();
        let (count, message) = (requests.len(), encode(&requests));
        let latest = batches.iter().map(|batch| batch.caller.deadline).max();
        let deadline = latest.unwrap_or_else(Instant::now);
        let (node, began) = (self.replica.node(), Instant::now());
        let answer = tokio::select! {
            answer = node.ask_leader(message, deadline) => answer,
            () = overdue(|| began + self.replica.patience(GRAB_MAX)) => {
                Err(AskError::Unanswered("the leader did not answer in time".to_owned()))
            }
            () = async {
                node.leader_other_than(Some(leader)).await;
                sleep(LAST_ANSWER_MAX).await;
            } => Err(AskError::Unanswered("the leader changed".to_owned())),
        };
        let outcomes = answer.and_then(|bytes| {
            let outcomes = decode::<Vec<Outcome>>(&bytes).filter(|all| all.len() == count);
            outcomes.ok_or_else(|| AskError::Unanswered("the answer cannot be read".to_owned()))
        });
        Ended::Forwarded(batches, outcomes)
    }
}

/// Sends the callers of these batches the outcomes of their requests, in order.
fn settle(batches: Vec<Batch<WaitingCaller>>, mut outcomes: impl Iterator<Item = Outcome>) {
    answer(batches.into_iter().map(|mut batch| {
        batch.settle(&mut outcomes);
        batch
    }));
}

/// Sends callers their outcomes. If a caller gives up at this very moment, its numbers are wasted, not repeated.
fn answer(batches: impl IntoIterator<Item = Batch<WaitingCaller>>) {
    for batch in batches {
        let (caller, outcomes) = batch.finish();
        drop(caller.answer.send(outcomes));
    }
}
