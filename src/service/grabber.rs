//! The one task that grabs: many tags' grabs of this node travel together.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_raft::ProposeError;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

use super::slot::Slot;
use super::table::TagTable;
use crate::metrics::{GrabOutcome, Metrics};
use crate::replica::{COMMANDS_MAX, Replica};
use crate::segment::Segment;
use crate::state::{Command, Response};

/// Batches of grabs on their way at a time. The log takes one entry at a time; a second batch
/// gathers meanwhile, a third waits.
const BATCHES_MAX: usize = 3;
/// How long a grab may take before callers are told.
pub(super) const GRAB_MAX: Duration = Duration::from_secs(2);
/// Pause before a failed grab that somebody waits for is made again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Asks for a grab; each slot asks at most once until its grab has begun, which bounds the queue.
pub(super) type GrabQueue = mpsc::UnboundedSender<Arc<Slot>>;

/// Carries out the grabs that slots ask for.
pub(super) struct Grabber {
    pub(super) replica: Arc<Replica>,
    pub(super) table: Arc<TagTable>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) again: GrabQueue,
}

impl Grabber {
    /// Runs until the task is aborted.
    ///
    /// # Errors
    /// When a grab met a broken invariant; the node must stop then.
    pub(super) async fn run(
        self: Arc<Self>,
        mut asked: mpsc::UnboundedReceiver<Arc<Slot>>,
    ) -> Result<(), JoinError> {
        let mut batches = JoinSet::new();
        let mut slots = Vec::with_capacity(COMMANDS_MAX);
        loop {
            while batches.len() >= BATCHES_MAX {
                finish(batches.join_next().await)?;
            }
            tokio::select! {
                received = asked.recv_many(&mut slots, COMMANDS_MAX) => {
                    if received == 0 {
                        return Ok(());
                    }
                    batches.spawn(Arc::clone(&self).grab(std::mem::take(&mut slots)));
                }
                Some(ended) = batches.join_next() => finish(Some(ended))?,
            }
        }
    }

    async fn grab(self: Arc<Self>, slots: Vec<Arc<Slot>>) {
        let (slots, commands) = self.begin(slots);
        if commands.is_empty() {
            return;
        }
        let began = Instant::now();
        let answered = self.replica.propose_all(&commands, began + GRAB_MAX).await;
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

    /// Sizes every grab by its tag's own step as this node knows it. A tag that this node has not
    /// heard of yet is grabbed by its step, wherever that is known.
    fn begin(&self, slots: Vec<Arc<Slot>>) -> (Vec<Arc<Slot>>, Vec<Command>) {
        let mut begun = Vec::with_capacity(slots.len());
        let mut commands = Vec::with_capacity(slots.len());
        for slot in slots {
            let row = self.replica.read(|state| state.tag(slot.tag().as_str()));
            let step = row.map_or(1, |row| row.step);
            if let Some(size) = slot.begin_grab(step) {
                commands.push(Command::Grab { tag: slot.tag().clone(), size });
                begun.push(slot);
            }
        }
        (begun, commands)
    }

    fn settle(&self, slot: &Arc<Slot>, response: &Response, seconds: f64) {
        let outcome = match response {
            &Response::Segment { start, end, step } => {
                // Before any id of it is handed out: a recorder can hold ids against what it read.
                let tag = slot.tag().as_str();
                tracing::debug!(target: "mintleaf::grants", tag, start, end, "segment granted");
                if slot.install(Segment { start, end }, step) {
                    self.ask_again(slot);
                }
                GrabOutcome::Granted
            }
            Response::Exhausted => {
                slot.exhausted();
                GrabOutcome::Rejected
            }
            Response::UnknownTag => {
                self.table.forget(slot);
                GrabOutcome::Rejected
            }
            other => panic!("a grab was answered with {other:?}"),
        };
        self.metrics.grab_finished(outcome, seconds);
    }

    async fn retry_later(&self, slots: &[Arc<Slot>], error: &ProposeError, seconds: f64) {
        tracing::warn!(tags = slots.len(), %error, "grab failed; handing out what is held");
        let waited_for: Vec<_> = slots.iter().filter(|slot| slot.grab_failed()).collect();
        slots.iter().for_each(|_| self.metrics.grab_finished(GrabOutcome::Failed, seconds));
        if !waited_for.is_empty() {
            sleep(RETRY_INTERVAL).await;
            waited_for.into_iter().for_each(|slot| self.ask_again(slot));
        }
    }

    // The queue closes only when the node stops; then there is nothing to grab for.
    fn ask_again(&self, slot: &Arc<Slot>) {
        let _ = self.again.send(Arc::clone(slot));
    }
}

fn finish(ended: Option<Result<(), JoinError>>) -> Result<(), JoinError> {
    ended.unwrap_or(Ok(()))
}
