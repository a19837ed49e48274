//! The period of a time zone that a moment lies in, and when that period begins and ends.
//!
//! Pure: the time zones are the ones compiled into this build, never the machine's. A clock that is wrong, or a build
//! with other time zones, chooses another period; which numbers are unique does not depend on it.

use std::sync::LazyLock;

use jiff::civil::{Date, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

use super::line::Line;
use super::period::{Period, PeriodLength, PeriodNumber};

static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The name of a time zone as the IANA database writes it, with any case of its letters accepted; `None` for an unknown
/// one.
pub fn time_zone_name(name: &str) -> Option<Box<str>> {
    TIME_ZONES.get(name).ok()?.iana_name().map(Into::into)
}

/// One period: from its first moment up to the first moment of the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeriodSpan {
    /// Which period.
    pub number: PeriodNumber,
    /// First millisecond of the period, in Unix time.
    pub start_ms: u64,
    /// First millisecond past it.
    pub end_ms: u64,
}

impl PeriodSpan {
    /// Whether a moment lies in it, or at most `skew_ms` outside.
    pub fn holds(&self, now_ms: u64, skew_ms: u64) -> bool {
        self.start_ms <= now_ms.saturating_add(skew_ms)
            && now_ms < self.end_ms.saturating_add(skew_ms)
    }

    /// The number line of the period.
    pub fn line(&self) -> Line {
        let Self { number, start_ms, end_ms } = *self;
        Line::Period { number, start_ms, end_ms }
    }
}

/// The periods of a tag, one after the other without a gap.
#[derive(Clone, Debug)]
pub struct Calendar {
    length: PeriodLength,
    time_zone: TimeZone,
}

impl Calendar {
    /// The calendar of a tag with this period; `None` when this build does not know the time zone.
    pub fn of(period: &Period) -> Option<Self> {
        let time_zone = TIME_ZONES.get(&period.time_zone).ok()?;
        Some(Self { length: period.length, time_zone })
    }

    /// The period that a moment lies in; `None` outside the years 1970 to 9998.
    ///
    /// A period begins when its first date does: at the first midnight of a date that has two, and when the gap ends
    /// on a date that has none. Where clocks were put back over midnight, so that the date before went on, all
    /// of that still belongs to the period that has begun.
    pub fn period_at(&self, now_ms: u64) -> Option<PeriodSpan> {
        let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
        let mut first = self.first_date(self.time_zone.to_datetime(now).date())?;
        // The start of a date may lie behind a moment that clocks show as the date before.
        loop {
            let next = self.next(first)?;
            let (start_ms, end_ms) = (self.start_ms(first)?, self.start_ms(next)?);
            if now_ms < end_ms {
                return Some(PeriodSpan { number: self.number(first), start_ms, end_ms });
            }
            first = next;
        }
    }

    /// The first date of the period that a date belongs to.
    fn first_date(&self, date: Date) -> Option<Date> {
        match self.length {
            PeriodLength::Day => Some(date),
            PeriodLength::Month => Some(date.first_of_month()),
            PeriodLength::Year => Some(date.first_of_year()),
        }
        .filter(|date| date.year() >= 1970)
    }

    /// The first date of the period behind the one that begins on this date.
    fn next(&self, first: Date) -> Option<Date> {
        let length = match self.length {
            PeriodLength::Day => Span::new().days(1),
            PeriodLength::Month => Span::new().months(1),
            PeriodLength::Year => Span::new().years(1),
        };
        first.checked_add(length).ok()
    }

    /// When a date begins.
    fn start_ms(&self, date: Date) -> Option<u64> {
        // Of two midnights the earlier one; for a midnight that was skipped, the moment of the skip.
        let start = self.time_zone.to_ambiguous_timestamp(date.to_datetime(Time::midnight()));
        start.compatible().ok()?.as_millisecond().try_into().ok()
    }

    fn number(&self, first: Date) -> PeriodNumber {
        let [year, month, day] = [
            first.year().unsigned_abs().into(),
            first.month().unsigned_abs().into(),
            first.day().unsigned_abs().into(),
        ];
        PeriodNumber(match self.length {
            PeriodLength::Day => 10_000 * year + 100 * month + day,
            PeriodLength::Month => 100 * year + month,
            PeriodLength::Year => year,
        })
    }
}

#[cfg(test)]
mod tests;
