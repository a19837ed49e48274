//! What a tag with its own shape has besides its entry: the shape, and several lines in place of one.
//!
//! A shaped entry is made with the first tag of its name and stays with the name for ever, as the watermark does.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::period_lines::PeriodLines;
use super::response::Response;
use super::section_lines::SectionLines;
use super::shared_table::Named;
use super::stamp::Stamp;
use super::tag_entry::TagEntry;
use crate::shape::{Kind, Leadership, Line, Order, Shape};
use crate::tag::BizTag;

/// The shape of a name, and its lines. A copy shares both.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ShapedEntry {
    tag: BizTag,
    shape: Arc<Shape>,
    lines: Arc<Lines>,
    /// How many numbers above 1 a new line begins: the sum of the advances of restores.
    advance: u64,
}

/// The lines of a shaped tag.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Lines {
    /// The one watermark of the tag's entry.
    Whole,
    Periods(PeriodLines),
    Sections(SectionLines),
}

/// A grab of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineGrab {
    pub(super) size: u32,
    pub(super) line: Line,
    pub(super) by: Option<Leadership>,
}

impl Named for ShapedEntry {
    fn name(&self) -> &str {
        self.tag.as_str()
    }
}

impl ShapedEntry {
    /// The lowest level of a cluster that has shaped tags.
    pub(super) const LEVEL: u32 = 2;

    /// The entry of a name that has no tag yet. Its lines begin `advance` numbers above 1.
    pub(super) fn new(tag: BizTag, shape: Shape, advance: u64) -> Self {
        let lines = match (shape.kind, &shape.period) {
            (Kind::Sequence, _) => Lines::Sections(SectionLines::default()),
            (Kind::Segment, Some(_)) => Lines::Periods(PeriodLines::default()),
            (Kind::Segment, None) => Lines::Whole,
        };
        Self { tag, shape: Arc::new(shape), lines: Arc::new(lines), advance }
    }

    pub(super) fn tag(&self) -> &BizTag {
        &self.tag
    }

    pub(super) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The highest mark of its lines; `None` where that is the mark of the tag's entry.
    pub(super) fn max_id(&self) -> Option<u64> {
        match &*self.lines {
            Lines::Whole => None,
            Lines::Periods(periods) => Some(periods.latest()),
            Lines::Sections(sections) => Some(sections.highest()),
        }
    }

    /// The mark of a section; `None` where there are no sections.
    pub(super) fn section_end(&self, section: u16) -> Option<u64> {
        match &*self.lines {
            Lines::Sections(sections) => Some(sections.mark(section, self.advance)),
            Lines::Whole | Lines::Periods(_) => None,
        }
    }

    /// How many lines it keeps besides that of the tag's entry.
    pub(super) fn kept_lines(&self) -> usize {
        match &*self.lines {
            Lines::Whole => 0,
            Lines::Periods(periods) => periods.len(),
            Lines::Sections(sections) => sections.len(),
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
        let LineGrab { size, line, by } = grab;
        if !self.shape.has_line(&line) || by.is_some() != self.shape.needs_leadership() {
            return Response::OtherShape;
        }
        if by.is_some_and(|by| (by.term, by.node_id) != (stamp.term, stamp.leader_id)) {
            return Response::OtherTerm;
        }
        if entry.protection().frozen {
            return Response::Frozen;
        }
        let (size, line_end) = (size.max(entry.step()), self.shape.line_end());
        let ids = match (Arc::make_mut(&mut self.lines), line) {
            (Lines::Periods(periods), Line::Period { number, start_ms, end_ms }) => {
                let never_back = self.shape.order == Order::Strict;
                if let Err(rejection) =
                    periods.admit(number, start_ms..end_ms, stamp.now_ms, never_back)
                {
                    return rejection;
                }
                // A period that had begun when the old cluster stopped may have been used there since.
                let may_have_begun = start_ms < restored_ms.saturating_add(end_ms - start_ms);
                let advance = if may_have_begun { self.advance } else { 0 };
                periods.grab(number, size, advance)
            }
            (Lines::Sections(sections), Line::Section(section)) => {
                sections.grab(section, size, self.advance)
            }
            _ => entry.grab(size, line_end, clock_ms),
        };
        let Some(ids) = ids else { return Response::Exhausted };
        entry.touch(clock_ms);
        Response::Segment { start: ids.start, end: ids.end, step: entry.step() }
    }

    /// Raises every line by this many ids, or to its end, including lines that begin later.
    pub(super) fn rise(&mut self, by: u64) {
        let Self { tag: _, shape: _, lines, advance } = self;
        match Arc::make_mut(lines) {
            // The mark is that of the tag's entry, which rises by itself.
            Lines::Whole => {}
            Lines::Periods(periods) => periods.rise(by),
            Lines::Sections(sections) => sections.rise(by),
        }
        *advance = advance.saturating_add(by);
    }

    /// Whether an entry that was read could have been written.
    pub(super) fn is_sound(&self) -> bool {
        let has_its_lines = match (&*self.lines, self.shape.kind, &self.shape.period) {
            (Lines::Whole, Kind::Segment, None) => true,
            (Lines::Periods(periods), Kind::Segment, Some(period)) => {
                periods.is_sound(period.length)
            }
            (Lines::Sections(sections), Kind::Sequence, None) => sections.is_sound(),
            _ => false,
        };
        !self.shape.is_plain() && self.shape.check().is_ok() && has_its_lines
    }
}
