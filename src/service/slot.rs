//! What this node holds of one tag, and who waits for it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Error;
use crate::clock::Clock;
use crate::segment::{BufferView, Segment, SegmentBuffer};
use crate::tag::BizTag;

/// Callers that may wait for one tag; one more is turned away.
const WAITERS_MAX: usize = 10_000;

/// The answer to a waiting caller.
pub(super) type Taken = Result<Vec<Range<u64>>, Error>;

/// One tag on this node. Its lock is shared with no other tag and never held across a wait.
pub(super) struct Slot {
    tag: BizTag,
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
}

struct Held {
    buffer: SegmentBuffer,
    /// In order of arrival.
    waiters: VecDeque<Waiter>,
    /// Whether a grab was asked for that has not begun.
    grab_asked: bool,
    /// Set once the tag is gone; the slot then hands out nothing more.
    closed: bool,
    /// Set once every id of the tag is reserved, which is for good: no grab can bring more.
    exhausted: bool,
}

struct Waiter {
    count: u64,
    shape: Shape,
    answer: oneshot::Sender<Taken>,
}

/// How the ids of one caller may lie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    /// In as many ranges as it takes: nothing is wasted.
    Ranges,
    /// In one piece, whatever has to be skipped for it.
    Piece,
}

/// What a caller got at once.
pub(super) enum Take {
    /// The ids.
    Ids(Vec<Range<u64>>),
    /// A place in the queue.
    Wait(oneshot::Receiver<Taken>),
    /// The tag is gone.
    Closed,
    /// Fewer are held, and the tag has no more.
    Exhausted,
    /// Too many wait already.
    Overloaded,
}

impl Slot {
    pub(super) fn new(tag: BizTag, step: u32, clock: Arc<dyn Clock>) -> Self {
        let held = Held {
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

    /// The next ids, when one is held, up to `count_max` in one piece; and whether a grab should
    /// begin now.
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
        let ask = ids.is_some() && held.ask();
        (ids, ask)
    }

    /// The next `count` ids, or a place in the queue; and whether a grab should begin now.
    pub(super) fn take(&self, count: u64, shape: Shape) -> (Take, bool) {
        let mut held = self.held.lock();
        if held.closed {
            return (Take::Closed, false);
        }
        let take = match held.take(count, shape, || self.clock.monotonic_ms()) {
            Some(ranges) => Take::Ids(ranges),
            None if held.exhausted => return (Take::Exhausted, false),
            None if held.waiters.len() >= WAITERS_MAX => return (Take::Overloaded, false),
            None => {
                let (answer, answered) = oneshot::channel();
                held.waiters.push_back(Waiter { count, shape, answer });
                Take::Wait(answered)
            }
        };
        (take, held.ask())
    }

    /// Begins the grab that was asked for and returns its size in ids; `step` is the tag's own
    /// now. `None` when there is no use for it any more.
    pub(super) fn begin_grab(&self, step: u32) -> Option<u32> {
        let mut held = self.held.lock();
        held.grab_asked = false;
        if held.closed || held.buffer.grab_in_flight() {
            return None;
        }
        let demand = held.demand();
        Some(held.buffer.begin_grab(self.clock.monotonic_ms(), step, demand))
    }

    /// Takes in what a grab reserved and serves who waits; true when another grab should begin.
    pub(super) fn install(&self, segment: Segment, step: u32) -> bool {
        let mut held = self.held.lock();
        if held.closed {
            return false;
        }
        held.buffer.install(segment, step, self.clock.monotonic_ms());
        held.serve(|| self.clock.monotonic_ms());
        held.ask()
    }

    /// Notes that the grab brought nothing; true when somebody still waits for another.
    pub(super) fn grab_failed(&self) -> bool {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.waiters.retain(|waiter| !waiter.answer.is_closed());
        let ask = !held.waiters.is_empty() && !held.grab_asked && !held.closed;
        held.grab_asked |= ask;
        ask
    }

    /// Notes that the tag has no ids left: those who wait for more than is held are told so.
    pub(super) fn exhausted(&self) {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.exhausted = true;
        held.fail_waiters(&Error::Exhausted);
    }

    /// Ends the slot: the tag was gone at some time. Who waits has to look again: it may have come back
    /// before they asked, on a node that is late to hear of either.
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

impl Held {
    fn take(
        &mut self,
        count: u64,
        shape: Shape,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<Vec<Range<u64>>> {
        match shape {
            Shape::Ranges => self.buffer.take(count, now_ms),
            Shape::Piece => Some(vec![self.buffer.take_piece(count, now_ms)?]),
        }
    }

    /// Whether a grab should be asked for now; if so, the caller must ask.
    #[inline]
    fn ask(&mut self) -> bool {
        let possible = !self.exhausted && !self.grab_asked && !self.buffer.grab_in_flight();
        let ask = possible && (self.buffer.wants_grab() || !self.waiters.is_empty());
        self.grab_asked |= ask;
        ask
    }

    /// Ids that waiting callers need. What is held does not count: those who come meanwhile may
    /// take it, and the ones who wait must not come up short for that.
    fn demand(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.count).sum()
    }

    /// Serves waiting callers in order of arrival. One who wants more than is held does not hold
    /// up those behind: the next grab is sized for all that still wait.
    fn serve(&mut self, now_ms: impl Fn() -> u64) {
        let mut unserved = VecDeque::new();
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.answer.is_closed() {
                continue;
            }
            match self.take(waiter.count, waiter.shape, &now_ms) {
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

    fn wait(slot: &Slot, count: u64) -> (oneshot::Receiver<Taken>, bool) {
        match slot.take(count, Shape::Ranges) {
            (Take::Wait(answered), ask) => (answered, ask),
            _ => panic!("nothing is held, so the caller waits"),
        }
    }

    fn ids(answered: &mut oneshot::Receiver<Taken>) -> Vec<u64> {
        let ranges = answered.try_recv().expect("answered").expect("ids");
        ranges.into_iter().flatten().collect()
    }

    #[test]
    fn waiting_callers_are_served_in_order_of_arrival_by_one_grab() {
        let slot = slot();
        let (mut first, ask) = wait(&slot, 1);
        assert!(ask, "the first caller asks for a grab");
        let (mut second, ask) = wait(&slot, 3);
        assert!(!ask, "one grab in flight per tag");
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
        let (mut late, ask) = wait(&slot, 1_000);
        assert!(!ask, "a grab is in flight");
        assert!(slot.install(Segment { start: 1, end: 1 + size }, 10), "another is needed");
        assert_eq!(ids(&mut early).len(), 10);
        assert!(late.try_recv().is_err());
        let more = u64::from(slot.begin_grab(10).unwrap());
        slot.install(Segment { start: 1 + size, end: 1 + size + more }, 10);
        assert_eq!(ids(&mut late).len(), 1_000);
    }

    #[test]
    fn one_who_wants_more_than_is_held_holds_nobody_up() {
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
    fn who_wants_one_piece_waits_for_a_grab_that_is_long_enough() {
        let slot = slot();
        let _ = wait(&slot, 1);
        slot.begin_grab(10).unwrap();
        slot.install(Segment { start: 1, end: 11 }, 10);
        let (take, ask) = slot.take(5, Shape::Piece);
        assert!(matches!(take, Take::Ids(ranges) if ranges.first() == Some(&(1..6))) && ask);
        let (Take::Wait(mut piece), ask) = slot.take(6, Shape::Piece) else { panic!("5 are left") };
        assert!(!ask, "a grab is asked for already");
        let size = slot.begin_grab(10).unwrap();
        assert!(size >= 6);
        // Somebody else's grab lies between, so the two segments do not touch.
        slot.install(Segment { start: 100, end: 100 + u64::from(size) }, 10);
        assert_eq!(ids(&mut piece), [100, 101, 102, 103, 104, 105]);
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
        let (_, ask) = wait(&slot, 1);
        assert!(ask, "the next caller asks again");
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
        assert!(matches!(slot.take(1, Shape::Ranges), (Take::Exhausted, false)));
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
        assert!(matches!(slot.take(1, Shape::Ranges), (Take::Closed, false)));
    }
}
