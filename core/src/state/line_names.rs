//! The names of number lines, and what an operator says of some of them.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

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
    /// First number past the end of the line.
    pub line_end: u64,
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

impl LineName {
    /// The name in lists: empty for the one line of a tag, else a period or a section in digits.
    pub fn listed(self) -> String {
        match self {
            Self::Whole => String::new(),
            Self::Period(PeriodNumber(number)) => number.to_string(),
            Self::Section(section) => section.to_string(),
        }
    }

    /// Reads what [`listed`](Self::listed) wrote of a tag of this shape. The tag need not have such a line.
    pub fn of_list(text: &str, shape: &Shape) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Whole);
        }
        match shape.lines() {
            LinesOf::Sections => text.parse().ok().map(Self::Section),
            LinesOf::Whole | LinesOf::Periods(_) => {
                text.parse().ok().map(PeriodNumber).map(Self::Period)
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_from_a_list_as_it_was_written() {
        let plain = Shape::default();
        let sequence = Shape { kind: Kind::Sequence, ..Shape::default() };
        let read = |name: LineName, shape| LineName::of_list(&name.listed(), shape);
        for shape in [&plain, &sequence] {
            assert_eq!(read(LineName::Whole, shape), Some(LineName::Whole));
            assert_eq!(LineName::of_list("-1", shape), None);
        }
        let period = LineName::Period(PeriodNumber(20_261_124));
        assert_eq!(read(period, &plain), Some(period));
        assert_eq!(read(LineName::Section(17), &sequence), Some(LineName::Section(17)));
        assert_eq!(LineName::of_list("65536", &sequence), None);
    }
}
