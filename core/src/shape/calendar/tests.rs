use proptest::prelude::*;

use super::*;

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

fn calendar(length: PeriodLength, time_zone: &str) -> Calendar {
    Calendar::of(&Period { length, time_zone: time_zone.into() }).unwrap()
}

fn ms(time: &str) -> u64 {
    time.parse::<Timestamp>().unwrap().as_millisecond().try_into().unwrap()
}

/// The number, start and end of the period that a moment lies in.
fn at(length: PeriodLength, time_zone: &str, time: &str) -> (u32, String, String) {
    let span = calendar(length, time_zone).period_at(ms(time)).unwrap();
    let text = |ms: u64| Timestamp::from_millisecond(ms as i64).unwrap().to_string();
    (span.number.0, text(span.start_ms), text(span.end_ms))
}

#[track_caller]
fn day(time_zone: &str, time: &str, number: u32, start: &str, end: &str) {
    let (start, end) = (start.to_owned(), end.to_owned());
    assert_eq!(at(PeriodLength::Day, time_zone, time), (number, start, end), "{time_zone} {time}");
}

#[test]
fn days_months_and_years_begin_at_midnight_of_the_time_zone() {
    let (start, end) = ("2026-11-20T18:30:00Z", "2026-11-21T18:30:00Z");
    day("Asia/Kolkata", start, 20_261_121, start, end);
    day("Asia/Kolkata", "2026-11-21T18:29:59.999Z", 20_261_121, start, end);
    day("Asia/Kolkata", end, 20_261_122, end, "2026-11-22T18:30:00Z");
    assert_eq!(
        at(PeriodLength::Month, "Asia/Shanghai", "2026-12-31T15:59:59Z"),
        (202_612, "2026-11-30T16:00:00Z".to_owned(), "2026-12-31T16:00:00Z".to_owned())
    );
    assert_eq!(
        at(PeriodLength::Year, "UTC", "2028-02-29T12:00:00Z"),
        (2028, "2028-01-01T00:00:00Z".to_owned(), "2029-01-01T00:00:00Z".to_owned())
    );
}

#[test]
fn a_day_with_a_change_of_summer_time_is_an_hour_shorter_or_longer() {
    let spring = ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z");
    day("America/New_York", "2026-03-08T12:00:00Z", 20_260_308, spring.0, spring.1);
    let autumn = ("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z");
    day("America/New_York", "2026-11-02T04:59:59Z", 20_261_101, autumn.0, autumn.1);
}

#[test]
fn a_day_without_a_midnight_begins_when_clocks_have_been_put_forward() {
    // 00:00 became 01:00.
    let (start, end) = ("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z");
    day("America/Sao_Paulo", start, 20_181_104, start, end);
    day("America/Sao_Paulo", "2018-11-04T02:59:59.999Z", 20_181_103, "2018-11-03T03:00:00Z", start);
    // A whole day was left out.
    day(
        "Pacific/Apia",
        "2011-12-30T09:59:59Z",
        20_111_229,
        "2011-12-29T10:00:00Z",
        "2011-12-30T10:00:00Z",
    );
    day(
        "Pacific/Apia",
        "2011-12-30T10:00:00Z",
        20_111_231,
        "2011-12-30T10:00:00Z",
        "2011-12-31T10:00:00Z",
    );
}

#[test]
fn a_day_with_two_midnights_begins_at_the_first() {
    // 01:00 became 00:00.
    let (start, end) = ("2020-11-01T04:00:00Z", "2020-11-02T05:00:00Z");
    day("America/Havana", "2020-11-01T05:30:00Z", 20_201_101, start, end);
    // 00:01 became 23:01 of the day before, which goes on belonging to the day that has begun.
    let (start, end) = ("2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z");
    day("America/St_Johns", "2010-11-07T02:29:59Z", 20_101_106, "2010-11-06T02:30:00Z", start);
    for time in [start, "2010-11-07T02:31:00Z", "2010-11-07T03:29:00Z", "2010-11-07T03:30:00Z"] {
        day("America/St_Johns", time, 20_101_107, start, end);
    }
}

#[test]
fn time_zones_are_known_by_their_names_alone() {
    assert_eq!(time_zone_name("asia/kolkata").as_deref(), Some("Asia/Kolkata"));
    assert_eq!(time_zone_name("UTC").as_deref(), Some("UTC"));
    for unknown in ["", "Asia/Kolkatta", "+05:30", "../UTC", "EST5EDT4", "local"] {
        assert_eq!(time_zone_name(unknown), None, "{unknown}");
    }
}

#[test]
fn moments_that_no_period_has_are_none() {
    let utc = calendar(PeriodLength::Day, "UTC");
    assert_eq!(utc.period_at(0).unwrap().number, PeriodNumber(19_700_101));
    assert_eq!(utc.period_at(u64::MAX), None);
    assert_eq!(utc.period_at(ms("9999-12-30T00:00:00Z") + 2 * DAY_MS), None);
    assert_eq!(calendar(PeriodLength::Day, "America/New_York").period_at(0), None, "1969 there");
}

#[test]
fn a_period_holds_moments_up_to_the_skew_outside() {
    let span = PeriodSpan { number: PeriodNumber(2026), start_ms: 5_000, end_ms: 9_000 };
    let held = |now_ms, skew_ms| span.holds(now_ms, skew_ms);
    assert!(held(5_000, 0) && held(8_999, 0) && !held(4_999, 0) && !held(9_000, 0));
    assert!(
        held(3_000, 2_000) && held(10_999, 2_000) && !held(2_999, 2_000) && !held(11_000, 2_000)
    );
    assert!(!span.holds(u64::MAX, u64::MAX - 1_000_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn periods_follow_each_other_without_a_gap_and_their_numbers_rise(
        zone in prop::sample::select(vec![
            "UTC", "Asia/Kolkata", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia",
            "Asia/Gaza", "Africa/Casablanca", "Europe/Dublin", "America/Havana", "Asia/Shanghai", "Asia/Beirut",
        ]),
        length in prop::sample::select(vec![PeriodLength::Day, PeriodLength::Month, PeriodLength::Year]),
        days in 400_u64..40_000,
        within in 0..DAY_MS,
    ) {
        let calendar = calendar(length, zone);
        let now_ms = days * DAY_MS + within;
        let span = calendar.period_at(now_ms).unwrap();
        prop_assert!(span.holds(now_ms, 0) && span.line().is_sound() && length.has_number(span.number));
        for same in [span.start_ms, span.end_ms - 1] {
            prop_assert_eq!(calendar.period_at(same), Some(span));
        }
        let next = calendar.period_at(span.end_ms).unwrap();
        prop_assert!(next.start_ms == span.end_ms && next.number > span.number);
    }
}
