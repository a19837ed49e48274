//! When a run takes place: shortly before the end of a period in some time zone, which it passes.

use jiff::Timestamp;
use mintleaf_core::shape::{Calendar, Period, PeriodLength};

use crate::random::Random;

/// Time zones, and a moment in a period whose end is worth passing: of the year; half an hour beside UTC; before a day
/// of 23 hours and one of 25; before a day without a midnight and one with two.
const PLACES: [(&str, &str); 6] = [
    ("UTC", "2027-12-31T12:00:00Z"),
    ("Asia/Kolkata", "2027-02-28T12:00:00Z"),
    ("America/New_York", "2027-03-13T18:00:00Z"),
    ("America/New_York", "2027-11-06T18:00:00Z"),
    ("Asia/Beirut", "2027-03-27T12:00:00Z"),
    ("America/Havana", "2027-11-06T18:00:00Z"),
];
/// Simulated milliseconds that most runs take until all founders serve.
const FORMING_MS: u64 = 2_000;
/// Simulated milliseconds beyond the time of faults in which the period may end, too: while the cluster is judged, or
/// restored.
const BEYOND_MS: u64 = 20_000;

/// The end of a period, and when a run begins before it.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The time at which the run begins, in Unix milliseconds.
    pub(crate) begin_ms: u64,
    /// How long the periods of tags are.
    pub(crate) length: PeriodLength,
    /// Where they begin at midnight.
    pub(crate) time_zone: &'static str,
}

impl Turn {
    /// That of a seed, whose run has so many seconds of faults.
    pub(crate) fn of(seed: u64, seconds: u64) -> Self {
        let random = Random::new(seed, "turn");
        let (time_zone, before) = random.pick(&PLACES);
        let length = random.pick(&[
            PeriodLength::Day,
            PeriodLength::Day,
            PeriodLength::Month,
            PeriodLength::Year,
        ]);
        let before: Timestamp = before.parse().expect("a time");
        let before_ms = u64::try_from(before.as_millisecond()).expect("a time after 1970");
        let mut turn = Self { begin_ms: 0, length, time_zone };
        let end_ms = turn.calendar().period_at(before_ms).expect("a period").end_ms;
        turn.begin_ms =
            end_ms - random.within(FORMING_MS..FORMING_MS + 1_000 * seconds + BEYOND_MS);
        turn
    }

    /// One that no period ends near.
    pub(crate) fn quiet() -> Self {
        Self { begin_ms: 1_800_000_000_000, length: PeriodLength::Day, time_zone: "UTC" }
    }

    fn period(&self) -> Period {
        Period { length: self.length, time_zone: self.time_zone.into() }
    }

    fn calendar(&self) -> Calendar {
        Calendar::of(&self.period()).expect("a time zone")
    }
}
