//! Periods: how long they are, the time zone that they begin in, and how they are numbered.

use serde::{Deserialize, Serialize};

use crate::limits::TIME_ZONE_BYTES_MAX;

/// How long a tag's numbers go on before they begin at 1 again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Period {
    /// The length of one period.
    pub length: PeriodLength,
    /// The IANA name of the time zone that it begins and ends in. Applying never looks it up.
    pub time_zone: Box<str>,
}

/// The length of a period; on the wire, like [`Kind`](super::Kind).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum PeriodLength {
    /// From midnight to midnight.
    Day,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

/// The number of a period, as ids show it: 20261121 of a day, 202611 of a month, 2026 of a year.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct PeriodNumber(pub u32);

impl Period {
    /// Whether its time zone may be the name of one: up to [`TIME_ZONE_BYTES_MAX`] bytes that such names may have.
    pub(super) fn is_sound(&self) -> bool {
        let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        (1..=TIME_ZONE_BYTES_MAX).contains(&self.time_zone.len())
            && self.time_zone.bytes().all(is_of_names)
    }
}

impl PeriodLength {
    /// Every length, the shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Month, Self::Year];

    /// The name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Whether a period of this length may have the number: a date of the years 1970 to 9999.
    pub fn has_number(self, PeriodNumber(number): PeriodNumber) -> bool {
        let (year, month, day) = match self {
            Self::Day => (number / 10_000, number / 100 % 100, number % 100),
            Self::Month => (number / 100, number % 100, 1),
            Self::Year => (number, 1, 1),
        };
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day)
    }
}
