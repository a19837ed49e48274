//! The ids that this node holds of one tag, and the callers that wait for more.

mod line;
mod outcome;
mod status;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use mintleaf_core::segment::{BufferView, Segment, SegmentBuffer};
use mintleaf_core::shape::Line;
use mintleaf_core::state::Protection;
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

pub(in crate::service) use self::outcome::{Arrangement, TakeOutcome, TakenNumbers};
pub use self::status::SlotStatus;
use super::guard::Guard;
use crate::limits::WAITERS_MAX;
use crate::machine::clock::Clock;
use crate::service::error::Error;

/// One tag on this node, or one line of a shaped tag. It shares its lock with no other slot, and never holds it across
/// a wait.
pub(in crate::service) struct Slot {
    tag: BizTag,
    /// The line of a shaped tag; `None` for a plain tag.
    line: Option<Box<Line>>,
    clock: Arc<dyn Clock>,
    held: Mutex<SlotState>,
}

struct SlotState {
    buffer: SegmentBuffer,
    /// The callers that wait, in order of arrival.
    waiters: VecDeque<Waiter>,
    /// Whether a caller has asked for a grab that has not begun yet.
    grab_asked: bool,
    /// Whether the ids that are held may be handed out.
    guard: Guard,
    /// Set for good once the tag is gone: the slot hands out nothing any more.
    closed: bool,
    /// Set for good once every id of the tag is reserved: no grab can bring more.
    exhausted: bool,
    /// How many ids were ever held.
    installed: u64,
    /// How many of them were gone at the last look.
    gone_at_look: u64,
}

struct Waiter {
    count: u64,
    arrangement: Arrangement,
    answer: oneshot::Sender<TakenNumbers>,
}

impl Slot {
    pub(in crate::service) fn new(tag: BizTag, steps: Steps, clock: Arc<dyn Clock>) -> Self {
        Self::holding(SegmentBuffer::new(steps), tag, clock)
    }

    /// The new slot with the segment that was reserved when its tag was created.
    pub(in crate::service) fn with_segment(self, segment: Segment, steps: Steps) -> Self {
        self.begin_grab(steps);
        self.install(segment, steps);
        self
    }

    fn holding(buffer: SegmentBuffer, tag: BizTag, clock: Arc<dyn Clock>) -> Self {
        let held = SlotState {
            buffer,
            waiters: VecDeque::new(),
            grab_asked: false,
            guard: Guard::default(),
            closed: false,
            exhausted: false,
            installed: 0,
            gone_at_look: 0,
        };
        Self { tag, line: None, clock, held: Mutex::new(held) }
    }

    pub(in crate::service) fn tag(&self) -> &BizTag {
        &self.tag
    }

    /// The next ids without a gap, up to `count_max`, when at least one is held; and whether a grab should begin
    /// now.
    #[inline]
    pub(in crate::service) fn take_some(&self, count_max: u64) -> (Option<Range<u64>>, bool) {
        let mut held = self.held.lock();
        if held.closed || !held.guard.is_open() {
            return self.take_some_guarded(held, count_max);
        }
        let ids = held.buffer.take_some(count_max, || self.clock.monotonic_ms());
        let wants_grab = ids.is_some() && held.asks_for_grab();
        (ids, wants_grab)
    }

    /// Does the same as [`take_some`](Self::take_some) where not every call passes.
    #[cold]
    fn take_some_guarded(
        &self,
        mut held: MutexGuard<'_, SlotState>,
        count_max: u64,
    ) -> (Option<Range<u64>>, bool) {
        let now_ms = self.clock.monotonic_ms();
        let available = if held.closed { 0 } else { held.guard.available(count_max, now_ms) };
        if available == 0 {
            return (None, false);
        }
        let Some(ids) = held.buffer.take_some(available, || now_ms) else { return (None, false) };
        held.guard.pay(ids.end - ids.start);
        let wants_grab = held.asks_for_grab();
        (Some(ids), wants_grab)
    }

    /// The next `count` ids, when that many are held; and whether a grab should begin now.
    pub(in crate::service) fn take_exactly(&self, count: u64) -> (Option<Vec<Range<u64>>>, bool) {
        let mut held = self.held.lock();
        if held.closed || held.guard.admit(count, || self.clock.monotonic_ms()).is_err() {
            return (None, false);
        }
        let ids = held.buffer.take(count, || self.clock.monotonic_ms());
        if ids.is_none() {
            return (None, false);
        }
        held.guard.pay(count);
        let wants_grab = held.asks_for_grab();
        (ids, wants_grab)
    }

    /// The next `count` ids, or a place in the queue; and whether a grab should begin now.
    pub(in crate::service) fn take(
        &self,
        count: u64,
        arrangement: Arrangement,
    ) -> (TakeOutcome, bool) {
        let mut held = self.held.lock();
        if held.closed {
            return (TakeOutcome::Closed, false);
        }
        if let Err(error) = held.guard.admit(count, || self.clock.monotonic_ms()) {
            return (TakeOutcome::Refused(error), false);
        }
        let take = match held.take(count, arrangement, || self.clock.monotonic_ms()) {
            Some(ranges) => TakeOutcome::Ids(ranges),
            None if held.exhausted => {
                return (TakeOutcome::Refused(Error::Exhausted), false);
            }
            None if held.waiters.len() >= WAITERS_MAX => {
                return (TakeOutcome::Refused(Error::Overloaded), false);
            }
            None => {
                let (answer, answered) = oneshot::channel();
                held.waiters.push_back(Waiter { count, arrangement, answer });
                TakeOutcome::Wait(answered)
            }
        };
        // A caller that waits has paid, so later callers do not get its ids.
        held.guard.pay(count);
        (take, held.asks_for_grab())
    }

    /// Begins the grab that was asked for and returns its size in ids; `steps` are the tag's bounds at this moment.
    /// `None` when the grab is of no use any more.
    pub(in crate::service) fn begin_grab(&self, steps: Steps) -> Option<u32> {
        let mut held = self.held.lock();
        held.grab_asked = false;
        if !held.has_use_for_more() || held.buffer.grab_in_flight() {
            return None;
        }
        let demand = held.demand();
        Some(held.buffer.begin_grab(self.clock.monotonic_ms(), steps, demand))
    }

    /// Adds the segment that a grab reserved and serves the callers that wait; true when another grab
    /// should begin.
    pub(in crate::service) fn install(&self, segment: Segment, steps: Steps) -> bool {
        let mut held = self.held.lock();
        if held.closed {
            return false;
        }
        held.installed += segment.end - segment.start;
        held.buffer.install(segment, steps, self.clock.monotonic_ms());
        held.serve(|| self.clock.monotonic_ms());
        held.has_use_for_more() && held.asks_for_grab()
    }

    /// Notes that the grab brought nothing; true when a caller still waits, so that another grab should
    /// begin.
    pub(in crate::service) fn grab_failed(&self) -> bool {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.waiters.retain(|waiter| !waiter.answer.is_closed());
        let wants_grab = !held.waiters.is_empty() && !held.grab_asked && held.has_use_for_more();
        held.grab_asked |= wants_grab;
        wants_grab
    }

    /// Notes that the tag has no ids left, and refuses the callers that wait for more than is held.
    pub(in crate::service) fn exhausted(&self) {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.exhausted = true;
        held.fail_waiters(&Error::Exhausted);
    }

    /// Ends the slot, because its tag was deleted. The waiting callers must look the tag up again: it may have been
    /// created again before they asked, and this node may have learned of neither change yet.
    pub(in crate::service) fn close(&self) {
        let mut held = self.held.lock();
        held.closed = true;
        held.waiters.clear();
    }

    /// Notes that a grab was refused for this reason, such as a frozen tag, and refuses the waiting callers for the
    /// same reason. The guard stays as it is: only this node's copy of the state changes it, and that copy may be ahead
    /// of the refusal.
    pub(in crate::service) fn grab_refused(&self, why: &Error) {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.fail_waiters(why);
    }

    /// Applies the tag's protection. If the tag is frozen, refuses the waiting callers.
    pub(in crate::service) fn protect(&self, protection: Protection) {
        let mut held = self.held.lock();
        held.guard.protect(protection, self.clock.monotonic_ms());
        if held.guard.is_frozen() {
            held.fail_waiters(&Error::Frozen);
        }
    }

    /// Gives no id below this mark from now on, neither a held one nor one that is on its way. Callers that wait for
    /// ids go on waiting.
    pub(in crate::service) fn rise_to(&self, mark: u64) {
        self.held.lock().buffer.rise_to(mark);
    }

    /// Whether a call for `count` ids would pass the tag's guard now. Deducts nothing from its rate limit.
    ///
    /// # Errors
    /// As for [`Guard::admit`].
    pub(in crate::service) fn would_admit(&self, count: u64) -> Result<(), Error> {
        self.held.lock().guard.admit(count, || self.clock.monotonic_ms())
    }

    /// How many of the held ids may be handed out, even if not all at once.
    pub(in crate::service) fn remaining(&self) -> u64 {
        let held = self.held.lock();
        if held.has_use_for_more() { held.buffer.remaining() } else { 0 }
    }

    /// How many ids were taken since the last call, and how many are held. Ids that were skipped, for a run without a
    /// gap or for a raised mark, count as taken.
    pub(in crate::service) fn taken_since_look(&self) -> (u64, u64) {
        let mut held = self.held.lock();
        let remaining = held.buffer.remaining();
        let gone = held.installed - remaining;
        (gone - std::mem::replace(&mut held.gone_at_look, gone), remaining)
    }

    /// Whether a grab may bring ids.
    pub(in crate::service) fn lets_grab(&self) -> bool {
        let held = self.held.lock();
        held.has_use_for_more() && !held.exhausted
    }

    /// Whether a grab should begin because nothing is held; if so, the slot counts it as asked for, and the caller
    /// must ask.
    pub(in crate::service) fn wants_first_grab(&self) -> bool {
        let mut held = self.held.lock();
        let possible = !held.exhausted && held.has_use_for_more() && !held.buffer.grab_in_flight();
        let wants_grab = possible && !held.grab_asked && held.buffer.remaining() == 0;
        held.grab_asked |= wants_grab;
        wants_grab
    }

    /// What is held, and how it is used.
    pub(in crate::service) fn status(&self) -> SlotStatus {
        let held = self.held.lock();
        let outlook = held.buffer.outlook(self.clock.monotonic_ms());
        let waiting = held.waiters.iter().filter(|waiter| !waiter.answer.is_closed()).count();
        SlotStatus {
            handed_out: held.installed - outlook.remaining,
            outlook,
            waiting,
            is_open: held.has_use_for_more(),
            exhausted: held.exhausted,
            period: self.period(),
        }
    }

    pub(in crate::service) fn view(&self) -> BufferView {
        self.held.lock().buffer.view()
    }
}

impl SlotState {
    /// Whether more ids could be handed out.
    fn has_use_for_more(&self) -> bool {
        !self.closed && !self.guard.is_frozen()
    }

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

    /// How many ids the waiting callers need. Ids that are held do not count: callers that come later may take them,
    /// and the waiting ones must not come up short because of that.
    fn demand(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.count).sum()
    }

    /// Serves the waiting callers in order of arrival. A caller that wants more than is held does not hold up the
    /// callers behind it: the next grab is sized for all that still wait.
    fn serve(&mut self, now_ms: impl Fn() -> u64) {
        let mut unserved = VecDeque::new();
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.answer.is_closed() {
                continue;
            }
            match self.take(waiter.count, waiter.arrangement, &now_ms) {
                // If the caller gives up at this very moment, the ids are wasted, not repeated.
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
mod tests;
