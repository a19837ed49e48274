//! What this process holds to hand out in strict order: intervals that were reserved in one term.
//!
//! Pure. Everything that is held was reserved by entries of one term, which named this process start. Another term
//! begins with nothing.

mod held_line;
mod watched;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use mintleaf_core::segment::Segment;
use mintleaf_core::sequence::{Counters, Last, SequenceKey, section_of};
use mintleaf_core::shape::{Line, PeriodNumber};
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;

use self::held_line::HeldLine;
use super::confirmed::{Confirmed, Turn};
use super::request::{Given, Outcome, Request, Wanted};
use crate::service::grabs::Refused;

/// Names a line of a tag. The lines of a tag are all periods, all sections, or one; later periods come after
/// earlier ones.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum LineName {
    Whole,
    Period(PeriodNumber),
    Section(u16),
}

/// A grab that has to be made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Grab {
    /// Names the grab, so that a late answer, which no request waits for any more, is recognized.
    pub(super) id: u64,
    pub(super) tag: BizTag,
    pub(super) line: Line,
    pub(super) size: u32,
    pub(super) term: u64,
}

type Lines = BTreeMap<LineName, HeldLine>;

/// Lines by tag, in the order of names, which is also the order of pages.
type Tags = BTreeMap<BizTag, Lines>;

/// What is held, and which grabs are under way for it.
pub(super) struct Holdings {
    term: u64,
    /// The lines of strict tags.
    tags: Tags,
    /// The sections of sequences that have a grab under way, or no more numbers.
    sections: Tags,
    counters: Counters,
    /// The line of each grab in flight.
    in_flight: BTreeMap<u64, (BizTag, LineName)>,
    last_grab: u64,
    /// The lines that need more numbers, and how many numbers requests wait for.
    wanting: BTreeMap<(BizTag, LineName), u64>,
    /// The line that was taken from `wanting` last.
    last_wanting: Option<(BizTag, LineName)>,
}

impl LineName {
    pub(super) fn of(line: &Line) -> Self {
        match line {
            Line::Whole => Self::Whole,
            Line::Period { number, .. } => Self::Period(*number),
            Line::Section(section) => Self::Section(*section),
        }
    }

    fn is_section(self) -> bool {
        matches!(self, Self::Section(_))
    }

    fn period(self) -> Option<PeriodNumber> {
        match self {
            Self::Period(number) => Some(number),
            Self::Whole | Self::Section(_) => None,
        }
    }
}

impl Holdings {
    pub(super) fn new(counters: Counters) -> Self {
        Self {
            term: 0,
            tags: Tags::new(),
            sections: Tags::new(),
            counters,
            in_flight: BTreeMap::new(),
            last_grab: 0,
            wanting: BTreeMap::new(),
            last_wanting: None,
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Enters a term. Drops everything, unless the term is the same as before.
    pub(super) fn enter(&mut self, term: u64) {
        if term != self.term {
            self.drop_all();
            self.term = term;
        }
    }

    pub(super) fn drop_all(&mut self) {
        self.tags.clear();
        self.sections.clear();
        self.counters.forget_all();
        self.in_flight.clear();
        self.wanting.clear();
    }

    /// Drops what is held of a tag. The answer to a grab that is under way for it is ignored.
    pub(super) fn drop_tag(&mut self, tag: &str) {
        self.counters.forget_tag(tag);
        self.tags.remove(tag);
        self.sections.remove(tag);
        self.in_flight.retain(|_, (of, _)| of.as_str() != tag);
        self.wanting.retain(|(of, _), _| of.as_str() != tag);
    }

    /// From now on gives no id below this mark on a tag's only line.
    pub(super) fn rise_to(&mut self, tag: &str, mark: u64) {
        let held = self.tags.get_mut(tag).and_then(|lines| lines.get_mut(&LineName::Whole));
        if let Some(buffer) = held.and_then(|held| held.buffer.as_mut()) {
            buffer.rise_to(mark);
        }
    }

    /// Gives a request what it asks for, if that is held and may be given. A request that gets nothing yet counts as
    /// demand for [`grabs`](Self::grabs).
    pub(super) fn give(
        &mut self,
        confirmed: Confirmed,
        came: Turn,
        request: &Request,
        now_ms: u64,
    ) -> Option<Outcome> {
        if !confirmed.lets_give(came, self.term) {
            return None;
        }
        match &request.wanted {
            &Wanted::Ids { line, count, contiguous } => {
                self.give_ids(&request.tag, line, (count, contiguous), now_ms)
            }
            Wanted::Numbers { key, count } => self.give_numbers(&request.tag, key, *count),
            Wanted::Last { key } => Some(self.last(&request.tag, key)),
        }
    }

    /// Counts a request that waits behind another one of its call as demand for [`grabs`](Self::grabs). `together` is
    /// how many numbers of the same line or key the call waits for so far.
    pub(super) fn want(&mut self, request: &Request, together: u64) {
        match &request.wanted {
            &Wanted::Ids { line, count, .. } => {
                let lines = self.tags.get(request.tag.as_str());
                let name = lines.map(|lines| name_now(lines, &line));
                if let Some(wanted) =
                    name.and_then(|name| self.wanting.get_mut(&(request.tag.clone(), name)))
                {
                    *wanted = wanted.saturating_add(count);
                }
            }
            Wanted::Numbers { key, .. } => {
                if let Ok(key) = SequenceKey::parse(key) {
                    self.want_section(&request.tag, section_of(key), together);
                }
            }
            Wanted::Last { .. } => {}
        }
    }

    fn give_ids(
        &mut self,
        tag: &BizTag,
        line: Line,
        (count, contiguous): (u64, bool),
        now_ms: u64,
    ) -> Option<Outcome> {
        if !self.tags.contains_key(tag.as_str()) {
            self.tags.insert(tag.clone(), Lines::new());
        }
        let lines = self.tags.get_mut(tag.as_str())?;
        let name = name_now(lines, &line);
        let held = lines.entry(name).or_insert_with(|| HeldLine::new(line));
        let buffer = held.buffer.as_mut()?;
        let ranges = match contiguous {
            true => buffer.take_contiguous(count, || now_ms).map(|run| vec![run]),
            false => buffer.take(count, || now_ms),
        };
        if held.grab.is_none() && !held.exhausted && (ranges.is_none() || buffer.wants_grab()) {
            let demand = if ranges.is_none() { count } else { 0 };
            let wanted = self.wanting.entry((tag.clone(), name)).or_default();
            *wanted = wanted.saturating_add(demand);
        }
        match ranges {
            Some(ranges) => Some(Ok(Given::Ids { period: name.period(), ranges })),
            None if held.exhausted => Some(Err(Refused::Exhausted)),
            None => None,
        }
    }

    fn give_numbers(&mut self, tag: &BizTag, key: &str, count: u64) -> Option<Outcome> {
        let Ok(key) = SequenceKey::parse(key) else { return Some(Err(Refused::OtherShape)) };
        match self.counters.take(tag.as_str(), key, count) {
            Ok(numbers) => {
                if let Some(section) = self.counters.low_section() {
                    // The log raises this to a step, so the count of this request does not matter.
                    self.want_section(tag, section, 1);
                }
                let last = *numbers.end();
                let range = *numbers.start()..last + 1;
                let ranges = vec![range];
                Some(Ok(Given::Ids { period: None, ranges }))
            }
            Err(not_held) => {
                let is_had = self.want_section(tag, not_held.section, count);
                (!is_had).then_some(Err(Refused::Exhausted))
            }
        }
    }

    /// Asks for more numbers of a section, unless a grab of it is under way: one at a time, so that its intervals
    /// arrive in the order of the log. Returns false if the section has no more numbers.
    fn want_section(&mut self, tag: &BizTag, section: u16, count: u64) -> bool {
        let name = LineName::Section(section);
        let held = self.sections.get(tag.as_str()).and_then(|lines| lines.get(&name));
        if held.is_some_and(|held| held.exhausted) {
            return false;
        }
        if held.is_none_or(|held| held.grab.is_none()) {
            // Each key counts by itself, so that the largest demand of a section covers them all.
            let wanted = self.wanting.entry((tag.clone(), name)).or_default();
            *wanted = count.max(*wanted);
        }
        true
    }

    fn last(&mut self, tag: &BizTag, key: &str) -> Outcome {
        let key = SequenceKey::parse(key).map_err(|_| Refused::OtherShape)?;
        Ok(match self.counters.last(tag.as_str(), key) {
            Last::Is(last) => Given::LastIs(last),
            Last::Below(end) => Given::LastBelow(end),
            Last::NotHeld { section } => Given::NothingHeld { section },
        })
    }

    /// The grabs that are wanted, at most `most`. Each counts as under way from here on.
    pub(super) fn grabs(&mut self, most: usize, now_ms: u64) -> Vec<Grab> {
        let mut grabs = Vec::new();
        while grabs.len() < most
            && let Some(((tag, name), demand)) = self.next_wanting()
        {
            let id = self.last_grab + 1;
            let held = match name {
                LineName::Section(section) => {
                    let lines = self.sections.entry(tag.clone()).or_default();
                    lines.entry(name).or_insert_with(|| HeldLine::new(Line::Section(section)))
                }
                LineName::Whole | LineName::Period(_) => {
                    let lines = self.tags.get_mut(tag.as_str());
                    let Some(held) = lines.and_then(|lines| lines.get_mut(&name)) else { continue };
                    held
                }
            };
            held.grab = Some(id);
            let (line, size) = (held.line, held.begin_grab(demand, now_ms));
            self.last_grab = id;
            self.in_flight.insert(id, (tag.clone(), name));
            grabs.push(Grab { id, tag, line, size, term: self.term });
        }
        grabs
    }

    /// Takes the line behind the one that was taken last, or else the first. Lines take turns, because otherwise a
    /// steady stream of requests for thousands of sections would keep every tag with a later name waiting.
    fn next_wanting(&mut self) -> Option<((BizTag, LineName), u64)> {
        let behind = self.last_wanting.as_ref().map_or(Unbounded, Excluded);
        let mut behind = self.wanting.range::<(BizTag, LineName), _>((behind, Unbounded));
        let next = behind.next().or_else(|| self.wanting.first_key_value());
        let next = next.map(|(line, _)| line.clone())?;
        self.last_wanting = Some(next.clone());
        self.wanting.remove_entry(&next)
    }

    /// Forgets which lines need more: requests that still wait count again.
    pub(super) fn want_anew(&mut self) {
        self.wanting.clear();
    }

    /// Takes in the interval that a grab has reserved. If no request waits for the answer, the interval is wasted.
    pub(super) fn granted(&mut self, grab: u64, segment: Segment, steps: Steps, now_ms: u64) {
        let Some((tag, name)) = self.in_flight.remove(&grab) else { return };
        let Some(lines) = self.tags_with(name).get_mut(tag.as_str()) else { return };
        if let LineName::Section(section) = name {
            lines.remove(&name);
            if lines.is_empty() {
                self.sections.remove(tag.as_str());
            }
            return self.counters.granted(&tag, section, segment.start, segment.end);
        }
        let Some(held) = lines.get_mut(&name) else { return };
        (held.grab, held.steps, held.opened) = (None, steps, true);
        held.installed += segment.end - segment.start;
        if let Some(buffer) = &mut held.buffer {
            buffer.install(segment, steps, now_ms);
        }
        lines.retain(|other, _| *other >= name);
    }

    /// Ends a grab that reserved nothing. Returns its line, if that is still known here.
    pub(super) fn not_granted(
        &mut self,
        grab: u64,
        why: Option<Refused>,
    ) -> Option<(BizTag, LineName)> {
        let (tag, name) = self.in_flight.remove(&grab)?;
        let tags = self.tags_with(name);
        let lines = tags.get_mut(tag.as_str())?;
        let held = lines.get_mut(&name)?;
        held.grab = None;
        if let Some(buffer) = &mut held.buffer {
            buffer.grab_failed();
        }
        let stays = match why {
            Some(Refused::Exhausted) => {
                held.exhausted = true;
                true
            }
            // What is held stays, for when the tag gives ids again.
            Some(Refused::Frozen) | None => held.buffer.is_some(),
            Some(_) => false,
        };
        if !stays {
            lines.remove(&name);
        }
        if lines.is_empty() {
            tags.remove(tag.as_str());
        }
        Some((tag, name))
    }

    /// The tags whose lines have names of this kind.
    fn tags_with(&mut self, name: LineName) -> &mut Tags {
        match name {
            LineName::Whole | LineName::Period(_) => &mut self.tags,
            LineName::Section(_) => &mut self.sections,
        }
    }
}

/// The line that serves a request for this one. A tag never goes back to an earlier period, no matter how far the clock
/// of the asking node is behind.
fn name_now(lines: &Lines, asked: &Line) -> LineName {
    let asked = LineName::of(asked);
    let opened = lines.iter().rev().find(|(_, held)| held.opened).map(|(name, _)| *name);
    opened.filter(|opened| opened.period() > asked.period()).unwrap_or(asked)
}
