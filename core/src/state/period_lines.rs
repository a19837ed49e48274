//! The lines of a tag with periods: the marks of the periods used last.
//!
//! Clocks decide which line is asked for, but not what it gives: a line is known by its period's number alone, and its
//! mark only rises. So (period, id) is unique whatever any clock shows. The marks of [`PERIODS_KEPT`] periods are kept.
//! Another one takes the place of the lowest; from then on that one and all below it are refused for good, because
//! their marks are lost.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::line_names::{LastNumbers, LineName};
use super::response::Response;
use super::watermark::Watermark;
use crate::limits::{PERIOD_SKEW_MS, PERIODS_KEPT};
use crate::shape::{PeriodLength, PeriodNumber};

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct PeriodLines {
    /// The highest period whose mark is no longer kept.
    dropped: Option<PeriodNumber>,
    /// Periods in ascending order, at most [`PERIODS_KEPT`], all of them above the one dropped.
    kept: Vec<(PeriodNumber, Watermark)>,
}

impl PeriodLines {
    /// Whether ids of a period may be given by an entry that the leader stamped `now_ms`. The period must not be too
    /// old, nor earlier than the latest one of a tag that never goes back; and it must be now, give or take the skew of
    /// clocks.
    pub(super) fn admit(
        &self,
        number: PeriodNumber,
        span_ms: Range<u64>,
        now_ms: u64,
        never_back: bool,
    ) -> Result<(), Response> {
        let is_kept = self.position(number).is_ok();
        let is_full = self.kept.len() == PERIODS_KEPT;
        let is_too_old = self.dropped.is_some_and(|dropped| number <= dropped)
            || !is_kept && is_full && number < self.kept[0].0;
        let latest = self.kept.last().map(|(latest, _)| *latest);
        if is_too_old || never_back && latest.is_some_and(|latest| number < latest) {
            return Err(Response::PeriodOver { number });
        }
        let opens_ms = span_ms.start.saturating_sub(PERIOD_SKEW_MS);
        let closes_ms = span_ms.end.saturating_add(PERIOD_SKEW_MS);
        if (opens_ms..closes_ms).contains(&now_ms) { Ok(()) } else { Err(Response::PeriodClosed) }
    }

    /// Reserves `size` numbers of an admitted period, or all that are left before `line_end` if these are fewer; `None`
    /// when none is left. A period that has no mark yet begins `advance` numbers above 1.
    pub(super) fn grab(
        &mut self,
        number: PeriodNumber,
        size: u32,
        advance: u64,
        line_end: u64,
    ) -> Option<Range<u64>> {
        let at = self.position(number).unwrap_or_else(|at| self.begin(at, number, advance));
        self.kept[at].1.grab(size, line_end)
    }

    /// Adds a period at its place, and returns that place.
    fn begin(&mut self, at: usize, number: PeriodNumber, advance: u64) -> usize {
        self.kept.insert(at, (number, Watermark::beginning(advance)));
        if self.kept.len() <= PERIODS_KEPT {
            return at;
        }
        self.dropped = Some(self.kept.remove(0).0);
        at - 1
    }

    /// The mark of the latest period used; that of a new line when none was.
    pub(super) fn latest(&self) -> u64 {
        self.kept.last().map_or(Watermark::LOWEST, |(_, mark)| *mark).get()
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The periods whose marks are kept, with these.
    pub(super) fn marks(&self) -> impl Iterator<Item = (LineName, u64)> {
        self.kept.iter().map(|(number, mark)| (LineName::Period(*number), mark.get()))
    }

    /// Raises every mark, that of a period whose last number is known to behind that. What is dropped stays refused.
    pub(super) fn rise(&mut self, by: u64, lasts: &LastNumbers) {
        let Self { dropped: _, kept } = self;
        for (number, mark) in kept {
            mark.rise_behind(lasts.get(&LineName::Period(*number)).copied(), by);
        }
        for (line, last) in lasts {
            if let LineName::Period(number) = *line {
                self.add(number, *last);
            }
        }
    }

    /// Adds a period that the copy lacks, behind its last number. One that is refused for good stays refused.
    fn add(&mut self, number: PeriodNumber, last: u64) {
        let is_over = self.dropped.is_some_and(|dropped| number <= dropped)
            || self.kept.len() == PERIODS_KEPT && number < self.kept[0].0;
        if let Err(at) = self.position(number)
            && !is_over
        {
            let at = self.begin(at, number, 0);
            self.kept[at].1.rise_behind(Some(last), 0);
        }
    }

    pub(super) fn is_sound(&self, length: PeriodLength) -> bool {
        let Self { dropped, kept } = self;
        let mut numbers = dropped.iter().chain(kept.iter().map(|(number, _)| number));
        kept.len() <= PERIODS_KEPT
            && (dropped.is_none() || kept.len() == PERIODS_KEPT)
            && numbers.clone().is_sorted_by(|one, next| one < next)
            && numbers.all(|number| length.has_number(*number))
    }

    fn position(&self, number: PeriodNumber) -> Result<usize, usize> {
        self.kept.binary_search_by_key(&number, |(kept, _)| *kept)
    }
}
