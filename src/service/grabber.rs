//! The task that grabs the ids that this node alone holds. It proposes the grabs of many tags together.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::segment::Segment;
use mintleaf_core::state::Command;
use mintleaf_core::steps::Steps;
use mintleaf_raft::StopReason;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::sleep;

use super::error::Error;
use super::grabs::{Grabs, Proposer, Refused};
use super::local::slot::Slot;
use super::parts::ServiceParts;
use super::tag_table::TagTable;
use crate::replica::{COMMANDS_MAX, Replica};

/// Maximum number of proposals of grabs in flight. `raft/` carries one or two batches of proposals at a time; proposals
/// that arrive while they are under way form the next.
const PROPOSALS_MAX: usize = 3;
/// How long the task waits before it repeats a failed grab that a caller waits for.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The slots that ask for a grab. Each slot asks at most once until its grab has begun, which bounds
/// the queue.
#[derive(Clone)]
pub(super) struct GrabQueue(mpsc::UnboundedSender<Arc<Slot>>);

impl GrabQueue {
    /// Asks for a grab. The queue closes only when the node stops; a caller that waits for ids then gets an answer at
    /// its deadline.
    #[inline]
    pub(super) fn ask(&self, slot: &Arc<Slot>) {
        let _ = self.0.send(Arc::clone(slot));
    }
}

/// The grabber's task and the leader's; dropping this aborts both.
pub struct ServiceTask {
    pub(super) grabs: JoinHandle<Result<(), JoinError>>,
    pub(super) leader: JoinHandle<Result<(), JoinError>>,
}

impl ServiceTask {
    /// Resolves, with the reason, when a task has met a broken invariant: the node must stop.
    pub async fn ended(&mut self) -> StopReason {
        let ended = tokio::select! {
            ended = &mut self.grabs => ended,
            ended = &mut self.leader => ended,
        };
        StopReason::restart(format!("the id service has ended: {ended:?}"))
    }
}

impl Drop for ServiceTask {
    fn drop(&mut self) {
        self.grabs.abort();
        self.leader.abort();
    }
}

/// Makes the grabs that slots ask for.
pub(super) struct Grabber {
    replica: Arc<Replica>,
    table: Arc<TagTable>,
    grabs: Grabs,
    again: GrabQueue,
}

impl Grabber {
    /// Starts the task on the current runtime.
    pub(super) fn start(parts: &ServiceParts) -> (GrabQueue, JoinHandle<Result<(), JoinError>>) {
        let (grabs, asked) = mpsc::unbounded_channel();
        let queue = GrabQueue(grabs);
        let (replica, table) = (Arc::clone(&parts.replica), Arc::clone(&parts.table));
        let grabs = Grabs { replica: Arc::clone(&replica), metrics: Arc::clone(&parts.metrics) };
        let grabber = Self { replica, table, grabs, again: queue.clone() };
        (queue, tokio::spawn(Arc::new(grabber).run(asked)))
    }

    /// Runs until the task is aborted.
    ///
    /// # Errors
    /// When a grab panicked on a broken invariant; the node must then stop.
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
        let granted = self.grabs.carry_out(&commands, Proposer::AnyNode).await;
        let mut failed = Vec::new();
        for (slot, granted) in slots.into_iter().zip(granted) {
            match granted {
                Some(granted) => self.settle(&slot, granted),
                None => failed.push(slot),
            }
        }
        self.retry_later(failed).await;
    }

    /// Sizes every grab by its tag's bounds in this node's copy. For a tag that the copy does not show yet, the size is
    /// 1, which the log raises to the tag's step.
    fn begin(&self, slots: Vec<Arc<Slot>>) -> (Vec<Arc<Slot>>, Vec<Command>) {
        let mut begun = Vec::with_capacity(slots.len());
        let mut commands = Vec::with_capacity(slots.len());
        for slot in slots {
            let row = self.replica.read(|state| state.tag(slot.tag().as_str()));
            let steps = row.map_or(Steps::from(1), |row| row.steps());
            if let Some(size) = slot.begin_grab(steps) {
                commands.push(slot.grab(size));
                begun.push(slot);
            }
        }
        (begun, commands)
    }

    fn settle(&self, slot: &Arc<Slot>, granted: Result<(Segment, Steps), Refused>) {
        match granted {
            Ok((segment, steps)) => {
                if slot.install(segment, steps) {
                    self.again.ask(slot);
                }
            }
            Err(Refused::Exhausted) => {
                slot.exhausted();
                tracing::warn!(tag = slot.tag().as_str(), "a tag is used up: it has no ids left");
            }
            // This node's copy is behind: it does not show yet that the tag was deleted, or has a shape. The callers
            // ask again, and then see it.
            Err(Refused::UnknownTag | Refused::OtherShape) => self.table.forget(slot),
            // The entry's time lies in another period. The callers look up the current one again.
            Err(Refused::PeriodClosed) => self.table.drop_line(slot),
            Err(Refused::PeriodOver) => {
                let period = slot.period().unwrap_or_default();
                slot.grab_refused(&Error::unavailable(format!(
                    "the period {period} is over for good: it is the present one by the cluster's clock, but a later \
                     one was used before"
                )));
            }
            Err(why) => slot.grab_refused(&why.into()),
        }
    }

    /// Asks for another grab for each of these slots if a caller waits there.
    async fn retry_later(&self, failed: Vec<Arc<Slot>>) {
        let mut waited_for = failed;
        waited_for.retain(|slot| slot.grab_failed());
        if !waited_for.is_empty() {
            sleep(RETRY_INTERVAL).await;
            waited_for.iter().for_each(|slot| self.again.ask(slot));
        }
    }
}

fn finish(ended: Option<Result<(), JoinError>>) -> Result<(), JoinError> {
    ended.unwrap_or(Ok(()))
}
