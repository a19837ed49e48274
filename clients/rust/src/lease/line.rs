//! One line: a tag or the snowflakes, its leases, the calls that wait for ids, and when the next lease is asked for.
//!
//! A [`Line`] takes events and returns a [`Step`]: the replies to send, and the request to send to a node. It
//! is used under a lock. Its cursor hands out the front range of the current lease without that lock. Each step
//! therefore takes this range back first, so that it sees everything that is held, and installs it again at the
//! end.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::cursor::{Cursor, Installed, NEVER, TAKE_MAX};
use super::ranges::{Lease, len};
use super::sizing::{Rules, Sizing};
use crate::error::Error;

/// The largest number of calls that wait on one line.
pub(crate) const CALLS_MAX: usize = 10_000;
/// A handle takes one eighth of a lease at once.
const BLOCKS_OF_A_LEASE: u64 = 8;

/// What all lines of a kind share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The rules for sizes.
    pub(crate) rules: Rules,
    /// How long a lease may be used after its answer; `None`: without end.
    pub(crate) fresh_for: Option<Duration>,
    /// How long a flight may take that asks for a lease before any call waits.
    pub(crate) ahead: Duration,
    /// Whether ids of this kind are known to be leasable before any answer says so.
    pub(crate) is_leased: bool,
}

/// A call that waits, and what it waits for.
#[derive(Debug)]
pub(crate) struct Call<W> {
    /// How many ids it wants in total, 1 or more.
    pub(crate) count: u64,
    /// What it has already.
    pub(crate) got: Vec<Range<u64>>,
    /// When it fails.
    pub(crate) deadline: Duration,
    /// Where its reply goes.
    pub(crate) reply: W,
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Its ids.
    Ids(Vec<Range<u64>>),
    /// Its ids as the node wrote them.
    Listed(Vec<String>),
    /// Why it has none.
    Failed(Error),
}

/// What a flight asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// How many ids.
    pub(crate) count: u64,
    /// Whether it asks for ranges. Otherwise it asks for a list, which serves the first call.
    pub(crate) as_ranges: bool,
    /// When the flight ends.
    pub(crate) deadline: Duration,
}

/// What the caller must do after an event.
#[derive(Debug)]
pub(crate) struct Step<W> {
    /// Calls that end, with their replies.
    pub(crate) replies: Vec<(W, Reply)>,
    /// A flight to start.
    pub(crate) flight: Option<Order>,
    /// Calls that each send their own request to a node.
    pub(crate) own: Vec<Call<W>>,
}

impl<W> Default for Step<W> {
    fn default() -> Self {
        Self { replies: Vec::new(), flight: None, own: Vec::new() }
    }
}

/// Whether ids of a line can be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Unknown,
    Leased,
    /// Answers say `"lease": false`.
    ByCall,
}

/// The state of one line. `W` identifies the waiting caller.
#[derive(Debug)]
pub(crate) struct Line<W> {
    kind: Kind,
    shape: Shape,
    /// The current lease and the next. If `is_installed`, the cursor has the current lease's front range.
    leases: VecDeque<Lease>,
    is_installed: bool,
    calls: VecDeque<Numbered<W>>,
    /// The number of the next call.
    next_number: u64,
    /// Calls that are sending their own requests now.
    own_calls: usize,
    is_flying: bool,
    /// The call that the flight's list is for.
    asker: Option<u64>,
    sizing: Sizing,
    /// Ids handed out so far, and the same count when the last lease was asked for.
    handed: u64,
    handed_when_asked: u64,
    /// The error of the last failed attempt.
    met: Option<Error>,
    /// The endpoint that reported the tag's rate limit as used up, and until when.
    limited: Option<(usize, Duration)>,
    is_closed: bool,
}

#[derive(Debug)]
struct Numbered<W> {
    number: u64,
    /// How many ids it still lacks.
    lacks: u64,
    call: Call<W>,
}

impl<W> Line<W> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            shape: if kind.is_leased { Shape::Leased } else { Shape::Unknown },
            leases: VecDeque::new(),
            is_installed: false,
            calls: VecDeque::new(),
            next_number: 0,
            own_calls: 0,
            is_flying: false,
            asker: None,
            sizing: Sizing::new(kind.rules),
            handed: 0,
            handed_when_asked: 0,
            met: None,
            limited: None,
            is_closed: false,
        }
    }

    /// A call wants more than the cursor had for it.
    pub(crate) fn want(&mut self, cursor: &Cursor, now: Duration, call: Call<W>) -> Step<W> {
        let mut step = Step::default();
        if self.is_closed {
            step.replies.push((call.reply, Reply::Failed(Error::Closed)));
        } else if self.calls.len() + self.own_calls >= CALLS_MAX {
            step.replies.push((call.reply, Reply::Failed(Error::Overloaded)));
        } else if self.shape == Shape::ByCall {
            self.own_calls += 1;
            step.own.push(call);
        } else {
            let lacks = call.count.saturating_sub(call.got.iter().map(len).sum());
            self.calls.push_back(Numbered { number: self.next_number, lacks, call });
            self.next_number += 1;
            self.settle(cursor, now, &mut step);
        }
        step
    }

    /// A taker took the id that marks when to ask for the next lease.
    pub(crate) fn half_used(&mut self, cursor: &Cursor, now: Duration) -> Step<W> {
        let mut step = Step::default();
        self.settle(cursor, now, &mut step);
        step
    }

    /// The flight returned ids that may be kept.
    pub(crate) fn landed(
        &mut self,
        cursor: &Cursor,
        now: Duration,
        ranges: Vec<Range<u64>>,
    ) -> Step<W> {
        let mut step = Step::default();
        if self.is_closed {
            return step;
        }
        (self.is_flying, self.shape, self.met) = (false, Shape::Leased, None);
        let stale_at = self.kind.fresh_for.map(|fresh_for| now + fresh_for);
        self.leases.push_back(Lease::new(ranges, stale_at));
        self.settle(cursor, now, &mut step);
        step
    }

    /// The flight's answer says that its ids must not be kept. `listed` is for the call that asked.
    pub(crate) fn not_for_keeping(
        &mut self,
        cursor: &Cursor,
        now: Duration,
        listed: Option<Vec<String>>,
    ) -> Step<W> {
        let mut step = Step::default();
        if self.is_closed {
            return step;
        }
        (self.is_flying, self.shape, self.met) = (false, Shape::ByCall, None);
        if let Some(listed) = listed
            && self.calls.front().map(|first| first.number) == self.asker
            && let Some(first) = self.calls.pop_front()
        {
            step.replies.push((first.call.reply, Reply::Listed(listed)));
        }
        self.own_calls += self.calls.len();
        step.own.extend(self.calls.drain(..).map(|waiting| waiting.call));
        self.settle(cursor, now, &mut step);
        step
    }

    /// The flight asked for more ids than one request may have of the tag. The next one asks for `count_max`.
    pub(crate) fn too_many(&mut self, cursor: &Cursor, now: Duration, count_max: u64) -> Step<W> {
        self.is_flying = false;
        self.sizing.at_most(count_max);
        self.half_used(cursor, now)
    }

    /// The flight was refused, and with it every call that waits.
    pub(crate) fn refused(&mut self, cursor: &Cursor, now: Duration, error: &Error) -> Step<W> {
        let mut step = Step::default();
        self.is_flying = false;
        self.forget_shape(error);
        let failed = self.calls.drain(..).map(|waiting| waiting.call.reply);
        step.replies.extend(failed.map(|reply| (reply, Reply::Failed(error.clone()))));
        self.postpone(cursor);
        self.settle(cursor, now, &mut step);
        step
    }

    /// The flight ran out of time.
    pub(crate) fn gave_up(&mut self, cursor: &Cursor, now: Duration) -> Step<W> {
        let mut step = self.expire(now);
        self.is_flying = false;
        self.postpone(cursor);
        self.settle(cursor, now, &mut step);
        step
    }

    /// Ends the calls whose time is over. All calls of a client wait equally long, so the oldest ends first.
    pub(crate) fn expire(&mut self, now: Duration) -> Step<W> {
        let mut step = Step::default();
        let nothing_yet = || Error::Unavailable("no answer yet".to_owned());
        while let Some(first) = self.calls.pop_front_if(|first| first.call.deadline <= now) {
            let error = self.met.clone().unwrap_or_else(nothing_yet);
            step.replies.push((first.call.reply, Reply::Failed(error)));
        }
        step
    }

    /// When the first call must end.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.calls.front().map(|first| first.call.deadline)
    }

    /// Notes the error of an attempt. Calls that run out of time before an answer fail with it.
    pub(crate) fn met(&mut self, error: Error) {
        self.met = Some(error);
    }

    /// An endpoint reports that the tag's rate limit is used up there until this time.
    pub(crate) fn rate_limited(&mut self, endpoint: usize, until: Duration) {
        self.limited = Some((endpoint, until));
        self.sizing.halve();
    }

    /// The endpoint to ask next, and the earliest time to ask it.
    pub(crate) fn limited(&self, now: Duration) -> Option<(usize, Duration)> {
        self.limited.filter(|(_, until)| *until > now)
    }

    /// A call that sent its own request has ended, perhaps with a refusal.
    pub(crate) fn own_call_ended(&mut self, error: Option<&Error>) {
        self.own_calls = self.own_calls.saturating_sub(1);
        if let Some(error) = error {
            self.forget_shape(error);
        }
    }

    /// Throws away what is held. The line hands out nothing from then on.
    pub(crate) fn close(&mut self, cursor: &Cursor) -> Step<W> {
        let mut step = Step::default();
        self.is_closed = true;
        self.take_back(cursor);
        self.leases.clear();
        let ended = self.calls.drain(..).map(|waiting| waiting.call.reply);
        step.replies.extend(ended.map(|reply| (reply, Reply::Failed(Error::Closed))));
        step
    }

    /// Serves the waiting calls, in their order, from what is held. Then orders the next lease and leaves the
    /// rest to the cursor.
    fn settle(&mut self, cursor: &Cursor, now: Duration, step: &mut Step<W>) {
        self.take_back(cursor);
        self.leases.retain(|lease| lease.stale_at.is_none_or(|stale_at| now < stale_at));
        while let Some(first) = self.calls.front_mut() {
            for lease in &mut self.leases {
                let given = lease.give(first.lacks, &mut first.call.got);
                first.lacks -= given;
                self.handed += given;
            }
            if first.lacks > 0 {
                break;
            }
            let Some(first) = self.calls.pop_front() else { break };
            step.replies.push((first.call.reply, Reply::Ids(first.call.got)));
        }
        self.leases.retain(|lease| !lease.ranges.is_empty());
        if !self.is_flying && !self.is_closed {
            step.flight = self.order(now);
            self.is_flying = step.flight.is_some();
        }
        self.install(cursor);
    }

    fn order(&mut self, now: Duration) -> Option<Order> {
        let first = self.calls.front();
        let deadline = first.map_or(now + self.kind.ahead, |first| first.call.deadline);
        self.asker = first.map(|first| first.number);
        match self.shape {
            Shape::ByCall => None,
            Shape::Unknown => {
                let count = first?.call.count;
                Some(Order { count, as_ranges: false, deadline })
            }
            Shape::Leased => {
                let is_half_used =
                    self.leases.len() == 1 && self.leases.iter().all(Lease::is_used_to_its_mark);
                if first.is_none() && !is_half_used {
                    return None;
                }
                let waiting = self.calls.iter().map(|waiting| waiting.lacks).sum();
                let used = self.handed - self.handed_when_asked;
                self.handed_when_asked = self.handed;
                let count = self.sizing.next(now, used, waiting);
                Some(Order { count, as_ranges: true, deadline })
            }
        }
    }

    /// Takes the front range back from the cursor.
    fn take_back(&mut self, cursor: &Cursor) {
        if !std::mem::take(&mut self.is_installed) {
            return;
        }
        let left = cursor.recall();
        let Some(present) = self.leases.front_mut() else { return };
        let Some(front) = present.ranges.pop_front() else { return };
        self.handed += len(&front) - len(&left);
        if !left.is_empty() {
            present.ranges.push_front(left);
        }
    }

    /// Gives the front range to the cursor.
    fn install(&mut self, cursor: &Cursor) {
        let is_last = self.leases.len() == 1;
        let Some(present) = self.leases.front() else { return };
        let Some(ids) = present.ranges.front().cloned() else { return };
        let asks = is_last && !self.is_flying && self.shape == Shape::Leased;
        let refill_at = present.mark.saturating_sub(present.used()).saturating_sub(1);
        let refill_at = if asks && refill_at < len(&ids) { refill_at } else { NEVER };
        let stale_at = present.stale_at.map_or(NEVER, nanos);
        let block = (present.total / BLOCKS_OF_A_LEASE).clamp(1, TAKE_MAX);
        // When no epochs are left the range stays here, and calls get its ids under the lock.
        self.is_installed = cursor.install(Installed { ids, refill_at, stale_at, block }).is_ok();
    }

    /// After a failure, the next lease is asked for when half of the remaining ids are used.
    fn postpone(&mut self, cursor: &Cursor) {
        self.take_back(cursor);
        if let Some(present) = self.leases.front_mut() {
            present.move_mark();
        }
    }

    fn forget_shape(&mut self, error: &Error) {
        if let Error::Refused(refusal) = error
            && matches!(refusal.status, 400 | 404)
            && !self.kind.is_leased
        {
            self.shape = Shape::Unknown;
        }
    }
}

/// A time of the client's clock in the form that the cursor uses.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests;
