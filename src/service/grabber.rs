//! The one task that grabs: the grabs of many tags travel together.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::segment::Segment;
use mintleaf_core::state::{Command, Response};
use mintleaf_raft::{ProposeError, StopReason};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::error::Error;
use super::slot::Slot;
use super::slot_table::SlotTable;
use crate::limits::GRAB_MAX;
use crate::metrics::{GrabOutcome, Metrics};
use crate::replica::{COMMANDS_MAX, Replica};

/// Most proposals of grabs in flight. `raft/` carries one batch of proposals at a time; proposals that arrive while it
/// is under way form the next.
const PROPOSALS_MAX: usize = 3;
/// Pause before a failed grab that a caller waits for is made again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The slots that ask for a grab. Each slot asks at most once until its grab has begun, which bounds
/// the queue.
#[derive(Clone)]
pub(super) struct GrabQueue(mpsc::UnboundedSender<Arc<Slot>>);

impl GrabQueue {
    /// Asks for a grab. The queue closes only when the node stops; then a caller that waits for ids is
    /// answered at its deadline.
    #[inline]
    pub(super) fn ask(&self, slot: &Arc<Slot>) {
        let _ = self.0.send(Arc::clone(slot));
    }
}

/// The task that grabs, and that of strict order; they are aborted when this is dropped.
pub struct ServiceTask {
    pub(super) grabs: JoinHandle<Result<(), JoinError>>,
    pub(super) ordered: JoinHandle<Result<(), JoinError>>,
}

impl ServiceTask {
    /// Resolves, with the reason, when a grab has met a broken invariant: the node must not go on.
    pub async fn ended(&mut self) -> StopReason {
        let ended = tokio::select! {
            ended = &mut self.grabs => ended,
            ended = &mut self.ordered => ended,
        };
        StopReason::restart(format!("the id service has ended: {ended:?}"))
    }
}

impl Drop for ServiceTask {
    fn drop(&mut self) {
        self.grabs.abort();
        self.ordered.abort();
    }
}

/// Carries out the grabs that slots ask for.
pub(super) struct Grabber {
    replica: Arc<Replica>,
    table: Arc<SlotTable>,
    metrics: Arc<Metrics>,
    again: GrabQueue,
}

impl Grabber {
    /// Starts the task on the current runtime.
    pub(super) fn start(
        replica: Arc<Replica>,
        table: Arc<SlotTable>,
        metrics: Arc<Metrics>,
    ) -> (GrabQueue, JoinHandle<Result<(), JoinError>>) {
        let (grabs, asked) = mpsc::unbounded_channel();
        let grabs = GrabQueue(grabs);
        let grabber = Self { replica, table, metrics, again: grabs.clone() };
        (grabs, tokio::spawn(Arc::new(grabber).run(asked)))
    }

    /// Runs until the task is aborted.
    ///
    /// # Errors
    /// When a grab met a broken invariant; the node must stop then.
    async fn run(
        self: Arc<Self>,
        mut asked: mpsc::UnboundedReceiver<Arc<Slot>>,
    ) -> Result<(), JoinError> {
        let mut proposals = JoinSet::new();
        let mut slots = Vec::with_capacity(COMMANDS_MAX);
        loop {
            while proposals.len() >= PROPOSALS_MAX {
                finish(proposals.join_next().await)?;
            }
            tokio::select! {
                received = asked.recv_many(&mut slots, COMMANDS_MAX) => {
                    if received == 0 {
                        return Ok(());
                    }
                    proposals.spawn(Arc::clone(&self).grab(std::mem::take(&mut slots)));
                }
                Some(ended) = proposals.join_next() => finish(Some(ended))?,
            }
        }
    }

    async fn grab(self: Arc<Self>, slots: Vec<Arc<Slot>>) {
        let (slots, commands) = self.begin(slots);
        if commands.is_empty() {
            return;
        }
        let began = Instant::now();
        // Callers wait for less; on slow disks the segment comes for the next ones.
        let deadline = began + self.replica.patience(GRAB_MAX);
        let answered = self.replica.propose_all(&commands, deadline).await;
        let seconds = began.elapsed().as_secs_f64();
        match answered {
            Ok(responses) => {
                for (slot, response) in slots.iter().zip(responses) {
                    self.settle(slot, &response, seconds);
                }
            }
            Err(error) => self.retry_later(&slots, &error, seconds).await,
        }
    }

    /// Sizes every grab by its tag's own step in this node's copy. A tag that the copy does not show
    /// yet is grabbed with size 1, which the log raises to the tag's step.
    fn begin(&self, slots: Vec<Arc<Slot>>) -> (Vec<Arc<Slot>>, Vec<Command>) {
        let mut begun = Vec::with_capacity(slots.len());
        let mut commands = Vec::with_capacity(slots.len());
        for slot in slots {
            let row = self.replica.read(|state| state.tag(slot.tag().as_str()));
            let step = row.map_or(1, |row| row.step);
            if let Some(size) = slot.begin_grab(step) {
                commands.push(slot.grab(size));
                begun.push(slot);
            }
        }
        (begun, commands)
    }

    fn settle(&self, slot: &Arc<Slot>, response: &Response, seconds: f64) {
        let outcome = match response {
            &Response::Segment { start, end, step } => {
                // This line is written before any id of the segment is handed out, so that a recorder
                // can check ids against the segments it has read.
                let (tag, period) = (slot.tag().as_str(), slot.period());
                tracing::debug!(target: "mintleaf::grants", tag, period, start, end, "segment granted");
                if slot.install(Segment { start, end }, step) {
                    self.again.ask(slot);
                }
                GrabOutcome::Granted
            }
            Response::Exhausted => {
                slot.exhausted();
                tracing::warn!(tag = slot.tag().as_str(), "a tag is used up: it has no ids left");
                GrabOutcome::Rejected
            }
            Response::Frozen => {
                slot.grab_refused(&Error::Frozen);
                GrabOutcome::Rejected
            }
            // This node's copy did not show the shape yet. The caller asks again, and finds it.
            Response::UnknownTag | Response::OtherShape => {
                self.table.forget(slot);
                GrabOutcome::Rejected
            }
            // The entry was stamped when another period was. The callers look again which one is now.
            Response::PeriodClosed => {
                self.table.drop_line(slot);
                GrabOutcome::Rejected
            }
            Response::PeriodOver { number } => {
                let period = number.0;
                slot.grab_refused(&Error::unavailable(format!(
                    "the period {period} is over for good: clocks say that it is now, and later ones were used before"
                )));
                GrabOutcome::Rejected
            }
            other => {
                self.replica.mixed_up("a grab", other);
                slot.grab_failed();
                GrabOutcome::Failed
            }
        };
        self.metrics.grab_finished(outcome, seconds);
    }

    async fn retry_later(&self, slots: &[Arc<Slot>], error: &ProposeError, seconds: f64) {
        tracing::warn!(tags = slots.len(), %error, "grab failed; handing out what is held");
        let waited_for: Vec<_> = slots.iter().filter(|slot| slot.grab_failed()).collect();
        slots.iter().for_each(|_| self.metrics.grab_finished(GrabOutcome::Failed, seconds));
        if !waited_for.is_empty() {
            sleep(RETRY_INTERVAL).await;
            waited_for.into_iter().for_each(|slot| self.again.ask(slot));
        }
    }
}

fn finish(ended: Option<Result<(), JoinError>>) -> Result<(), JoinError> {
    ended.unwrap_or(Ok(()))
}
