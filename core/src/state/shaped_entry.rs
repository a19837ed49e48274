//! What a tag with its own shape has besides its entry: the shape, and several lines in place of one.
//!
//! A shaped entry is made with the first tag of its name and stays with the name for ever, as the watermark does.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line_names::{LastNumbers, LineName};
use super::period_lines::PeriodLines;
use super::response::Response;
use super::section_lines::SectionLines;
use super::shared_table::Named;
use super::stamp::Stamp;
use super::tag_entry::TagEntry;
use crate::shape::{Giver, Leadership, Line, LinesOf, Shape};
use crate::steps::Steps;
use crate::tag::BizTag;

/// The shape of a name, and its lines. A copy shares both.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ShapedEntry {
    tag: BizTag,
    shape: Arc<Shape>,
    marks: Arc<Marks>,
    /// How many numbers above 1 a new line begins: the sum of the advances of restores.
    advance: u64,
}

/// The marks of a shaped tag, as its shape's [`LinesOf`] calls for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Marks {
    /// The one watermark of the tag's entry.
    Whole,
    Periods(PeriodLines),
    Sections(SectionLines),
}

/// A grab of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineGrab {
    pub(super) size: u32,
    /// What the tag says of grabs.
    pub(super) steps: Steps,
    pub(super) line: Line,
    pub(super) by: Option<Leadership>,
}

impl Named for ShapedEntry {
    fn name(&self) -> &str {
        self.tag.as_str()
    }
}

impl ShapedEntry {
    /// The entry of a name that has no tag yet. Its lines begin `advance` numbers above 1.
    pub(super) fn new(tag: BizTag, shape: Shape, advance: u64) -> Self {
        let marks = match shape.lines() {
            LinesOf::Whole => Marks::Whole,
            LinesOf::Periods(_) => Marks::Periods(PeriodLines::default()),
            LinesOf::Sections => Marks::Sections(SectionLines::default()),
        };
        Self { tag, shape: Arc::new(shape), marks: Arc::new(marks), advance }
    }

    pub(super) fn tag(&self) -> &BizTag {
        &self.tag
    }

    pub(super) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The highest mark of its lines; `None` where that is the mark of the tag's entry.
    pub(super) fn max_id(&self) -> Option<u64> {
        match &*self.marks {
            Marks::Whole => None,
            Marks::Periods(periods) => Some(periods.latest()),
            Marks::Sections(sections) => Some(sections.highest()),
        }
    }

    /// The mark of a section; `None` where there are no sections.
    pub(super) fn section_end(&self, section: u16) -> Option<u64> {
        match &*self.marks {
            Marks::Sections(sections) => Some(sections.mark(section, self.advance)),
            Marks::Whole | Marks::Periods(_) => None,
        }
    }

    /// How many lines it keeps besides that of the tag's entry.
    pub(super) fn kept_lines(&self) -> usize {
        match &*self.marks {
            Marks::Whole => 0,
            Marks::Periods(periods) => periods.len(),
            Marks::Sections(sections) => sections.len(),
        }
    }

    /// Reserves ids of a line for the proposer of an entry with this stamp. Before `restored_ms`, the cluster that this
    /// one was restored from may have given ids that this one does not know.
    pub(super) fn grab(
        &mut self,
        entry: &mut TagEntry,
        grab: LineGrab,
        stamp: Stamp,
        (clock_ms, restored_ms): (u64, u64),
    ) -> Response {
        let LineGrab { size, steps, line, by } = grab;
        let is_for_it = match self.shape.giver() {
            Giver::AnyNode => by.is_none(),
            Giver::Leader | Giver::LeaderByKey => by.is_some(),
            // No number of a register is reserved without its key.
            Giver::Log => false,
        };
        if !is_for_it || !self.shape.has_line(&line) {
            return Response::OtherShape;
        }
        if by.is_some_and(|by| (by.term, by.node_id) != (stamp.term, stamp.leader_id)) {
            return Response::OtherTerm;
        }
        if entry.protection().frozen {
            return Response::Frozen;
        }
        match self.reserve(entry, (line, steps.size(size)), stamp, (clock_ms, restored_ms)) {
            Ok(ids) => Response::of_segment(ids, steps),
            Err(rejection) => rejection,
        }
    }

    /// The next number of a register, for a key that has none, in an entry with this stamp; `restored_ms` as for
    /// [`grab`](Self::grab).
    pub(super) fn next_number(
        &mut self,
        entry: &mut TagEntry,
        line: Line,
        stamp: Stamp,
        (clock_ms, restored_ms): (u64, u64),
    ) -> Result<u64, Response> {
        if !self.shape.giver().records_keys() || !self.shape.has_line(&line) {
            return Err(Response::OtherShape);
        }
        if entry.protection().frozen {
            return Err(Response::Frozen);
        }
        let ids = self.reserve(entry, (line, 1), stamp, (clock_ms, restored_ms))?;
        Ok(ids.start)
    }

    /// Reserves this many numbers of a line that the tag has.
    fn reserve(
        &mut self,
        entry: &mut TagEntry,
        (line, size): (Line, u32),
        stamp: Stamp,
        (clock_ms, restored_ms): (u64, u64),
    ) -> Result<Range<u64>, Response> {
        let line_end = self.shape.line_end();
        let never_back = match self.shape.giver() {
            Giver::Leader | Giver::LeaderByKey | Giver::Log => true,
            Giver::AnyNode => false,
        };
        let ids = match (Arc::make_mut(&mut self.marks), line) {
            (Marks::Periods(periods), Line::Period { number, start_ms, end_ms }) => {
                periods.admit(number, start_ms..end_ms, stamp.now_ms, never_back)?;
                // A period that had begun when the old cluster stopped may have been used there since.
                let may_have_begun = start_ms < restored_ms.saturating_add(end_ms - start_ms);
                let advance = if may_have_begun { self.advance } else { 0 };
                periods.grab(number, size, advance, line_end)
            }
            (Marks::Sections(sections), Line::Section(section)) => {
                sections.grab(section, size, self.advance, line_end)
            }
            _ => entry.grab(size, line_end, clock_ms),
        };
        let ids = ids.ok_or(Response::Exhausted)?;
        entry.touch(clock_ms);
        Ok(ids)
    }

    /// Its lines and their marks, where it has others than that of the tag's entry.
    pub(super) fn lines(&self) -> Option<Vec<(LineName, u64)>> {
        match &*self.marks {
            Marks::Whole => None,
            Marks::Periods(periods) => Some(periods.marks().collect()),
            Marks::Sections(sections) => Some(sections.marks().collect()),
        }
    }

    /// Raises every line by this many ids, or to its end, including lines that begin later; a line whose last number is
    /// known, to behind that.
    pub(super) fn rise(&mut self, by: u64, lasts: &LastNumbers) {
        let Self { tag: _, shape: _, marks, advance } = self;
        match Arc::make_mut(marks) {
            // The mark is that of the tag's entry, which rises by itself.
            Marks::Whole => {}
            Marks::Periods(periods) => periods.rise(by, lasts),
            Marks::Sections(sections) => sections.rise(by, lasts),
        }
        *advance = advance.saturating_add(by);
    }

    /// Whether an entry that was read could have been written.
    pub(super) fn is_sound(&self) -> bool {
        let has_its_marks = match (&*self.marks, self.shape.lines()) {
            (Marks::Whole, LinesOf::Whole) => true,
            (Marks::Periods(periods), LinesOf::Periods(period)) => periods.is_sound(period.length),
            (Marks::Sections(sections), LinesOf::Sections) => sections.is_sound(),
            (Marks::Whole | Marks::Periods(_) | Marks::Sections(_), _) => false,
        };
        !self.shape.is_plain() && self.shape.check().is_ok() && has_its_marks
    }
}
