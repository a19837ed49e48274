//! What ids of a tag look like, the order that they are given in, and the number lines that they come from.
//!
//! Pure. A tag without its own shape is *plain*: one number line, ids in trend order, returned as bare numbers. Every
//! other tag is *shaped*. Its shape is in the log from its creation on, never changes, and stays with the name for
//! ever, because another shape could show an earlier id a second time.
//!
//! | file | what it has |
//! | --- | --- |
//! | `shape.rs` | [`Shape`], what can be combined, and the lines that it calls for ([`LinesOf`]) |
//! | `kind.rs` | [`Kind`] and [`Order`], and what they decide: [`Giver`] |
//! | `line.rs` | the number lines of a tag: [`Line`], and the [`Leadership`] that some grabs need |
//! | `period.rs` | periods, their time zones and numbers |
//! | `text_format.rs` | the text that clients get instead of a bare number |
//! | `hidden.rs` | ids in an order that cannot be guessed, and their key |
//! | `ff1.rs` | that order |
//! | `id_of.rs` | the id that belongs to a number of a line, and how many numbers a line has |
//! | `id_text.rs` | how the ids of a line are written |

mod calendar;
mod ff1;
mod hidden;
mod id_of;
pub mod id_text;
mod kind;
mod line;
mod period;
mod text_format;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use calendar::{Calendar, PeriodSpan, time_zone_name};
pub use ff1::HiddenIds;
pub use hidden::{Hidden, HiddenKey, RootKey};
pub use kind::{Giver, Kind, Order};
pub use line::{Leadership, Line};
pub use period::{Period, PeriodLength, PeriodNumber};
pub use text_format::{FormatError, IdStyle, Piece, TextFormat};

use crate::limits::HIDDEN_DIGITS;

/// The shape of a tag; that of a plain tag by default.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Shape {
    /// One sequence, a counter for each key, or a register.
    pub kind: Kind,
    /// The order of ids. A sequence or register is in strict order by its kind, and has the default here.
    pub order: Order,
    /// How long ids go on before they begin at 1 again; for ever when absent.
    pub period: Option<Period>,
    /// The text of an id; the bare number when absent.
    pub format: Option<TextFormat>,
    /// How ids are hidden; not at all when absent.
    pub hidden: Option<Hidden>,
}

/// The number lines that a shape calls for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinesOf<'a> {
    /// One line for all of its ids.
    Whole,
    /// A line for each period.
    Periods(&'a Period),
    /// A line for each section of the keys.
    Sections,
}

/// Why no tag has such a shape. The message names the fields as the HTTP API calls them, and begins with one.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum ShapeError {
    /// Two fields exclude each other.
    #[error("{one} and {other} cannot be combined: {why}")]
    Apart {
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The number of digits is out of bounds.
    #[error("digits must be {} to {}", HIDDEN_DIGITS.start(), HIDDEN_DIGITS.end())]
    Digits,
    /// The time zone has no name that one could have.
    #[error("time_zone must be the name of a time zone, such as Asia/Shanghai")]
    TimeZone,
    /// A tag with a period has a format that shows the period.
    #[error(
        "format must hold {{period}}, because ids of two periods are alike without it (period)"
    )]
    PeriodNotShown,
    /// The format shows a period and the tag has none.
    #[error("format must not hold {{period}} without a period")]
    NoPeriod,
}

impl Shape {
    /// The shape of a plain tag.
    pub fn plain() -> &'static Self {
        const PLAIN: &Shape = &Shape {
            kind: Kind::Segment,
            order: Order::Trend,
            period: None,
            format: None,
            hidden: None,
        };
        PLAIN
    }

    /// Whether it is the shape of a plain tag.
    pub fn is_plain(&self) -> bool {
        self == Self::plain()
    }

    /// The shape with the defaults that its fields call for: a period shows itself in each id.
    #[must_use]
    pub fn completed(mut self) -> Self {
        if self.period.is_some() && self.format.is_none() {
            self.format = Some(TextFormat::of_periods());
        }
        self
    }

    /// Checks that a tag may have it: which fields go together, and their bounds.
    ///
    /// # Errors
    /// The first fields that do not go together, or the first bound that is broken.
    pub fn check(&self) -> Result<(), ShapeError> {
        let Self { kind, order, period, format, hidden } = self;
        let given = [
            ("order", *order != Order::default()),
            ("period", period.is_some()),
            ("format", format.is_some()),
            ("digits", hidden.is_some()),
        ];
        let (excluded, why) = kind.excludes();
        let is_excluded = |(field, is_given): &(&str, bool)| *is_given && excluded.contains(field);
        if let Some((other, _)) = given.into_iter().find(is_excluded) {
            return Err(ShapeError::Apart { one: "kind", other, why });
        }
        if let (Some(_), Some(_)) = (period, hidden) {
            let why = "hidden ids go through all their numbers once";
            return Err(ShapeError::Apart { one: "digits", other: "period", why });
        }
        if period.as_ref().is_some_and(|period| !period.is_sound()) {
            return Err(ShapeError::TimeZone);
        }
        if hidden.as_ref().is_some_and(|hidden| !HIDDEN_DIGITS.contains(&hidden.digits)) {
            return Err(ShapeError::Digits);
        }
        let shows_period = format.as_ref().is_some_and(TextFormat::shows_period);
        match period {
            Some(_) if !shows_period => Err(ShapeError::PeriodNotShown),
            None if shows_period => Err(ShapeError::NoPeriod),
            _ => Ok(()),
        }
    }

    /// Whether a name of this shape may be used again with the other: all is equal except the key of hidden ids, where
    /// the first one stays.
    pub fn is_like(&self, other: &Self) -> bool {
        self.differs_from(other).is_none()
    }

    /// The first field that differs between two shapes, as the HTTP API calls it; `None` when they are alike.
    pub fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let Self { kind, order, period, format, hidden } = self;
        let digits = |hidden: &Option<Hidden>| hidden.as_ref().map(|hidden| hidden.digits);
        let length = |period: &Option<Period>| period.as_ref().map(|period| period.length);
        let fields = [
            ("kind", *kind != other.kind),
            ("order", *order != other.order),
            ("period", length(period) != length(&other.period)),
            ("time_zone", *period != other.period),
            ("format", *format != other.format),
            ("digits", digits(hidden) != digits(&other.hidden)),
        ];
        fields.into_iter().find_map(|(field, differs)| differs.then_some(field))
    }

    /// Who gives the ids of the tag.
    pub fn giver(&self) -> Giver {
        self.kind.giver(self.order)
    }

    /// The number lines of the tag.
    pub fn lines(&self) -> LinesOf<'_> {
        match (self.kind, &self.period) {
            (Kind::Sequence, _) => LinesOf::Sections,
            (Kind::Segment | Kind::Register, Some(period)) => LinesOf::Periods(period),
            (Kind::Segment | Kind::Register, None) => LinesOf::Whole,
        }
    }

    /// Whether the tag has this number line.
    pub fn has_line(&self, line: &Line) -> bool {
        match (line, self.lines()) {
            (Line::Whole, LinesOf::Whole) | (Line::Section(_), LinesOf::Sections) => true,
            (Line::Period { number, .. }, LinesOf::Periods(period)) => {
                period.length.has_number(*number)
            }
            (Line::Whole | Line::Period { .. } | Line::Section(_), _) => false,
        }
    }

    /// Whether the tag has one number line for all of its ids.
    pub fn has_whole_line(&self) -> bool {
        self.lines() == LinesOf::Whole
    }

    /// Whether an administrator may raise the watermark to a number that they choose: ids are bare numbers of one line,
    /// or it is a register with one line, whose answers hold the number itself.
    pub fn takes_max_id(&self) -> bool {
        let shows_numbers = match self.kind {
            Kind::Segment | Kind::Sequence => self.format.is_none(),
            Kind::Register => true,
        };
        self.takes_start() && shows_numbers
    }

    /// Whether its numbers may begin at a number other than 1: only where ids are the numbers of one line.
    pub fn takes_start(&self) -> bool {
        self.has_whole_line() && self.has_consecutive_ids()
    }

    /// The fields that keep its numbers from being bare ids of one line, as the HTTP API calls them.
    pub fn named(&self) -> String {
        let Self { kind, order: _, period, format, hidden } = self;
        let fields = [
            (*kind != Kind::default()).then(|| format!("kind {}", kind.name())),
            period.is_some().then(|| "period".to_owned()),
            format.is_some().then(|| "format".to_owned()),
            hidden.is_some().then(|| "digits".to_owned()),
        ];
        fields.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// How it differs from the shape of a plain tag, in words; nothing of the key.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, order, period, format, hidden } = self;
        let words = [
            (*kind != Kind::default()).then(|| kind.name().to_owned()),
            (*order != Order::default()).then(|| order.name().to_owned()),
            period
                .as_ref()
                .map(|Period { length, time_zone }| format!("{} in {time_zone}", length.name())),
            format.as_ref().map(TextFormat::to_string),
            hidden.as_ref().map(|hidden| format!("{} digits", hidden.digits)),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests;
