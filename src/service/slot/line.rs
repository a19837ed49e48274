//! Slots of shaped tags: which line they hold numbers of.

use std::sync::Arc;

use super::Slot;
use crate::clock::Clock;
use crate::shape::Line;
use crate::state::Command;
use crate::tag::BizTag;

impl Slot {
    /// A slot of one line of a shaped tag.
    pub(in crate::service) fn of_line(
        tag: BizTag,
        line: Line,
        step: u32,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { line: Some(Box::new(line)), ..Self::new(tag, step, clock) }
    }

    /// Whether it belongs to a shaped tag.
    pub(in crate::service) fn is_of_line(&self) -> bool {
        self.line.is_some()
    }

    /// The period that its ids belong to, where there is one.
    pub(in crate::service) fn period(&self) -> Option<u32> {
        match self.line.as_deref() {
            Some(Line::Period { number, .. }) => Some(number.0),
            _ => None,
        }
    }

    /// The command that reserves so many ids.
    pub(in crate::service) fn grab(&self, size: u32) -> Command {
        let tag = self.tag.clone();
        match self.line.as_deref() {
            None => Command::Grab { tag, size },
            Some(&line) => Command::GrabLine { tag, size, line, by: None },
        }
    }
}
