//! The time of a run: shortly before the end of a period in some time zone, so that the run passes it.

use jiff::Timestamp;
use mintleaf_core::shape::{Calendar, Period, PeriodLength};

use crate::random::Random;

/// Time zones, and a moment in a period with an interesting end: the end of a year; a zone half an hour off the
/// whole hours; before a day of 23 hours and one of 25; before a day without a midnight and one with two.
const PLACES: [(&str, &str); 6] = [
    ("UTC", "2027-12-31T12:00:00Z"),
    ("Asia/Kolkata", "2027-02-28T12:00:00Z"),
    ("America/New_York", "2027-03-13T18:00:00Z"),
    ("America/New_York", "2027-11-06T18:00:00Z"),
    ("Asia/Beirut", "2027-03-27T12:00:00Z"),
    ("America/Havana", "2027-11-06T18:00:00Z"),
];
/// How many simulated milliseconds most runs need until all founders serve.
const FORMING_MS: u64 = 2_000;
/// How many simulated milliseconds after the time of faults the period may end: while the cluster is judged or
/// restored.
const BEYOND_MS: u64 = 20_000;

/// The end of a period, and the start of a run before it.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The start of the run, in Unix milliseconds.
    pub(crate) begin_ms: u64,
    /// How long the periods of tags are.
    pub(crate) length: PeriodLength,
    /// The time zone of the midnights that begin them.
    pub(crate) time_zone: &'static str,
}

impl Turn {
    /// The turn of a seed whose run has this many seconds of faults.
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

    /// A turn far from the end of any period.
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
