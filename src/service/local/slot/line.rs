//! Slots of shaped tags: which line they hold numbers of.

use std::sync::Arc;

use mintleaf_core::segment::SegmentBuffer;
use mintleaf_core::shape::Line;
use mintleaf_core::state::Command;
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;

use super::Slot;
use crate::machine::clock::Clock;

impl Slot {
    /// A slot of one line of a shaped tag, which has ids below `line_end`.
    pub(in crate::service) fn of_line(
        tag: BizTag,
        line: Line,
        line_end: u64,
        steps: Steps,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let buffer = SegmentBuffer::of_line(steps, line_end);
        Self { line: Some(Box::new(line)), ..Self::holding(buffer, tag, clock) }
    }

    /// The period that its ids belong to, where there is one.
    pub(in crate::service) fn period(&self) -> Option<u32> {
        match self.line.as_deref() {
            Some(Line::Period { number, .. }) => Some(number.0),
            _ => None,
        }
    }

    /// The command that reserves `size` ids.
    pub(in crate::service) fn grab(&self, size: u32) -> Command {
        let tag = self.tag.clone();
        match self.line.as_deref() {
            None => Command::Grab { tag, size },
            Some(&line) => Command::GrabLine { tag, size, line, by: None },
        }
    }
}
