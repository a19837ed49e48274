//! The judge's knowledge of the number lines of tags, and its rules for reserved and given ids.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use mintleaf_core::limits::PERIOD_SKEW_MS;
use mintleaf_core::shape::{self, Kind, Leadership, PeriodNumber, Shape};
use mintleaf_core::state::TagRow;

use super::handed_out::{Name, Part};
use super::{Incarnation, Known, Oracle};

/// A committed interval of ids.
pub(super) struct Interval {
    pub(super) end: u64,
    /// The incarnation that gave an id of it to a client.
    giver: Option<Incarnation>,
    /// The leadership that reserved it, if only the leader draws from the line.
    pub(super) by: Option<Leadership>,
}

/// The history of one line.
#[derive(Default)]
pub(super) struct Line {
    pub(super) max_id: u64,
    pub(super) committed: BTreeMap<u64, Interval>,
    /// For each incarnation, the end of the highest range that it has given.
    highest: BTreeMap<Incarnation, u64>,
}

/// The part of a tag that ids belong to, as a call sees it: the period, if the tag has periods.
pub(crate) type Period = Option<PeriodNumber>;

/// A grab of a line that reserved ids.
pub(super) struct Reserved<'a> {
    pub(super) tag: &'a str,
    pub(super) line: shape::Line,
    pub(super) by: Option<Leadership>,
    pub(super) ids: Range<u64>,
    /// The stamp of its entry.
    pub(super) now_ms: u64,
}

impl Line {
    /// A line that goes on right behind this number.
    pub(super) fn behind(last: u64) -> Self {
        Self { max_id: last + 1, ..Self::default() }
    }
}

impl Oracle {
    /// By line, the first id above all that this cluster and its relatives have reserved.
    pub(crate) fn ends(&self) -> BTreeMap<Name, u64> {
        self.handed_out.ends()
    }

    /// The committed watermark of each line.
    pub(crate) fn max_ids(&self) -> BTreeMap<Name, u64> {
        let known = self.known.lock();
        known.lines.iter().map(|(of, line)| (of.clone(), line.max_id)).collect()
    }

    /// The committed watermark of a tag with one line.
    pub(crate) fn max_id(&self, tag: &str) -> Option<u64> {
        self.known.lock().lines.get(&(tag.to_owned(), Part::Whole)).map(|line| line.max_id)
    }

    /// Whether the ids of a line in this cluster must differ from those of all its relatives.
    pub(crate) fn keeps_apart(&self, part: &Part) -> bool {
        match *part {
            Part::Period { number, start_ms, end_ms, .. } => {
                self.part(shape::Line::Period { number, start_ms, end_ms }) == *part
            }
            _ => true,
        }
    }

    /// Judges an interval that a grab reserved.
    pub(super) fn reserved(&self, known: &mut Known, reserved: Reserved<'_>) {
        let Reserved { tag, line, by, ids, now_ms } = reserved;
        let part = self.part(line);
        if let Part::Period { number, start_ms, end_ms, .. } = part {
            known.periods.insert((tag.to_owned(), number), part.clone());
            let open = start_ms.saturating_sub(PERIOD_SKEW_MS)..end_ms + PERIOD_SKEW_MS;
            if !open.contains(&now_ms) {
                self.broken(format_args!("{tag}: ids of {number:?} were reserved at {now_ms}"));
            }
        }
        if by.is_some_and(|by| Incarnation::of_nonce(by.nonce).node_id != by.node_id) {
            self.broken(format_args!("{tag}: {line:?} was reserved by {by:?}, which is nobody"));
        }
        let of = (tag.to_owned(), part);
        let is_whole = of.1 == Part::Whole;
        let (is_new, history) = match known.lines.entry(of.clone()) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                (true, vacant.insert(Line::default()))
            }
            std::collections::btree_map::Entry::Occupied(held) => (false, held.into_mut()),
        };
        let Range { start, end } = ids;
        // Lines of a restored cluster begin where its copy has them. Administrators raise only whole lines.
        let expected = if is_new { 1 } else { history.max_id };
        let is_exact = !(is_whole || is_new && self.is_restored);
        if start < history.max_id || end <= start || is_exact && start != expected {
            self.broken(format_args!(
                "{of:?}: {start}..{end} is reserved, and the mark is {expected}"
            ));
        }
        if !self.handed_out.reserve(&of, &ids) {
            self.broken(format_args!("{of:?}: {start}..{end} was reserved before"));
        }
        history.max_id = end;
        history.committed.insert(start, Interval { end, giver: None, by });
    }

    /// Judges the row of a tag in the answer to a change.
    pub(super) fn row_shown(&self, known: &mut Known, row: &TagRow, shape: Option<&Shape>) {
        let tag = row.tag.as_str();
        let has_one_line =
            shape.is_none_or(|shape| shape.kind == Kind::Segment && shape.period.is_none());
        if has_one_line {
            let line = known.lines.entry((tag.to_owned(), Part::Whole)).or_default();
            if row.max_id < line.max_id {
                self.broken(format_args!("the mark of {row:?} was {}", line.max_id));
            }
            line.max_id = row.max_id;
            return;
        }
        // The row shows the mark of the latest period, or of the section that is furthest. A restored cluster
        // may have either from its copy.
        let marks = lines_of(known, tag).map(|(part, line)| match part {
            Part::Period { .. } => (part, line.max_id),
            _ => (&Part::Whole, line.max_id),
        });
        let expected = marks.max().map_or(1, |(_, mark)| mark);
        if !self.is_restored && row.max_id != expected {
            self.broken(format_args!("{row:?} shows another mark than {expected}"));
        }
    }

    /// The end of the highest ids of a tag that an incarnation has given so far, by period. The ids of a later
    /// call must lie above it.
    pub(crate) fn highest_of(&self, incarnation: Incarnation, tag: &str) -> BTreeMap<Period, u64> {
        let known = self.known.lock();
        let highest = lines_of(&known, tag).filter_map(|(part, line)| {
            let period = if let Part::Period { number, .. } = part { Some(*number) } else { None };
            Some((period, *line.highest.get(&incarnation)?))
        });
        highest.collect()
    }

    /// Judges ids of a tag that a call gave to a client. `before` is from before the call.
    pub(crate) fn given(
        &self,
        incarnation: Incarnation,
        (tag, period): (&str, Period),
        ranges: &[Range<u64>],
        before: &BTreeMap<Period, u64>,
    ) {
        let known = &mut *self.known.lock();
        let of = (tag.to_owned(), self.part_of(known, tag, period));
        self.check_order(incarnation, tag, ranges, before.get(&period).copied().unwrap_or(0));
        let line = known.lines.entry(of.clone()).or_default();
        for range in ranges {
            self.note_given(&of, range);
            match line.committed.range_mut(..=range.start).next_back() {
                Some((_, interval)) if range.end <= interval.end => {
                    let giver = *interval.giver.get_or_insert(incarnation);
                    if giver != incarnation {
                        self.broken(format_args!(
                            "{of:?}: {range:?} was given by {incarnation:?}, and its interval is {giver:?}'s"
                        ));
                    }
                }
                _ => self.broken(format_args!("{of:?}: {range:?} was given and not committed")),
            }
            let highest = line.highest.entry(incarnation).or_default();
            *highest = range.end.max(*highest);
        }
    }

    /// The period and the end of the highest ids of a strict tag that any client was given so far. The ids of
    /// every later call, at any node, must lie above it.
    pub(crate) fn highest_answered(&self, tag: &str) -> (Period, u64) {
        self.known.lock().strict.get(tag).copied().unwrap_or_default()
    }

    /// Judges ids of a strict tag that a call gave to a client. `before` is the highest end before the call.
    pub(crate) fn given_in_strict_order(
        &self,
        incarnation: Incarnation,
        (tag, period): (&str, Period),
        ranges: &[Range<u64>],
        before: (Period, u64),
    ) {
        let known = &mut *self.known.lock();
        if period < before.0 {
            let earlier = before.0;
            self.broken(format_args!(
                "{tag}: {incarnation:?} gave ids of {period:?} after {earlier:?}"
            ));
        }
        self.check_order(incarnation, tag, ranges, if period == before.0 { before.1 } else { 0 });
        let of = (tag.to_owned(), self.part_of(known, tag, period));
        for range in ranges {
            self.note_given(&of, range);
            let line = known.lines.entry(of.clone()).or_default();
            match line.committed.range(..=range.start).next_back() {
                Some((_, interval)) if range.end <= interval.end => {}
                _ => self.broken(format_args!("{of:?}: {range:?} was given and not committed")),
            }
            let highest = known.strict.entry(tag.to_owned()).or_default();
            *highest = (period, range.end).max(*highest);
        }
    }

    /// Notes ids that a client was given. No other client may have been given any of them.
    pub(super) fn note_given(&self, of: &Name, range: &Range<u64>) {
        self.handed_out.ids.fetch_add(range.end - range.start, Ordering::Relaxed);
        self.check_once(format_args!("{of:?}"), range, self.handed_out.give(of, range));
    }

    /// The part of a tag where the numbers of a line are unique.
    pub(super) fn part(&self, line: shape::Line) -> Part {
        match line {
            shape::Line::Whole => Part::Whole,
            shape::Line::Section(section) => Part::Section(section),
            shape::Line::Period { number, start_ms, end_ms } => {
                // From one period length behind the floor on, each of the two clusters begins its periods at 1.
                let apart = |floor_ms: &&u64| start_ms >= **floor_ms + (end_ms - start_ms);
                let age = self.beside_from_ms.iter().filter(apart).count();
                Part::Period { number, start_ms, end_ms, age }
            }
        }
    }

    /// The part of a tag that the ids of a period belong to, or ids without a period.
    pub(super) fn part_of(&self, known: &Known, tag: &str, period: Period) -> Part {
        let Some(number) = period else { return Part::Whole };
        let part = known.periods.get(&(tag.to_owned(), number)).cloned();
        part.unwrap_or_else(|| {
            self.broken(format_args!("{tag}: ids of {number:?} were given and none was reserved"));
            Part::Whole
        })
    }

    pub(super) fn check_order(
        &self,
        incarnation: Incarnation,
        what: &str,
        ranges: &[Range<u64>],
        floor: u64,
    ) {
        let mut last = floor;
        for range in ranges {
            if range.start < last {
                self.broken(format_args!("{what}: {incarnation:?} gave {range:?} after {last}"));
            }
            last = range.end;
        }
    }

    pub(super) fn check_once(
        &self,
        what: std::fmt::Arguments<'_>,
        range: &Range<u64>,
        is_new: bool,
    ) {
        if !is_new {
            self.broken(format_args!("{what}: {range:?} was given before, in part or whole"));
        }
    }
}

/// The lines of a tag.
fn lines_of<'a>(known: &'a Known, tag: &'a str) -> impl Iterator<Item = (&'a Part, &'a Line)> {
    let from = (tag.to_owned(), Part::Whole);
    let behind = known.lines.range(from..);
    behind.take_while(move |((of, _), _)| of == tag).map(|((_, part), line)| (part, line))
}
