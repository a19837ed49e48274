//! The ids that this node holds of one tag, and the callers that wait for more.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::Error;
use crate::clock::Clock;
use crate::limits::WAITERS_MAX;
use crate::segment::{BufferView, Segment, SegmentBuffer};
use crate::tag::BizTag;

/// The answer to a waiting caller.
pub(super) type TakenIds = Result<Vec<Range<u64>>, Error>;

/// One tag on this node. Its lock is shared with no other tag and never held across a wait.
pub(super) struct Slot {
    tag: BizTag,
    clock: Arc<dyn Clock>,
    held: Mutex<SlotState>,
}

struct SlotState {
    buffer: SegmentBuffer,
    /// The callers that wait, in order of arrival.
    waiters: VecDeque<Waiter>,
    /// Whether a grab was asked for that has not begun.
    grab_asked: bool,
    /// Set once the tag is gone; the slot then hands out nothing more.
    closed: bool,
    /// Set for good once every id of the tag is reserved: no grab can bring more.
    exhausted: bool,
}

struct Waiter {
    count: u64,
    arrangement: Arrangement,
    answer: oneshot::Sender<TakenIds>,
}

/// How the ids for one caller may lie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Arrangement {
    /// In as many ranges as it takes: nothing is wasted.
    Ranges,
    /// Without a gap, whatever has to be skipped for it.
    Contiguous,
}

/// The outcome of a call for ids.
pub(super) enum TakeOutcome {
    /// The ids.
    Ids(Vec<Range<u64>>),
    /// A place in the queue.
    Wait(oneshot::Receiver<TakenIds>),
    /// The tag is gone.
    Closed,
    /// Fewer are held, and the tag has no more.
    Exhausted,
    /// Too many wait already.
    Overloaded,
}

impl Slot {
    pub(super) fn new(tag: BizTag, step: u32, clock: Arc<dyn Clock>) -> Self {
        let held = SlotState {
            buffer: SegmentBuffer::new(step),
            waiters: VecDeque::new(),
            grab_asked: false,
            closed: false,
            exhausted: false,
        };
        Self { tag, clock, held: Mutex::new(held) }
    }

    pub(super) fn tag(&self) -> &BizTag {
        &self.tag
    }

    /// The next ids without a gap, up to `count_max`, when one is held; and whether a grab should begin
    /// now.
    #[inline]
    pub(super) fn take_some(&self, count_max: u64) -> (Option<Range<u64>>, bool) {
        self.take_now(|buffer| buffer.take_some(count_max, || self.clock.monotonic_ms()))
    }

    /// The next `count` ids, when as many are held; and whether a grab should begin now.
    pub(super) fn take_exactly(&self, count: u64) -> (Option<Vec<Range<u64>>>, bool) {
        self.take_now(|buffer| buffer.take(count, || self.clock.monotonic_ms()))
    }

    #[inline]
    fn take_now<T>(&self, take: impl FnOnce(&mut SegmentBuffer) -> Option<T>) -> (Option<T>, bool) {
        let mut held = self.held.lock();
        if held.closed {
            return (None, false);
        }
        let ids = take(&mut held.buffer);
        let wants_grab = ids.is_some() && held.asks_for_grab();
        (ids, wants_grab)
    }

    /// The next `count` ids, or a place in the queue; and whether a grab should begin now.
    pub(super) fn take(&self, count: u64, arrangement: Arrangement) -> (TakeOutcome, bool) {
        let mut held = self.held.lock();
        if held.closed {
            return (TakeOutcome::Closed, false);
        }
        let take = match held.take(count, arrangement, || self.clock.monotonic_ms()) {
            Some(ranges) => TakeOutcome::Ids(ranges),
            None if held.exhausted => return (TakeOutcome::Exhausted, false),
            None if held.waiters.len() >= WAITERS_MAX => return (TakeOutcome::Overloaded, false),
            None => {
                let (answer, answered) = oneshot::channel();
                held.waiters.push_back(Waiter { count, arrangement, answer });
                TakeOutcome::Wait(answered)
            }
        };
        (take, held.asks_for_grab())
    }

    /// Begins the grab that was asked for and answers its size in ids; `step` is the tag's own step at
    /// this moment. `None` when there is no use for the grab any more.
    pub(super) fn begin_grab(&self, step: u32) -> Option<u32> {
        let mut held = self.held.lock();
        held.grab_asked = false;
        if held.closed || held.buffer.grab_in_flight() {
            return None;
        }
        let demand = held.demand();
        Some(held.buffer.begin_grab(self.clock.monotonic_ms(), step, demand))
    }

    /// Adds the segment that a grab reserved and serves the callers that wait; true when another grab
    /// should begin.
    pub(super) fn install(&self, segment: Segment, step: u32) -> bool {
        let mut held = self.held.lock();
        if held.closed {
            return false;
        }
        held.buffer.install(segment, step, self.clock.monotonic_ms());
        held.serve(|| self.clock.monotonic_ms());
        held.asks_for_grab()
    }

    /// Notes that the grab brought nothing; true when a caller still waits, so that another should
    /// begin.
    pub(super) fn grab_failed(&self) -> bool {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.waiters.retain(|waiter| !waiter.answer.is_closed());
        let wants_grab = !held.waiters.is_empty() && !held.grab_asked && !held.closed;
        held.grab_asked |= wants_grab;
        wants_grab
    }

    /// Notes that the tag has no ids left, and tells the callers that wait for more than is held.
    pub(super) fn exhausted(&self) {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.exhausted = true;
        held.fail_waiters(&Error::Exhausted);
    }

    /// Ends the slot, because its tag was deleted. The callers that wait must look the tag up again: it
    /// may have been created anew before they asked, on a node that hears late of either.
    pub(super) fn close(&self) {
        let mut held = self.held.lock();
        held.closed = true;
        held.waiters.clear();
    }

    /// How many ids are held.
    pub(super) fn remaining(&self) -> u64 {
        let held = self.held.lock();
        if held.closed { 0 } else { held.buffer.remaining() }
    }

    pub(super) fn view(&self) -> BufferView {
        self.held.lock().buffer.view()
    }
}

impl SlotState {
    fn take(
        &mut self,
        count: u64,
        arrangement: Arrangement,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<Vec<Range<u64>>> {
        match arrangement {
            Arrangement::Ranges => self.buffer.take(count, now_ms),
            Arrangement::Contiguous => Some(vec![self.buffer.take_contiguous(count, now_ms)?]),
        }
    }

    /// Whether a grab should be asked for now; if so, the slot counts it as asked for, and the caller
    /// must ask.
    #[inline]
    fn asks_for_grab(&mut self) -> bool {
        let possible = !self.exhausted && !self.grab_asked && !self.buffer.grab_in_flight();
        let wants_grab = possible && (self.buffer.wants_grab() || !self.waiters.is_empty());
        self.grab_asked |= wants_grab;
        wants_grab
    }

    /// How many ids the waiting callers need. Ids that are held do not count: callers who come
    /// meanwhile may take them, and those who wait must not come up short for that.
    fn demand(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.count).sum()
    }

    /// Serves the waiting callers in order of arrival. A caller who wants more than is held does not
    /// hold up those behind: the next grab is sized for all that still wait.
    fn serve(&mut self, now_ms: impl Fn() -> u64) {
        let mut unserved = VecDeque::new();
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.answer.is_closed() {
                continue;
            }
            match self.take(waiter.count, waiter.arrangement, &now_ms) {
                // Should the caller give up at this very moment, the ids are wasted, not repeated.
                Some(ranges) => drop(waiter.answer.send(Ok(ranges))),
                None => unserved.push_back(waiter),
            }
        }
        self.waiters = unserved;
    }

    fn fail_waiters(&mut self, error: &Error) {
        for waiter in self.waiters.drain(..) {
            drop(waiter.answer.send(Err(error.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn slot() -> Slot {
        Slot::new(BizTag::parse("orders").unwrap(), 10, Arc::new(SystemClock::default()))
    }

    fn wait(slot: &Slot, count: u64) -> (oneshot::Receiver<TakenIds>, bool) {
        match slot.take(count, Arrangement::Ranges) {
            (TakeOutcome::Wait(answered), wants_grab) => (answered, wants_grab),
            _ => panic!("nothing is held, so the caller waits"),
        }
    }

    fn ids(answered: &mut oneshot::Receiver<TakenIds>) -> Vec<u64> {
        let ranges = answered.try_recv().expect("answered").expect("ids");
        ranges.into_iter().flatten().collect()
    }

    #[test]
    fn waiting_callers_are_served_in_order_of_arrival_by_one_grab() {
        let slot = slot();
        let (mut first, wants_grab) = wait(&slot, 1);
        assert!(wants_grab, "the first caller asks for a grab");
        let (mut second, wants_grab) = wait(&slot, 3);
        assert!(!wants_grab, "one grab in flight per tag");
        let size = slot.begin_grab(10).unwrap();
        let end = 1 + u64::from(size);
        slot.install(Segment { start: 1, end }, 10);
        assert_eq!(ids(&mut first), [1]);
        assert_eq!(ids(&mut second), [2, 3, 4]);
    }

    #[test]
    fn a_grab_is_sized_for_all_who_wait() {
        let slot = slot();
        let waiting: Vec<_> = (0..5).map(|_| wait(&slot, 100)).collect();
        assert_eq!(slot.begin_grab(10), Some(500));
        drop(waiting);
    }

    #[test]
    fn a_caller_who_comes_after_the_grab_was_sized_gets_the_next_one() {
        let slot = slot();
        let (mut early, _) = wait(&slot, 10);
        let size = u64::from(slot.begin_grab(10).unwrap());
        let (mut late, wants_grab) = wait(&slot, 1_000);
        assert!(!wants_grab, "a grab is in flight");
        assert!(slot.install(Segment { start: 1, end: 1 + size }, 10), "another is needed");
        assert_eq!(ids(&mut early).len(), 10);
        assert!(late.try_recv().is_err());
        let more = u64::from(slot.begin_grab(10).unwrap());
        slot.install(Segment { start: 1 + size, end: 1 + size + more }, 10);
        assert_eq!(ids(&mut late).len(), 1_000);
    }

    #[test]
    fn a_caller_who_wants_more_than_is_held_holds_nobody_up() {
        let slot = slot();
        let (mut large, _) = wait(&slot, 100);
        let (mut small, _) = wait(&slot, 1);
        slot.begin_grab(10).unwrap();
        // Fewer came than were asked for, as when a tag nears its end.
        assert!(slot.install(Segment { start: 1, end: 11 }, 10));
        assert_eq!(ids(&mut small), [1]);
        assert!(large.try_recv().is_err());
    }

    #[test]
    fn a_caller_who_wants_one_run_waits_for_a_grab_that_is_long_enough() {
        let slot = slot();
        let _ = wait(&slot, 1);
        slot.begin_grab(10).unwrap();
        slot.install(Segment { start: 1, end: 11 }, 10);
        let (take, wants_grab) = slot.take(5, Arrangement::Contiguous);
        assert!(
            matches!(take, TakeOutcome::Ids(ranges) if ranges.first() == Some(&(1..6)))
                && wants_grab
        );
        let (TakeOutcome::Wait(mut run), wants_grab) = slot.take(6, Arrangement::Contiguous) else {
            panic!("5 are left")
        };
        assert!(!wants_grab, "a grab is asked for already");
        let size = slot.begin_grab(10).unwrap();
        assert!(size >= 6);
        // Another node's grab lies between, so the two segments do not touch.
        slot.install(Segment { start: 100, end: 100 + u64::from(size) }, 10);
        assert_eq!(ids(&mut run), [100, 101, 102, 103, 104, 105]);
        assert_eq!(
            slot.take_some(1).0,
            Some(106..107),
            "ids only rise; what was skipped is wasted"
        );
    }

    #[test]
    fn a_failed_grab_is_asked_for_again_only_while_somebody_waits() {
        let slot = slot();
        let (waiting, _) = wait(&slot, 1);
        slot.begin_grab(10).unwrap();
        assert!(slot.grab_failed());
        slot.begin_grab(10).unwrap();
        drop(waiting);
        assert!(!slot.grab_failed());
        let (_, wants_grab) = wait(&slot, 1);
        assert!(wants_grab, "the next caller asks again");
    }

    #[test]
    fn an_exhausted_tag_gives_what_is_held_and_asks_for_no_more() {
        let slot = slot();
        let _ = wait(&slot, 1);
        slot.begin_grab(10).unwrap();
        slot.install(Segment { start: 1, end: 3 }, 10);
        slot.exhausted();
        assert_eq!(slot.take_some(1), (Some(1..2), false));
        assert_eq!(slot.take_some(9), (Some(2..3), false));
        assert!(matches!(slot.take(1, Arrangement::Ranges), (TakeOutcome::Exhausted, false)));
    }

    #[test]
    fn a_closed_slot_gives_nothing_even_when_a_grab_comes_back() {
        let slot = slot();
        let (mut waiting, _) = wait(&slot, 1);
        slot.begin_grab(10).unwrap();
        slot.close();
        assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert!(!slot.install(Segment { start: 1, end: 11 }, 10));
        assert_eq!(slot.take_some(1), (None, false));
        assert!(matches!(slot.take(1, Arrangement::Ranges), (TakeOutcome::Closed, false)));
    }
}
