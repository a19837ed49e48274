//! What only the leader hands out, in an order that holds over the whole cluster: ids of strict tags and numbers of
//! sequences.
//!
//! ```text
//! keys       what callers ask of sequences
//! request    what nodes ask of the leader, the outcomes, and how both travel
//! confirmed  the rule: whether a request that a round covers may get numbers from an interval
//! holdings   what this process holds: intervals of one term
//! ledger     the requests that wait, and what they can get
//! engine     the task: rounds, grabs, messages to the leader
//! ```
//!
//! Only the leader hands out ids, and only from intervals that entries of its current term reserved for this process
//! start. For each batch of requests it has a quorum confirm that it leads, in a round that begins after the requests
//! arrived. It relies on no clock and no lease for this, and hands out nothing without a quorum. Other nodes send it
//! their requests, many in one message. `raft/DESIGN.md` ("Confirmed leadership") has the argument, and
//! `leader/tests/model.rs` searches it for counterexamples.

mod confirmed;
mod engine;
mod holdings;
pub(super) mod keys;
mod ledger;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mintleaf_raft::LEADER_REQUEST_BYTES_MAX;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout_at};

pub(super) use engine::{SharedLedger, shared_ledger};
pub(super) use request::{Given, Outcome, Request, Wanted};

use mintleaf_core::shape::Line;
use mintleaf_core::tag::BizTag;

use self::engine::{Engine, FORWARDED_MAX, WaitingCaller};
use self::ledger::Batch;
use self::request::{decode, encode};
use super::error::Error;
use super::grabs::{Grabs, Refused};
use crate::limits::RANGED_IDS_MAX;
use crate::machine::clock::Clock;
use crate::metrics::Metrics;
use crate::replica::Replica;

/// Maximum number of batches that wait for the task; the node turns away any more.
const QUEUE_MAX: usize = 10_000;
/// Maximum number of requests that wait, in all batches of this node and of members; the node turns away a batch that
/// would exceed it. A request with usual names takes 250 bytes, so all of them take 50 MB.
const REQUESTS_MAX: usize = 200_000;
/// Maximum number of requests in one batch, and of their bytes: a caller with more makes several batches.
const ASKED_MAX: usize = 512;
const ASKED_BYTES_MAX: usize = 32 << 10;

/// The requests of this node that the leader answers, whichever node leads. Cheap to clone.
#[derive(Clone)]
pub(super) struct LeaderQueue {
    queue: mpsc::Sender<Batch<WaitingCaller>>,
    /// One permit for each request that may wait.
    places: Arc<Semaphore>,
    /// How many calls there were so far.
    calls: Arc<AtomicU64>,
}

/// What the task needs to start.
pub(super) struct LeaderParts {
    pub(super) replica: Arc<Replica>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) ledger: SharedLedger,
    /// Names this process start.
    pub(super) nonce: u128,
}

impl LeaderQueue {
    /// Starts the task on the current runtime.
    pub(super) fn start(parts: LeaderParts) -> (Self, JoinHandle<Result<(), JoinError>>) {
        let LeaderParts { replica, clock, metrics, ledger, nonce } = parts;
        let (queue, asked) = mpsc::channel(QUEUE_MAX);
        let leader = Self::asking_by(queue);
        let grabs = Grabs { replica: Arc::clone(&replica), metrics: Arc::clone(&metrics) };
        let engine = Engine { replica, clock, metrics, grabs, ledger, nonce };
        (leader, tokio::spawn(Arc::new(engine).run(asked)))
    }

    fn asking_by(queue: mpsc::Sender<Batch<WaitingCaller>>) -> Self {
        Self { queue, places: Arc::new(Semaphore::new(REQUESTS_MAX)), calls: Arc::default() }
    }

    /// Asks for what the requests want, and returns an outcome for each, in the same order. The requests count as
    /// having arrived when this is called: every number that they get is higher than all numbers of its line that
    /// callers had got by then. Requests for one line or key are served in order.
    ///
    /// # Errors
    /// [`Error::Overloaded`]; [`Error::Unavailable`] if no leader with a quorum answered by the deadline.
    pub(super) async fn ask(
        &self,
        requests: Vec<Request>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, Error> {
        let mut asked = Vec::with_capacity(1);
        let (call, mut rest) = (self.calls.fetch_add(1, Relaxed), requests);
        while !rest.is_empty() {
            let behind = rest.split_off(chunk(&rest));
            let first = std::mem::replace(&mut rest, behind);
            asked.push(self.send(call, first, deadline, false)?);
        }
        let mut outcomes = Vec::new();
        for answered in asked {
            match timeout_at(deadline, answered).await {
                Ok(Ok(answered)) if outcomes.is_empty() => outcomes = answered,
                Ok(Ok(answered)) => outcomes.extend(answered),
                _ => return Err(Refused::Unavailable.into()),
            }
        }
        Ok(outcomes)
    }

    fn send(
        &self,
        call: u64,
        requests: Vec<Request>,
        deadline: Instant,
        is_member: bool,
    ) -> Result<oneshot::Receiver<Vec<Outcome>>, Error> {
        let count = u32::try_from(requests.len()).map_err(|_| Error::Overloaded)?;
        let places = Arc::clone(&self.places).try_acquire_many_owned(count);
        let places = places.map_err(|_| Error::Overloaded)?;
        let (answer, answered) = oneshot::channel();
        let batch = Batch::new(
            WaitingCaller { answer, deadline, is_member, _places: places },
            call,
            requests,
        );
        self.queue.try_send(batch).map_err(|_| Error::Overloaded)?;
        Ok(answered)
    }

    /// Answers what another member asks of this node as the leader; `None` where there is no answer.
    ///
    /// The member has checked its own copy, which may not show a freeze yet that its requester was already told of. As
    /// the leader, this node has applied every change that it reported as done. So it refuses the tags that `is_frozen`
    /// knows of before it gives away anything that it holds. A leader that was just elected holds nothing, and whatever
    /// it grabs comes after the freeze in the log.
    pub(super) async fn answer_member(
        &self,
        request: &[u8],
        deadline: Instant,
        is_frozen: impl Fn(&BizTag) -> bool,
    ) -> Option<Vec<u8>> {
        let mut requests: Vec<Request> = decode(request)?;
        if requests.len() > FORWARDED_MAX || !requests.iter().all(is_within_bounds) {
            return None;
        }
        let refuses = |request: &Request| request.wanted.count() > 0 && is_frozen(&request.tag);
        let refused: Vec<bool> = requests.iter().map(refuses).collect();
        let mut refused_next = refused.iter();
        requests.retain(|_| refused_next.next() != Some(&true));
        // The leader does not keep the member's calls apart: it answers their requests for one line in turn.
        let (count, call) = (requests.len(), self.calls.fetch_add(1, Relaxed));
        let answered = match count {
            0 => Vec::new(),
            _ => match self.send(call, requests, deadline, true) {
                Ok(answered) => answered.await.ok()?,
                // The callers get the refusal at once. Without an answer, the member would ask again until their
                // deadlines.
                Err(_) => vec![Err(Refused::Overloaded); count],
            },
        };
        let mut answered = answered.into_iter();
        let outcomes = refused.into_iter().map(|refused| match refused {
            true => Some(Err(Refused::Frozen)),
            false => answered.next(),
        });
        let outcomes: Vec<Outcome> = outcomes.collect::<Option<_>>()?;
        Some(encode(&outcomes)).filter(|answer| answer.len() <= LEADER_REQUEST_BYTES_MAX)
    }
}

/// How many requests at the head of a list make one batch: at least one.
fn chunk(requests: &[Request]) -> usize {
    let mut bytes = 0;
    let fitting = requests.iter().take(ASKED_MAX).take_while(|request| {
        bytes += request.bytes_max();
        bytes <= ASKED_BYTES_MAX
    });
    fitting.count().max(1).min(requests.len())
}

/// Whether a member may ask for this. A grab of a line that no tag can have would fail, along with all grabs proposed
/// together with it.
fn is_within_bounds(request: &Request) -> bool {
    match &request.wanted {
        Wanted::Ids { line, count, contiguous: _ } => {
            let is_of_ids = line.is_sound() && !matches!(line, Line::Section(_));
            is_of_ids && (1..=RANGED_IDS_MAX).contains(count)
        }
        Wanted::Numbers { count, key: _ } => (1..=RANGED_IDS_MAX).contains(count),
        Wanted::Last { key: _ } => true,
    }
}
