//! One line with its lock, its cursor, and the calls that wait on it.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::lease::cursor::{Cursor, NEVER, Taken};
use crate::lease::line::{Kind, Line, Order, Reply, nanos};
use crate::request::Request;

/// A call that waits, in async code or in a thread.
#[derive(Debug)]
pub(crate) enum Waiter<R = Reply> {
    Task(oneshot::Sender<R>),
    Thread(mpsc::SyncSender<R>),
}

impl<R> Waiter<R> {
    /// Ends the call with this reply. If the caller no longer awaits it, the ids in the reply are wasted.
    pub(crate) fn tell(self, reply: R) {
        match self {
            Self::Task(task) => drop(task.send(reply)),
            Self::Thread(thread) => drop(thread.send(reply)),
        }
    }
}

/// A line that threads share.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The tag; `None` for the snowflakes.
    tag: Option<String>,
    pub(crate) cursor: Cursor,
    line: Mutex<Line<Waiter>>,
}

impl Slot {
    pub(crate) fn new(tag: Option<String>, kind: Kind) -> Self {
        Self { tag, cursor: Cursor::new(), line: Mutex::new(Line::new(kind)) }
    }

    /// Whether this is the line of `tag`.
    #[inline]
    pub(crate) fn is_of(&self, tag: &str) -> bool {
        self.tag.as_deref() == Some(tag)
    }

    pub(crate) fn line(&self) -> MutexGuard<'_, Line<Waiter>> {
        // Every step leaves the line consistent, so a poisoned lock can be used.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request for what a flight asks for.
    pub(crate) fn ordered(&self, order: Order) -> Request {
        self.request(order.count, order.as_ranges)
    }

    /// A request for `count` ids of this line.
    pub(crate) fn request(&self, count: u64, as_ranges: bool) -> Request {
        match &self.tag {
            Some(tag) => Request::Segment { tag: tag.clone(), count, as_ranges },
            None => Request::Snowflakes { count, as_ranges },
        }
    }
}

/// The ids that were taken, unless they are too old.
#[inline]
pub(crate) fn fresh(taken: &Taken, now: impl FnOnce() -> Duration) -> Option<Range<u64>> {
    let is_fresh = taken.stale_at == NEVER || nanos(now()) < taken.stale_at;
    (is_fresh && !taken.ids.is_empty()).then(|| taken.ids.clone())
}
