//! The memory of a node's answers that their clients have not read yet.
//!
//! One budget for all connections of both protocols. Most answers never meet it: they are short, and the
//! socket takes them at once. Two kinds are held against it, so that what slow readers can pin is bounded
//! however many they are:
//!
//! - A long answer, until hyper has handed it on. It may use up to three quarters of the budget; beyond
//!   that its request is turned away: one for ids before it takes any, one for a list before its answer
//!   leaves the step that made it, of which each worker thread carries out one at a time.
//! - A connection's buffer, once its socket does not take all of it. Where that does not fit any more the
//!   connection ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;

use crate::limits::{ORDINARY_ANSWER_BYTES, UNREAD_BYTES_MAX};
use crate::metrics::Metrics;

/// Bytes of long answers that may be held.
const LONG_BYTES_MAX: usize = UNREAD_BYTES_MAX / 4 * 3;

/// The budget of one node.
#[derive(Debug)]
pub struct AnswerBudget {
    held: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// A part of the budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    budget: Arc<AnswerBudget>,
    bytes: usize,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
        self.budget.metrics.answers_read(self.bytes);
    }
}

/// A long answer and its part of the budget.
struct LongAnswer {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for LongAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AnswerBudget {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), metrics })
    }

    /// Whether a request for a long answer must be turned away.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.held.load(Relaxed) >= LONG_BYTES_MAX
    }

    /// An answer that is held against the budget until the last copy of it is dropped, if it is a long one;
    /// `None` where it does not fit.
    pub(crate) fn hold_answer(self: &Arc<Self>, bytes: Bytes) -> Option<Bytes> {
        if bytes.len() <= ORDINARY_ANSWER_BYTES {
            return Some(bytes);
        }
        let _held = self.take(bytes.len(), LONG_BYTES_MAX)?;
        // A buffer that grew to its size may be twice as large as what is in it.
        let bytes = Bytes::copy_from_slice(&bytes);
        Some(Bytes::from_owner(LongAnswer { bytes, _held }))
    }

    /// Holds a buffer of so many bytes, which a socket did not take as a whole; nothing if it is an ordinary
    /// one.
    ///
    /// # Errors
    /// That the connection must end, because the budget has no room for it.
    pub(crate) fn hold_buffer(self: &Arc<Self>, bytes: usize) -> io::Result<Option<HeldBytes>> {
        if bytes <= ORDINARY_ANSWER_BYTES {
            return Ok(None);
        }
        let held = self.take(bytes, UNREAD_BYTES_MAX);
        if held.is_none() {
            self.metrics.answers_dropped();
        }
        held.map(Some).ok_or_else(|| io::Error::other("too many answers wait to be read"))
    }

    fn take(self: &Arc<Self>, bytes: usize, bytes_max: usize) -> Option<HeldBytes> {
        let more = |held: usize| held.checked_add(bytes).filter(|&held| held <= bytes_max);
        self.held.fetch_update(Relaxed, Relaxed, more).ok()?;
        self.metrics.answers_unread(bytes);
        Some(HeldBytes { budget: Arc::clone(self), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 256 * 1024;

    fn budget() -> Arc<AnswerBudget> {
        AnswerBudget::new(Arc::default())
    }

    #[test]
    fn long_answers_leave_a_quarter_to_buffers_and_nothing_passes_the_whole() {
        let budget = budget();
        let long = || budget.hold_answer(Bytes::from(vec![0; LONG]));
        let answers: Vec<Bytes> = std::iter::from_fn(long).collect();
        assert_eq!(answers.len() * LONG, LONG_BYTES_MAX);
        assert!(budget.is_spent());
        let buffer = || budget.hold_buffer(LONG).ok();
        let buffers: Vec<_> = std::iter::from_fn(buffer).collect();
        assert_eq!((answers.len() + buffers.len()) * LONG, UNREAD_BYTES_MAX);
        drop(buffers);
        assert!(long().is_none());
        drop(answers);
        assert!(!budget.is_spent() && long().is_some());
    }

    #[test]
    fn an_ordinary_answer_never_meets_the_budget() {
        let budget = budget();
        let _all = budget.take(UNREAD_BYTES_MAX, UNREAD_BYTES_MAX).unwrap();
        assert!(budget.hold_answer(Bytes::from(vec![0; ORDINARY_ANSWER_BYTES])).is_some());
        assert!(budget.hold_buffer(ORDINARY_ANSWER_BYTES).unwrap().is_none());
        assert!(budget.hold_buffer(ORDINARY_ANSWER_BYTES + 1).is_err());
    }
}
