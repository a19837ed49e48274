//! The one number that must never fall, and the only code that can write it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::limits::ID_END;

/// The first id of a tag that is not yet reserved: 1 to [`ID_END`], where every id is reserved.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "u64")]
pub(super) struct Watermark(u64);

impl Watermark {
    /// The mark of a tag without any reserved id.
    pub(super) const LOWEST: Self = Self(1);

    /// The mark of a line that is not there yet and begins `advance` ids higher than usual, or at its end.
    pub(super) fn beginning(advance: u64) -> Self {
        let mut mark = Self::LOWEST;
        mark.rise(advance);
        mark
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }

    /// Moves the mark up to `to`; where it stands already is allowed.
    ///
    /// # Panics
    /// If the mark would fall or pass [`ID_END`]: ids would repeat, so the replica stops instead.
    pub(super) fn raise(&mut self, to: u64) {
        assert!(to >= self.0, "watermark would fall from {} to {to}", self.0);
        assert!(to <= ID_END, "watermark would pass the last id: {to}");
        self.0 = to;
    }

    /// Reserves this many numbers, or all that are left below `line_end` if these are fewer; `None` when no number is
    /// left.
    pub(super) fn grab(&mut self, size: u32, line_end: u64) -> Option<Range<u64>> {
        let start = self.0;
        if start >= line_end {
            return None;
        }
        let end = line_end.min(start + u64::from(size));
        self.raise(end);
        Some(start..end)
    }

    /// Moves the mark up by this many ids, or to the end.
    pub(super) fn rise(&mut self, by: u64) {
        self.raise(self.0.saturating_add(by).min(ID_END));
    }

    /// Moves the mark behind the last number that the line has given, if that is known, or else up by this many ids.
    pub(super) fn rise_behind(&mut self, last: Option<u64>, by: u64) {
        match last {
            Some(last) => self.raise(last.saturating_add(1).max(self.0).min(ID_END)),
            None => self.rise(by),
        }
    }
}

impl TryFrom<u64> for Watermark {
    type Error = &'static str;

    fn try_from(mark: u64) -> Result<Self, Self::Error> {
        if (1..=ID_END).contains(&mark) { Ok(Self(mark)) } else { Err("watermark out of bounds") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "watermark would fall from 5 to 4")]
    fn falling_stops_the_replica() {
        let mut mark = Watermark::LOWEST;
        mark.raise(5);
        mark.raise(5);
        mark.raise(4);
    }

    #[test]
    #[should_panic(expected = "watermark would pass the last id")]
    fn passing_the_last_id_stops_the_replica() {
        let mut mark = Watermark::LOWEST;
        mark.raise(ID_END);
        mark.raise(ID_END + 1);
    }

    type Step = fn(&mut Watermark) -> Option<Range<u64>>;

    /// What may happen to a mark.
    const STEPS: [Step; 10] = [
        |mark| mark.grab(1, ID_END),
        |mark| mark.grab(2, ID_END),
        |mark| mark.grab(5, ID_END),
        |mark| mark.grab(3, 4),
        |mark| mark.grab(3, ID_END - 1),
        |mark| risen(mark, 1),
        |mark| risen(mark, u64::MAX),
        |mark| behind(mark, Some(2), 1),
        |mark| behind(mark, Some(ID_END - 2), 1),
        |mark| behind(mark, None, 3),
    ];

    fn risen(mark: &mut Watermark, by: u64) -> Option<Range<u64>> {
        mark.rise(by);
        None
    }

    fn behind(mark: &mut Watermark, last: Option<u64>, by: u64) -> Option<Range<u64>> {
        mark.rise_behind(last, by);
        None
    }

    /// Takes every course of `steps` steps from a mark on. Returns how many there are.
    fn courses(mark: Watermark, steps: u32) -> u64 {
        if steps == 0 {
            return 1;
        }
        let mut count = 0;
        for step in STEPS {
            let mut after = mark;
            let grabbed = step(&mut after);
            assert!(
                after.get() >= mark.get() && after.get() <= ID_END,
                "{mark:?} became {after:?}"
            );
            if let Some(ids) = grabbed {
                assert!(ids.start == mark.get() && ids.end == after.get() && !ids.is_empty());
            }
            count += courses(after, steps - 1);
        }
        count
    }

    /// **Bound:** every course of six steps out of ten, from a new line and from each of the last four marks.
    #[test]
    fn no_course_of_steps_lowers_a_mark_or_grabs_a_number_twice() {
        let begins = [1, ID_END - 3, ID_END - 2, ID_END - 1, ID_END];
        let courses: u64 = begins.map(|mark| courses(Watermark(mark), 6)).iter().sum();
        assert_eq!(courses, 5_000_000);
    }
}
