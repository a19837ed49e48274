//! The ids that this node holds of one tag, and the callers that wait for more.

mod gate;
mod line;
mod outcome;
mod status;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use mintleaf_core::segment::{BufferView, Segment, SegmentBuffer};
use mintleaf_core::shape::Line;
use mintleaf_core::state::Protection;
use mintleaf_core::tag::BizTag;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use self::gate::Gate;
pub(super) use self::outcome::{Arrangement, TakeOutcome, TakenNumbers};
pub use self::status::SlotStatus;
use super::error::Error;
use super::rate_limit::RateLimit;
use crate::limits::WAITERS_MAX;
use crate::machine::clock::Clock;

/// One tag on this node, or one line of a shaped tag. Its lock is shared with no other and never held across a wait.
pub(super) struct Slot {
    tag: BizTag,
    /// The line of a shaped tag; `None` of a plain tag.
    line: Option<Box<Line>>,
    clock: Arc<dyn Clock>,
    held: Mutex<SlotState>,
}

struct SlotState {
    buffer: SegmentBuffer,
    /// The callers that wait, in order of arrival.
    waiters: VecDeque<Waiter>,
    /// Whether a grab was asked for that has not begun.
    grab_asked: bool,
    /// Whether the ids that are held may be handed out.
    gate: Gate,
    /// Set for good once every id of the tag is reserved: no grab can bring more.
    exhausted: bool,
    /// The bucket of the last rate limit. It stays when that limit is lifted, so a limit that is set again does not
    /// forgive a debt. `None` before the first limit.
    limit: Option<Box<RateLimit>>,
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
    pub(super) fn new(tag: BizTag, step: u32, clock: Arc<dyn Clock>) -> Self {
        Self::holding(SegmentBuffer::new(step), tag, clock)
    }

    /// The new slot with the segment that was reserved when its tag was created.
    pub(super) fn with_segment(self, segment: Segment, step: u32) -> Self {
        self.begin_grab(step);
        self.install(segment, step);
        self
    }

    fn holding(buffer: SegmentBuffer, tag: BizTag, clock: Arc<dyn Clock>) -> Self {
        let held = SlotState {
            buffer,
            waiters: VecDeque::new(),
            grab_asked: false,
            gate: Gate::Open,
            exhausted: false,
            limit: None,
            installed: 0,
            gone_at_look: 0,
        };
        Self { tag, line: None, clock, held: Mutex::new(held) }
    }

    pub(super) fn tag(&self) -> &BizTag {
        &self.tag
    }

    /// The next ids without a gap, up to `count_max`, when one is held; and whether a grab should begin
    /// now.
    #[inline]
    pub(super) fn take_some(&self, count_max: u64) -> (Option<Range<u64>>, bool) {
        let mut held = self.held.lock();
        if held.gate != Gate::Open {
            return self.take_some_guarded(held, count_max);
        }
        let ids = held.buffer.take_some(count_max, || self.clock.monotonic_ms());
        let wants_grab = ids.is_some() && held.asks_for_grab();
        (ids, wants_grab)
    }

    /// As [`take_some`](Self::take_some), where the gate is not open.
    #[cold]
    fn take_some_guarded(
        &self,
        mut held: MutexGuard<'_, SlotState>,
        count_max: u64,
    ) -> (Option<Range<u64>>, bool) {
        let now_ms = self.clock.monotonic_ms();
        let available = match (held.gate, &mut held.limit) {
            (Gate::Limited, Some(limit)) => limit.available(now_ms).min(count_max),
            _ => 0,
        };
        if available == 0 {
            return (None, false);
        }
        let Some(ids) = held.buffer.take_some(available, || now_ms) else { return (None, false) };
        held.pay(ids.end - ids.start);
        let wants_grab = held.asks_for_grab();
        (Some(ids), wants_grab)
    }

    /// The next `count` ids, when as many are held; and whether a grab should begin now.
    pub(super) fn take_exactly(&self, count: u64) -> (Option<Vec<Range<u64>>>, bool) {
        let mut held = self.held.lock();
        if held.gate != Gate::Open && held.admit(count, self.clock.monotonic_ms()).is_err() {
            return (None, false);
        }
        let ids = held.buffer.take(count, || self.clock.monotonic_ms());
        if ids.is_none() {
            return (None, false);
        }
        held.pay(count);
        let wants_grab = held.asks_for_grab();
        (ids, wants_grab)
    }

    /// The next `count` ids, or a place in the queue; and whether a grab should begin now.
    pub(super) fn take(&self, count: u64, arrangement: Arrangement) -> (TakeOutcome, bool) {
        let mut held = self.held.lock();
        if held.gate != Gate::Open
            && let Err(refusal) = held.admit(count, self.clock.monotonic_ms())
        {
            return (refusal, false);
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
        held.pay(count);
        (take, held.asks_for_grab())
    }

    /// Begins the grab that was asked for and returns its size in ids; `step` is the tag's own step at this moment.
    /// `None` when there is no use for the grab any more.
    pub(super) fn begin_grab(&self, step: u32) -> Option<u32> {
        let mut held = self.held.lock();
        held.grab_asked = false;
        if !held.gate.lets_grab() || held.buffer.grab_in_flight() {
            return None;
        }
        let demand = held.demand();
        Some(held.buffer.begin_grab(self.clock.monotonic_ms(), step, demand))
    }

    /// Adds the segment that a grab reserved and serves the callers that wait; true when another grab
    /// should begin.
    pub(super) fn install(&self, segment: Segment, step: u32) -> bool {
        let mut held = self.held.lock();
        if held.gate == Gate::Closed {
            return false;
        }
        held.installed += segment.end - segment.start;
        held.buffer.install(segment, step, self.clock.monotonic_ms());
        held.serve(|| self.clock.monotonic_ms());
        held.gate.lets_grab() && held.asks_for_grab()
    }

    /// Notes that the grab brought nothing; true when a caller still waits, so that another should
    /// begin.
    pub(super) fn grab_failed(&self) -> bool {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.waiters.retain(|waiter| !waiter.answer.is_closed());
        let wants_grab = !held.waiters.is_empty() && !held.grab_asked && held.gate.lets_grab();
        held.grab_asked |= wants_grab;
        wants_grab
    }

    /// Notes that the tag has no ids left, and refuses the callers that wait for more than is held.
    pub(super) fn exhausted(&self) {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.exhausted = true;
        held.fail_waiters(&Error::Exhausted);
    }

    /// Ends the slot, because its tag was deleted. The waiting callers must look the tag up again: it may have been
    /// created anew before they asked, and this node may not have learned of either yet.
    pub(super) fn close(&self) {
        let mut held = self.held.lock();
        held.gate = Gate::Closed;
        held.waiters.clear();
    }

    /// Notes that a grab was refused for this reason, such as a frozen tag, and refuses the waiting callers for the
    /// same reason. The gate stays as it is: this node's copy of the state, which moves it, may be ahead of that
    /// answer.
    pub(super) fn grab_refused(&self, why: &Error) {
        let mut held = self.held.lock();
        held.buffer.grab_failed();
        held.fail_waiters(why);
    }

    /// Moves the gate as the tag's protection says. If the tag is frozen, the waiting callers are refused.
    pub(super) fn protect(&self, protection: Protection) {
        let mut held = self.held.lock();
        if held.gate == Gate::Closed {
            return;
        }
        let now_ms = self.clock.monotonic_ms();
        let before = held.limit.take();
        held.limit = match protection.rate_limit {
            Some(rate) => {
                let before = before.map(|limit| *limit);
                Some(Box::new(RateLimit::following(before, rate, now_ms)))
            }
            None => before,
        };
        held.gate = match protection.rate_limit {
            _ if protection.frozen => Gate::Frozen,
            Some(_) => Gate::Limited,
            None => Gate::Open,
        };
        if held.gate == Gate::Frozen {
            held.fail_waiters(&Error::Frozen);
        }
    }

    /// Gives no id below this mark from now on, neither a held one nor one that is on its way. Callers that wait for
    /// ids go on waiting.
    pub(super) fn rise_to(&self, mark: u64) {
        self.held.lock().buffer.rise_to(mark);
    }

    /// Whether the rate limit would let a call for `count` ids through now. Takes nothing out of it.
    ///
    /// # Errors
    /// As for [`RateLimit::admit`].
    pub(super) fn check_rate_limit(&self, count: u64) -> Result<(), Error> {
        let mut held = self.held.lock();
        match (held.gate, &mut held.limit) {
            (Gate::Limited, Some(limit)) => limit.admit(self.clock.monotonic_ms(), count),
            _ => Ok(()),
        }
    }

    /// Whether the tag is frozen.
    pub(super) fn is_frozen(&self) -> bool {
        self.held.lock().gate == Gate::Frozen
    }

    /// How many ids are held that may be handed out, even if not all at once.
    pub(super) fn remaining(&self) -> u64 {
        let held = self.held.lock();
        if held.gate.lets_grab() { held.buffer.remaining() } else { 0 }
    }

    /// How many ids were taken since the last call, and how many are held. Ids that were skipped, for a run without a
    /// gap or for a raised mark, count as taken.
    pub(super) fn taken_since_look(&self) -> (u64, u64) {
        let mut held = self.held.lock();
        let remaining = held.buffer.remaining();
        let gone = held.installed - remaining;
        (gone - std::mem::replace(&mut held.gone_at_look, gone), remaining)
    }

    /// Whether a grab may bring ids.
    pub(super) fn lets_grab(&self) -> bool {
        let held = self.held.lock();
        held.gate.lets_grab() && !held.exhausted
    }

    /// Whether a grab should begin because nothing is held; if so, the slot counts it as asked for, and the caller
    /// must ask.
    pub(super) fn wants_first_grab(&self) -> bool {
        let mut held = self.held.lock();
        let possible = !held.exhausted && held.gate.lets_grab() && !held.buffer.grab_in_flight();
        let wants_grab = possible && !held.grab_asked && held.buffer.remaining() == 0;
        held.grab_asked |= wants_grab;
        wants_grab
    }

    /// What is held, and how it is used.
    pub(super) fn status(&self) -> SlotStatus {
        let held = self.held.lock();
        let outlook = held.buffer.outlook(self.clock.monotonic_ms());
        let waiting = held.waiters.iter().filter(|waiter| !waiter.answer.is_closed()).count();
        SlotStatus::new(outlook, held.installed, waiting, held.exhausted)
            .open(held.gate.lets_grab())
            .of_period(self.period())
    }

    pub(super) fn view(&self) -> BufferView {
        self.held.lock().buffer.view()
    }
}

impl SlotState {
    /// Whether a call for `count` ids is let through.
    ///
    /// # Errors
    /// The outcome of the call, if it is not.
    fn admit(&mut self, count: u64, now_ms: u64) -> Result<(), TakeOutcome> {
        match (self.gate, &mut self.limit) {
            (Gate::Closed, _) => Err(TakeOutcome::Closed),
            (Gate::Frozen, _) => Err(TakeOutcome::Refused(Error::Frozen)),
            (_, Some(limit)) => limit.admit(now_ms, count).map_err(TakeOutcome::Refused),
            (_, None) => Ok(()),
        }
    }

    /// Takes the ids of a call that was let through out of what the rate limit allows.
    fn pay(&mut self, count: u64) {
        if self.gate == Gate::Limited
            && let Some(limit) = &mut self.limit
        {
            limit.pay(count);
        }
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

    /// Serves the waiting callers in order of arrival. A caller who wants more than is held does not
    /// hold up those behind: the next grab is sized for all that still wait.
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
