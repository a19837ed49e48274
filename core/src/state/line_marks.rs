//! The mark of every line of a state, and whether the state can be raised to what an operator knows of them.

use std::collections::BTreeMap;

use super::apply::State;
use super::line_names::{LastNumbers, LineMark, LineName, RaiseError};
use super::raise::Raise;
use super::shaped_entry::ShapedEntry;
use crate::limits::{ID_END, SECTIONS};
use crate::shape::{LinesOf, Shape};
use crate::tag::BizTag;

impl State {
    /// Every line with its mark, deleted tags among them, in the order of the tags.
    pub fn line_marks(&self) -> impl Iterator<Item = LineMark> {
        self.entries.after(None).flat_map(|tag| {
            let shaped = self.shaped.get(tag.name);
            let shape = shaped.map_or(Shape::plain(), |shaped| shaped.shape());
            let (kind, line_end) = (shape.kind, shape.line_end());
            let whole = || vec![(LineName::Whole, tag.entry.max_id())];
            let lines = shaped.and_then(ShapedEntry::lines).unwrap_or_else(whole);
            let tag = tag.tag();
            lines.into_iter().map(move |(line, mark)| LineMark {
                tag: tag.clone(),
                line,
                mark,
                line_end,
                kind,
            })
        })
    }

    /// Checks that the state can be raised so: that it has the tags, and that no mark would fall.
    pub(super) fn check_raise(&self, by: &Raise) -> Result<(), RaiseError> {
        let mut named = by.tags.keys().chain(by.lasts.keys());
        if let Some(unknown) = named.find(|tag| !self.knows(tag.as_str())) {
            return Err(RaiseError::UnknownTag(unknown.clone()));
        }
        by.lasts.iter().try_for_each(|(tag, lasts)| self.check_lasts(tag, lasts))
    }

    fn check_lasts(&self, tag: &BizTag, lasts: &LastNumbers) -> Result<(), RaiseError> {
        let shaped = self.shaped.get(tag.as_str());
        let shape = shaped.map_or(Shape::plain(), |shaped| shaped.shape());
        let marks: BTreeMap<LineName, u64> = match shaped.and_then(ShapedEntry::lines) {
            Some(lines) => lines.into_iter().collect(),
            None => self
                .entries
                .get(tag.as_str())
                .map(|tag| (LineName::Whole, tag.entry.max_id()))
                .into_iter()
                .collect(),
        };
        for (&line, &last) in lasts {
            let tag = || tag.clone();
            let is_one = match (line, shape.lines()) {
                (LineName::Whole, LinesOf::Whole) => true,
                (LineName::Period(number), LinesOf::Periods(period)) => {
                    period.length.has_number(number)
                }
                (LineName::Section(section), LinesOf::Sections) => section < SECTIONS,
                _ => false,
            };
            if !is_one {
                return Err(RaiseError::NoSuchLine { tag: tag(), line });
            }
            let line_end = shape.line_end().min(ID_END);
            if last >= line_end {
                return Err(RaiseError::PastTheEnd { tag: tag(), last, line_end });
            }
            let mark = marks.get(&line).copied().unwrap_or(0);
            if last + 1 < mark {
                return Err(RaiseError::Lower { tag: tag(), line, mark, last });
            }
        }
        Ok(())
    }
}
