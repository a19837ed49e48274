//! A shaped tag on this node: which of its number lines is in use at a moment, what this node holds of that line, and
//! how the tag's ids are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mintleaf_core::limits::PERIOD_SKEW_MS;
use mintleaf_core::segment::BufferView;
use mintleaf_core::shape::id_text::IdText;
use mintleaf_core::shape::{Calendar, Giver, Line, PeriodNumber, PeriodSpan, Shape};
use mintleaf_core::state::{Protection, TagRow};
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;

use super::guard::Guard;
use super::slot::{Slot, SlotStatus};
use crate::machine::clock::Clock;
use crate::service::error::Error;

/// The lines of one shaped tag on one node. They share their lock with no other tag, and never hold it across a wait.
/// None is ever open of a sequence, because its keys select the line.
pub(in crate::service) struct Lines {
    tag: BizTag,
    steps: Steps,
    shape: Arc<Shape>,
    /// `None` for a tag without periods.
    calendar: Option<Calendar>,
    clock: Arc<dyn Clock>,
    open: Mutex<OpenLines>,
    /// How many ids callers took that the leader handed out.
    taken: AtomicU64,
}

/// The lines in present use: as a rule one; around the end of a period, its line and the next.
#[derive(Default)]
struct OpenLines {
    lines: Vec<Arc<TagLine>>,
    /// The protection that a line's slot begins with.
    protection: Protection,
    /// The guard for ids that the leader hands out. Each slot has its own guard.
    guard: Guard,
    /// Set for good once the tag is gone.
    closed: bool,
}

/// One number line of a tag on one node.
pub(in crate::service) struct TagLine {
    /// `None` for the one line of a tag without periods.
    span: Option<PeriodSpan>,
    text: Arc<IdText>,
    /// What this node holds of the line; `None` where only the leader hands out ids.
    slot: Option<Arc<Slot>>,
}

impl Lines {
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
        let (steps, open, taken) = (row.steps(), Mutex::default(), AtomicU64::new(0));
        let new = Self { tag, steps, shape, calendar, clock, open, taken };
        new.protect(row.protection);
        Ok(new)
    }

    /// The tag.
    pub(in crate::service) fn tag(&self) -> &BizTag {
        &self.tag
    }

    pub(in crate::service) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// Counts ids that the leader handed out and a caller took.
    pub(in crate::service) fn count_taken(&self, count: u64) {
        self.taken.fetch_add(count, Relaxed);
    }

    /// How many ids callers took that the leader handed out.
    pub(in crate::service) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Whether this node holds ids of the tag without the leader.
    pub(in crate::service) fn has_slots(&self) -> bool {
        match self.shape.giver() {
            Giver::AnyNode => true,
            Giver::Leader | Giver::LeaderByKey | Giver::Log => false,
        }
    }

    pub(in crate::service) fn has_periods(&self) -> bool {
        self.calendar.is_some()
    }

    /// The line that is in use at this moment of the cluster's time; `None` when the tag is gone. From here on the node
    /// hands out nothing of a period that ended longer ago, or begins later, than the skew allows.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no period covers that moment.
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
        let text = Arc::new(IdText::new(&self.shape, span.map(|span| span.number)));
        let slot = self.has_slots().then(|| {
            let line = span.map_or(Line::Whole, |span| span.line());
            let (tag, end) = (self.tag.clone(), self.shape.line_end());
            Arc::new(Slot::of_line(tag, line, end, self.steps, Arc::clone(&self.clock)))
        });
        TagLine { span, text, slot }
    }

    /// Admits a call for `count` ids that only the leader hands out, and deducts them from what the rate limit allows
    /// on this node.
    ///
    /// # Errors
    /// As for [`Guard::admit`].
    pub(in crate::service) fn admit(&self, count: u64) -> Result<(), Error> {
        let mut open = self.open.lock();
        open.guard.admit(count, || self.clock.monotonic_ms())?;
        open.guard.pay(count);
        Ok(())
    }

    /// Whether [`admit`](Self::admit) would admit a call for `count` ids now. Deducts nothing from the limit.
    ///
    /// # Errors
    /// As for [`Guard::admit`].
    pub(in crate::service) fn would_admit(&self, count: u64) -> Result<(), Error> {
        self.open.lock().guard.admit(count, || self.clock.monotonic_ms())
    }

    /// How many of `count` calls for one id each [`admit`](Self::admit) would admit now.
    pub(in crate::service) fn available(&self, count: u64) -> u64 {
        self.open.lock().guard.available(count, self.clock.monotonic_ms())
    }

    /// Gives up a slot, because the log refuses grabs of its line. The waiting callers then look up the present line
    /// again.
    pub(in crate::service) fn drop_slot(&self, slot: &Arc<Slot>) {
        let is_its = |line: &TagLine| line.slot.as_ref().is_some_and(|its| Arc::ptr_eq(its, slot));
        self.open.lock().lines.retain(|line| !is_its(line));
        slot.close();
    }

    /// Applies the tag's protection.
    pub(in crate::service) fn protect(&self, protection: Protection) {
        let mut open = self.open.lock();
        open.protection = protection;
        open.guard.protect(protection, self.clock.monotonic_ms());
        open.lines.iter().filter_map(|line| line.slot()).for_each(|slot| slot.protect(protection));
    }

    /// Ends the tag on this node.
    pub(in crate::service) fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        open.lines.drain(..).for_each(|line| line.close());
    }

    /// The slots of all lines, with the slot of the latest line last. Takes no lock where there is none.
    pub(in crate::service) fn slots(&self) -> Vec<Arc<Slot>> {
        if !self.has_slots() {
            return Vec::new();
        }
        self.open.lock().lines.iter().filter_map(|line| line.slot().cloned()).collect()
    }

    /// What this node holds of the latest line that is served at this moment of the cluster's time or, if that time is
    /// unknown, of the line that was opened last. `None` where it holds nothing.
    pub(in crate::service) fn status(&self, now_ms: Option<u64>) -> Option<SlotStatus> {
        let open = self.open.lock();
        let is_served = |line: &&Arc<TagLine>| now_ms.is_none_or(|at| line.is_served_at(at));
        let line = open.lines.iter().rev().find(is_served)?;
        Some(line.slot()?.status())
    }

    /// What this node holds of the line that was opened last.
    pub(in crate::service) fn view(&self) -> Option<BufferView> {
        self.slots().last().map(|slot| slot.view())
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

    /// The period that the line belongs to.
    pub(in crate::service) fn period(&self) -> Option<PeriodNumber> {
        self.span.map(|span| span.number)
    }

    pub(in crate::service) fn slot(&self) -> Option<&Arc<Slot>> {
        self.slot.as_ref()
    }

    /// Whether ids of the line may be handed out at this moment of the cluster's time.
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
