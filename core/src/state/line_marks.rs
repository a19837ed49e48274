//! The lines of a state by their names: the mark of each, and the last number that an operator knows each to have given.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::apply::State;
use super::raise::Raise;
use super::shaped_entry::ShapedEntry;
use crate::limits::{ID_END, SECTIONS};
use crate::shape::{Kind, LinesOf, PeriodNumber, Shape};
use crate::tag::BizTag;

/// The name of one number line of a tag.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LineName {
    /// The one line of a tag without periods and keys.
    Whole,
    /// That of a period.
    Period(PeriodNumber),
    /// That of a section of a sequence.
    Section(u16),
}

/// The last number that each of these lines has given.
pub type LastNumbers = BTreeMap<LineName, u64>;

/// A line that a state has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LineMark {
    /// The tag, which may be a deleted one.
    pub tag: BizTag,
    /// Which of its lines.
    pub line: LineName,
    /// The first number that is not reserved.
    pub mark: u64,
    /// The kind of the tag.
    pub kind: Kind,
}

/// Why a state is not raised so.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum RaiseError {
    /// A tag was named that the copy does not know. Raising it alone would not help, because it is not known where the
    /// tag began.
    #[error(
        "the copy has no tag `{0}`, not even a deleted one; how far tags made since have come is said by the \
         number for all lines"
    )]
    UnknownTag(BizTag),
    /// The tag has other lines.
    #[error("{} has no {line}", .tag.as_str())]
    NoSuchLine {
        /// The tag.
        tag: BizTag,
        /// The line.
        line: LineName,
    },
    /// The copy itself shows that the line has given more.
    #[error(
        "{} has its mark at {mark} in the copy, and {last} is below: a mark never falls. If {last} is the highest that \
         you know, leave {line} out, and it rises as all others do",
        .tag.as_str()
    )]
    Lower {
        /// The tag.
        tag: BizTag,
        /// The line.
        line: LineName,
        /// The mark in the copy.
        mark: u64,
        /// The number that was named.
        last: u64,
    },
    /// No line of the tag has that number.
    #[error("{last} is above {}, the last number of {}", line_end - 1, .tag.as_str())]
    PastTheEnd {
        /// The tag.
        tag: BizTag,
        /// The number that was named.
        last: u64,
        /// First number past the end of the tag's lines.
        line_end: u64,
    },
}

impl fmt::Display for LineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("line for all of its ids"),
            Self::Period(PeriodNumber(number)) => write!(f, "period {number}"),
            Self::Section(section) => write!(f, "section {section}"),
        }
    }
}

impl State {
    /// Every line with its mark, deleted tags among them, in the order of the tags.
    pub fn line_marks(&self) -> impl Iterator<Item = LineMark> {
        self.entries.after(None).flat_map(|entry| {
            let shaped = self.shaped.get(entry.tag().as_str());
            let kind = shaped.map_or(Kind::Ids, |shaped| shaped.shape().kind);
            let whole = || vec![(LineName::Whole, entry.max_id())];
            let lines = shaped.and_then(ShapedEntry::lines).unwrap_or_else(whole);
            let tag = entry.tag().clone();
            lines.into_iter().map(move |(line, mark)| LineMark {
                tag: tag.clone(),
                line,
                mark,
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
        let plain = Shape::default();
        let shape = shaped.map_or(&plain, |shaped| shaped.shape());
        let marks: BTreeMap<LineName, u64> = match shaped.and_then(ShapedEntry::lines) {
            Some(lines) => lines.into_iter().collect(),
            None => self
                .entries
                .get(tag.as_str())
                .map(|it| (LineName::Whole, it.max_id()))
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
