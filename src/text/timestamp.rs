//! Points in time as text.

use jiff::Timestamp;

/// A time in Unix milliseconds as people and programs read it: RFC 3339, in UTC, to the millisecond. The calendar's
/// end for a time past it.
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let unix_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    format!("{:.3}", Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc3339_in_utc_and_equally_long() {
        assert_eq!(rfc3339(1_567_733_700_834), "2019-09-06T01:35:00.834Z");
        assert_eq!(rfc3339(1_567_733_700_830), "2019-09-06T01:35:00.830Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert!(rfc3339(u64::MAX).starts_with("9999-12-30"));
    }
}
