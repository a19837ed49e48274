//! The `date` header of answers, formatted once a second.

use std::cell::Cell;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

const LENGTH: usize = "Thu, 01 Jan 1970 00:00:00 GMT".len();

/// A moment in the form of HTTP's `date` header.
pub(super) type Date = [u8; LENGTH];

thread_local! {
    static LAST: Cell<(u64, Date)> = const { Cell::new((0, *b"Thu, 01 Jan 1970 00:00:00 GMT")) };
}

/// The date of a Unix time in seconds; the last answer's date when that cannot be written.
pub(super) fn at(second: u64) -> Date {
    let (last, written) = LAST.get();
    if second == last {
        return written;
    }
    let date = format(second).unwrap_or(written);
    LAST.set((second, date));
    date
}

fn format(second: u64) -> Option<Date> {
    let timestamp = Timestamp::from_second(i64::try_from(second).ok()?).ok()?;
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp).ok()?;
    text.as_bytes().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_http_wants_them() {
        for (second, written) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_800_000_000, "Fri, 15 Jan 2027 08:00:00 GMT"),
        ] {
            assert_eq!(at(second), written.as_bytes());
        }
        assert_eq!(at(u64::MAX), at(1_800_000_000), "there is no such date");
    }
}
