//! One shaped tag on this node: which number line it is drawn from at a moment, what is held of that, and how its ids
//! are written.

use std::sync::Arc;

use mintleaf_core::limits::PERIOD_SKEW_MS;
use mintleaf_core::segment::BufferView;
use mintleaf_core::shape::{Calendar, IdText, Line, PeriodNumber, PeriodSpan, Shape};
use mintleaf_core::state::{Protection, TagRow};
use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;

use crate::machine::clock::Clock;
use crate::service::error::Error;
use crate::service::rate_limit::RateLimit;
use crate::service::slot::{Slot, SlotStatus};

/// One shaped tag on one node. Its lock is shared with no other tag and never held across a wait.
pub(in crate::service) struct ShapedTag {
    tag: BizTag,
    step: u32,
    shape: Arc<Shape>,
    /// `None` where there are no periods.
    calendar: Option<Calendar>,
    clock: Arc<dyn Clock>,
    open: Mutex<OpenLines>,
}

/// The lines that ids are taken from at this time: one, and around the end of a period that and the next.
#[derive(Default)]
struct OpenLines {
    lines: Vec<Arc<TagLine>>,
    protection: Protection,
    /// The bucket of a tag that only the leader hands out. `None` before the first rate limit, and for a tag whose
    /// slots have the buckets.
    limit: Option<RateLimit>,
    /// Set for good once the tag is gone.
    closed: bool,
}

/// One number line of a tag on one node.
pub(in crate::service) struct TagLine {
    /// `None` of the one line of a tag without periods.
    span: Option<PeriodSpan>,
    text: Arc<IdText>,
    /// What this node holds of it; `None` where only the leader hands out.
    slot: Option<Arc<Slot>>,
}

impl ShapedTag {
    /// # Errors
    /// [`Error::Unavailable`] where this build does not know the tag's time zone.
    pub(in crate::service) fn new(
        row: &TagRow,
        shape: &Arc<Shape>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let calendar = match &shape.period {
            None => None,
            Some(period) => Some(Calendar::of(period).ok_or_else(|| {
                Error::unavailable(format!(
                    "this node's build does not know the time zone {}",
                    period.time_zone
                ))
            })?),
        };
        let (tag, shape) = (row.tag.clone(), Arc::clone(shape));
        let new = Self { tag, step: row.step, shape, calendar, clock, open: Mutex::default() };
        new.protect(row.protection);
        Ok(new)
    }

    pub(in crate::service) fn tag(&self) -> &BizTag {
        &self.tag
    }

    pub(in crate::service) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// Whether this node holds ids of it without the leader.
    pub(super) fn has_slots(&self) -> bool {
        !self.shape.needs_leadership()
    }

    pub(super) fn has_periods(&self) -> bool {
        self.calendar.is_some()
    }

    /// The line that ids are taken from at this moment of the cluster's time; `None` when the tag is gone. What is held
    /// of a period that ended or begins further away than the skew is not handed out from here on.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no period lies there.
    pub(in crate::service) fn line_at(&self, now_ms: u64) -> Result<Option<Arc<TagLine>>, Error> {
        let mut open = self.open.lock();
        if open.closed {
            return Ok(None);
        }
        open.lines.retain(|line| {
            let stays = line.is_served_at(now_ms);
            if !stays {
                line.close();
            }
            stays
        });
        if let Some(line) = open.lines.iter().find(|line| line.is_now(now_ms)) {
            return Ok(Some(Arc::clone(line)));
        }
        let span = match &self.calendar {
            None => None,
            Some(calendar) => Some(calendar.period_at(now_ms).ok_or_else(|| {
                Error::unavailable("the cluster's clock is outside the years that have periods")
            })?),
        };
        let line = Arc::new(self.line(span));
        if let Some(slot) = &line.slot {
            slot.protect(open.protection);
        }
        open.lines.push(Arc::clone(&line));
        Ok(Some(line))
    }

    fn line(&self, span: Option<PeriodSpan>) -> TagLine {
        let text = Arc::new(IdText::new(
            &self.shape.hidden,
            &self.shape.format,
            span.map(|span| span.number),
        ));
        let slot = self.has_slots().then(|| {
            let line = span.map_or(Line::Whole, |span| span.line());
            let (tag, end) = (self.tag.clone(), self.shape.line_end());
            Arc::new(Slot::of_line(tag, line, end, self.step, Arc::clone(&self.clock)))
        });
        TagLine { span, text, slot }
    }

    /// Admits a call for `count` ids or numbers that only the leader hands out, and takes them out of what the rate
    /// limit allows on this node.
    ///
    /// # Errors
    /// [`Error::Frozen`], [`Error::OverRateLimit`] and [`Error::CountOverRateLimit`].
    pub(in crate::service) fn admit(&self, count: u64) -> Result<(), Error> {
        let mut open = self.open.lock();
        open.admit(self.clock.monotonic_ms(), count)?;
        if let Some(limit) = open.limit_now() {
            limit.pay(count);
        }
        Ok(())
    }

    /// Whether [`admit`](Self::admit) would let a call for `count` ids through now. Takes nothing out of the limit.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub(super) fn would_admit(&self, count: u64) -> Result<(), Error> {
        self.open.lock().admit(self.clock.monotonic_ms(), count)
    }

    /// How many of `count` calls for one id each [`admit`](Self::admit) would let through now, as far as the rate limit
    /// goes.
    pub(in crate::service) fn passed_now(&self, count: u64) -> u64 {
        match self.open.lock().limit_now() {
            Some(limit) => limit.available(self.clock.monotonic_ms()).min(count),
            None => count,
        }
    }

    /// Gives up a slot, as no grab of its line is let in. The callers that wait look again which line is now.
    pub(super) fn drop_slot(&self, slot: &Arc<Slot>) {
        let is_its = |line: &TagLine| line.slot.as_ref().is_some_and(|its| Arc::ptr_eq(its, slot));
        self.open.lock().lines.retain(|line| !is_its(line));
        slot.close();
    }

    pub(in crate::service) fn protect(&self, protection: Protection) {
        let mut open = self.open.lock();
        open.protection = protection;
        if self.shape.needs_leadership() {
            let (before, now_ms) = (open.limit.take(), self.clock.monotonic_ms());
            open.limit = match protection.rate_limit {
                Some(rate) => Some(RateLimit::following(before, rate, now_ms)),
                None => before,
            };
        }
        open.lines.iter().filter_map(|line| line.slot()).for_each(|slot| slot.protect(protection));
    }

    /// Ends the tag on this node.
    pub(super) fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        open.lines.drain(..).for_each(|line| line.close());
    }

    /// The slots of all lines, that of the latest last.
    pub(super) fn slots(&self) -> Vec<Arc<Slot>> {
        self.open.lock().lines.iter().filter_map(|line| line.slot().cloned()).collect()
    }

    /// What is held of the latest line that is served at this moment of the cluster's time. Where the time is unknown,
    /// of the line that was opened last. `None` where nothing is held.
    pub(in crate::service) fn status(&self, now_ms: Option<u64>) -> Option<SlotStatus> {
        let open = self.open.lock();
        let is_served = |line: &&Arc<TagLine>| now_ms.is_none_or(|at| line.is_served_at(at));
        let line = open.lines.iter().rev().find(is_served)?;
        Some(line.slot()?.status())
    }

    /// What is held of the line that was opened last.
    pub(super) fn view(&self) -> Option<BufferView> {
        self.slots().last().map(|slot| slot.view())
    }
}

impl OpenLines {
    /// The bucket, while the tag has a rate limit.
    fn limit_now(&mut self) -> Option<&mut RateLimit> {
        self.limit.as_mut().filter(|_| self.protection.rate_limit.is_some())
    }

    fn admit(&mut self, now_ms: u64, count: u64) -> Result<(), Error> {
        if self.protection.frozen {
            return Err(Error::Frozen);
        }
        self.limit_now().map_or(Ok(()), |limit| limit.admit(now_ms, count))
    }
}

impl TagLine {
    pub(in crate::service) fn text(&self) -> &Arc<IdText> {
        &self.text
    }

    /// Its number line.
    pub(in crate::service) fn line(&self) -> Line {
        self.span.map_or(Line::Whole, |span| span.line())
    }

    /// The period that it is of.
    pub(in crate::service) fn period(&self) -> Option<PeriodNumber> {
        self.span.map(|span| span.number)
    }

    pub(super) fn slot(&self) -> Option<&Arc<Slot>> {
        self.slot.as_ref()
    }

    /// Whether its ids may be handed out at this moment of the cluster's time.
    pub(in crate::service) fn is_served_at(&self, now_ms: u64) -> bool {
        self.span.is_none_or(|span| span.holds(now_ms, PERIOD_SKEW_MS))
    }

    /// Whether it is the line of this moment.
    fn is_now(&self, now_ms: u64) -> bool {
        self.span.is_none_or(|span| span.holds(now_ms, 0))
    }

    fn close(&self) {
        if let Some(slot) = &self.slot {
            slot.close();
        }
    }
}
