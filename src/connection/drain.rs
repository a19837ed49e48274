//! How far the end of a node has come, as its client connections see it.
//!
//! A node that is asked to stop serves for a while: a load balancer needs time to notice that the node is not ready,
//! and clients need a moment when they can leave without losing a request.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

use tokio::sync::watch;
use tokio::task::unconstrained;

/// How far the end of a node has come. It only goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrainPhase {
    /// Connections are served as usual, whether or not the node is about to end.
    Serving,
    /// Each connection ends with its next answer.
    LastAnswers,
    /// Idle connections of the Redis protocol end too: that protocol has no way to ask a client to leave.
    RestingEnd,
    /// Every connection ends, and no other is accepted.
    Ended,
}

/// The side that sets how far the end has come. Dropping it is [`DrainPhase::Ended`].
#[derive(Debug)]
pub(crate) struct DrainSender(watch::Sender<DrainPhase>);

/// The side of connections; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    /// Never marks a value as seen, so that a look costs one load for as long as nothing was sent.
    phase: watch::Receiver<DrainPhase>,
}

/// Both sides, of a node that serves.
pub(crate) fn drain() -> (DrainSender, Drain) {
    let (sender, phase) = watch::channel(DrainPhase::Serving);
    (DrainSender(sender), Drain { phase })
}

impl DrainSender {
    /// Goes on to a phase.
    pub(crate) fn enter(&self, phase: DrainPhase) {
        self.0.send_replace(phase);
    }
}

impl Drain {
    /// How far the end has come.
    #[inline]
    pub(crate) fn phase(&self) -> DrainPhase {
        match self.phase.has_changed() {
            Ok(false) => DrainPhase::Serving,
            Ok(true) => *self.phase.borrow(),
            Err(_) => DrainPhase::Ended,
        }
    }

    /// Resolves once the end has come as far as `phase`.
    ///
    /// Connections poll it whenever they are woken. As long as nothing was sent, all polls but a task's first cost
    /// one load: the first has left the task's waker with the sender, and nothing has used it up.
    pub(crate) async fn reached(&self, phase: DrainPhase) {
        let mut changes = self.phase.clone();
        // A sender that is gone has reached every phase. Without a budget, a poll that is pending has left its waker.
        let mut waited = pin!(unconstrained(changes.wait_for(|now| *now >= phase)));
        let mut left: Option<Waker> = None;
        poll_fn(|context| {
            let is_left = left.as_ref().is_some_and(|left| left.will_wake(context.waker()));
            if is_left && self.phase() == DrainPhase::Serving {
                return Poll::Pending;
            }
            left.get_or_insert_with(|| context.waker().clone()).clone_from(context.waker());
            waited.as_mut().poll(context).map(drop)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn every_side_sees_the_phase_and_the_end_however_often_it_looks() {
        let (sender, drain) = drain();
        let early = drain.clone();
        assert_eq!(early.phase(), DrainPhase::Serving);
        sender.enter(DrainPhase::LastAnswers);
        early.reached(DrainPhase::LastAnswers).await;
        let late = drain.clone();
        for _ in 0..2 {
            assert_eq!([early.phase(), late.phase()], [DrainPhase::LastAnswers; 2]);
        }
        drop(sender);
        late.reached(DrainPhase::Ended).await;
        assert_eq!([early.phase(), late.phase()], [DrainPhase::Ended; 2]);
    }

    #[tokio::test]
    async fn a_wait_that_is_polled_often_and_moves_between_tasks_ends_with_its_phase() {
        let (sender, drain) = drain();
        let waits = drain.clone();
        let mut wait = Box::pin(async move { waits.reached(DrainPhase::RestingEnd).await });
        // More polls than a task's budget allows, and then polls by another task.
        for _ in 0..300 {
            let polled = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
            assert!(polled.is_pending());
        }
        let moved = tokio::spawn(wait);
        tokio::task::yield_now().await;
        sender.enter(DrainPhase::LastAnswers);
        tokio::task::yield_now().await;
        assert!(!moved.is_finished());
        sender.enter(DrainPhase::RestingEnd);
        tokio::time::timeout(Duration::from_secs(5), moved).await.unwrap().unwrap();
    }
}
