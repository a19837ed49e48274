//! The ids that one node holds of one tag, and how many to reserve next.
//!
//! Pure: the caller locks, waits, grabs and reads the clock. Time comes in as milliseconds of a clock
//! that does not step back.
//!
//! **Inside a process, one cursor walks an interval, upward only.** [`SegmentBuffer`] has one cursor, every id that it
//! gives is above the one before, and [`SegmentBuffer::install`] refuses a segment unless it lies above everything that
//! the buffer ever held.
//!
//! **Nothing is carried across a restart.** No type here can be stored. A process that ends wastes at most the current
//! segment, the next one and the grab in flight.

mod outlook;
mod sizing;

use std::collections::VecDeque;
use std::ops::Range;

pub use outlook::Outlook;
use sizing::{Sizing, Use};

use crate::steps::Steps;

/// A node uses at least this many ids of a segment before it fetches the next one. It uses up a shorter segment first:
/// such a tag is hardly used, is new, or has a small `step_max`, and the earlier a node fetches, the further apart are
/// the ids that callers get from different nodes.
const FETCH_AFTER_IDS: u64 = 10;

/// How many ids of a segment of this length a node uses before it fetches the next one: a tenth, and at least ten ids.
/// `None` if it fetches the next one only when a caller waits for it.
pub fn used_before_fetch(length: u64) -> Option<u64> {
    let used = length.div_ceil(10).max(FETCH_AFTER_IDS);
    (used < length).then_some(used)
}

/// The ids of one committed grab: from `start` up to but excluding `end`. Never empty.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// First id.
    pub start: u64,
    /// First id past it.
    pub end: u64,
}

impl Segment {
    fn len(self) -> u64 {
        self.end - self.start
    }
}

/// The double buffer: the segment that ids come from, and the next one, which the node fetches while the first lasts.
///
/// There is at most one grab in flight: [`begin_grab`](Self::begin_grab) starts it, and [`install`](Self::install) or
/// [`grab_failed`](Self::grab_failed) ends it. A mark set by an administrator or an import is a floor here too:
/// [`rise_to`](Self::rise_to).
#[derive(Debug)]
pub struct SegmentBuffer {
    /// The next id to give. The only cursor.
    cursor: u64,
    /// The segment that the cursor is in or at the end of; empty before the first.
    current: Segment,
    /// The cursor position where the node fetches the next segment; past every id if a caller must wait first.
    low_water: u64,
    /// Segments above `current`, ascending: usually one; more only after a demand larger than both.
    upcoming: VecDeque<Segment>,
    /// When the cursor entered `current`.
    switched_ms: u64,
    /// How often the cursor entered a segment.
    switches: u64,
    /// Ids given from the segments before `current`.
    given_before: u64,
    sizing: Sizing,
    /// The size of the grab in flight, if any, before the callers' demand is added.
    in_flight: Option<u32>,
    /// The buffer gives no id below it any more.
    floor: u64,
}

impl SegmentBuffer {
    /// An empty buffer for a tag with these bounds of grabs.
    pub fn new(steps: Steps) -> Self {
        Self::sized(Sizing::new(steps))
    }

    /// An empty buffer for a line that ends at `line_end`.
    pub fn of_line(steps: Steps, line_end: u64) -> Self {
        Self::sized(Sizing::of_line(steps, line_end))
    }

    /// An empty buffer for a tag whose ids only the leader hands out.
    pub fn led(steps: Steps) -> Self {
        Self::sized(Sizing::led(steps))
    }

    fn sized(sizing: Sizing) -> Self {
        Self {
            cursor: 0,
            current: Segment { start: 0, end: 0 },
            low_water: 0,
            upcoming: VecDeque::new(),
            switched_ms: 0,
            switches: 0,
            given_before: 0,
            sizing,
            in_flight: None,
            floor: 0,
        }
    }

    /// The next id, or `None` when none is held. Reads the clock only on entering a segment.
    #[inline]
    pub fn take_one(&mut self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        if self.cursor == self.current.end {
            self.enter_next()?;
            self.switched_ms = now_ms();
        }
        let id = self.cursor;
        self.cursor += 1;
        Some(id)
    }

    /// The next ids without a gap, up to `count_max`, which is 1 or more; `None` when none is held. Reads the clock
    /// only on entering a segment.
    #[inline]
    pub fn take_some(
        &mut self,
        count_max: u64,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<Range<u64>> {
        let first = self.take_one(now_ms)?;
        self.cursor = self.current.end.min(first.saturating_add(count_max));
        Some(first..self.cursor)
    }

    /// The next `count` ids as ascending ranges. When fewer are held, takes nothing and returns `None`. Reads the clock
    /// at most once, on entering a segment.
    pub fn take(&mut self, count: u64, now_ms: impl FnOnce() -> u64) -> Option<Vec<Range<u64>>> {
        if count > self.remaining() {
            return None;
        }
        let switches = self.switches;
        let mut ranges = Vec::with_capacity(1);
        let mut missing = count;
        while missing > 0 {
            if self.cursor == self.current.end {
                self.enter_next()?;
            }
            let end = self.current.end.min(self.cursor + missing);
            missing -= end - self.cursor;
            ranges.push(self.cursor..end);
            self.cursor = end;
        }
        if self.switches != switches {
            self.switched_ms = now_ms();
        }
        Some(ranges)
    }

    /// The next `count` ids, 1 or more, without a gap. Skips the ids held below such a run, which are then wasted. When
    /// there is no such run, takes and skips nothing and returns `None`. Reads the clock at most once, on entering a
    /// segment.
    pub fn take_contiguous(
        &mut self,
        count: u64,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<Range<u64>> {
        let run = self.first_contiguous(count)?;
        let switches = self.switches;
        while self.cursor < run.start {
            self.cursor = self.current.end;
            self.enter_next()?;
        }
        while self.cursor < run.end {
            if self.cursor == self.current.end {
                self.enter_next()?;
            }
            self.cursor = self.current.end.min(run.end);
        }
        if self.switches != switches {
            self.switched_ms = now_ms();
        }
        Some(run)
    }

    /// The lowest `count` ids held that follow each other without a gap; segments may touch.
    fn first_contiguous(&self, count: u64) -> Option<Range<u64>> {
        let mut run = self.cursor..self.current.end;
        for segment in &self.upcoming {
            if run.end - run.start >= count {
                break;
            }
            let start = if segment.start == run.end { run.start } else { segment.start };
            run = start..segment.end;
        }
        (run.end - run.start >= count).then(|| run.start..run.start + count)
    }

    /// Whether it is time to fetch the next segment: callers have used as much of the current one as
    /// [`used_before_fetch`] says, or there never was one; no next one is held; and no grab is in flight. Asking after
    /// every take costs little.
    #[inline]
    pub fn wants_grab(&self) -> bool {
        self.cursor >= self.low_water && self.in_flight.is_none() && self.upcoming.is_empty()
    }

    /// Begins a grab and returns how many ids to ask for, within `steps`, the tag's current bounds.
    ///
    /// `demand` is how many ids callers wait for. The size covers the demand as far as `steps` allows, whatever the
    /// buffer holds, and even above the sizing's own cap.
    ///
    /// # Panics
    /// If a grab is in flight.
    pub fn begin_grab(&mut self, now_ms: u64, steps: Steps, demand: u64) -> u32 {
        assert!(self.in_flight.is_none(), "a grab is in flight already");
        let used = self.cursor - self.current.start;
        let entered_ms_ago = now_ms.saturating_sub(self.switched_ms);
        let usage = Use { given: self.given_before + used, used, entered_ms_ago };
        let size = self.sizing.next_size(now_ms, steps, usage);
        self.in_flight = Some(size);
        steps.size(size.max(sizing::capped(demand)))
    }

    /// Ends the grab in flight with the segment that it reserved. `steps` are the tag's bounds as the grab found them.
    ///
    /// # Panics
    /// If no grab is in flight, or the segment is empty or not wholly above everything ever held.
    pub fn install(&mut self, segment: Segment, steps: Steps, now_ms: u64) {
        let size = self.in_flight.take().expect("no grab is in flight");
        assert!(segment.start < segment.end, "grabbed segment is empty: {segment:?}");
        let highest = self.upcoming.back().unwrap_or(&self.current).end;
        assert!(segment.start >= highest, "grabbed {segment:?} is not above {highest}");
        self.sizing.installed(now_ms, steps, size);
        self.upcoming.push_back(segment);
        self.skip_upcoming();
        if self.cursor == self.current.end && self.enter_next().is_some() {
            self.switched_ms = now_ms;
        }
    }

    /// Gives no id below `floor` from now on. Skips, and so wastes, the ids below it: the held ones, and those that the
    /// grab in flight may bring, because its entry may precede the floor.
    pub fn rise_to(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let skipped = self.floor.min(self.current.end).saturating_sub(self.cursor);
        self.cursor += skipped;
        // Only ids that were given count as used.
        self.current.start += skipped;
        self.skip_upcoming();
    }

    fn skip_upcoming(&mut self) {
        self.upcoming.retain_mut(|segment| {
            segment.start = segment.start.max(self.floor);
            segment.start < segment.end
        });
    }

    /// Ends the grab in flight without a segment.
    pub fn grab_failed(&mut self) {
        self.in_flight = None;
    }

    /// Whether a grab is in flight.
    pub fn grab_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// How many ids are held.
    pub fn remaining(&self) -> u64 {
        let upcoming: u64 = self.upcoming.iter().map(|segment| segment.len()).sum();
        self.current.end - self.cursor + upcoming
    }

    /// The buffer as Leaf shows it: two places for a segment, which take turns in being current.
    pub fn view(&self) -> BufferView {
        let current =
            SegmentView { value: self.cursor, max: self.current.end, step: self.current.len() };
        let next = self.upcoming.front().map_or_else(SegmentView::default, |next| SegmentView {
            value: next.start,
            max: next.end,
            step: next.len(),
        });
        let position = (self.switches.saturating_sub(1) % 2) as usize;
        let segments = if position == 0 { [current, next] } else { [next, current] };
        BufferView {
            initialized: self.switches > 0,
            next_ready: !self.upcoming.is_empty(),
            position,
            segments,
        }
    }

    /// How far the held ids reach. Moves nothing.
    pub fn outlook(&self, now_ms: u64) -> Outlook {
        let left = self.current.end - self.cursor;
        let ids_to_grab = match self.upcoming.back() {
            _ if self.in_flight.is_some() => 0,
            None => self.low_water.min(self.current.end).saturating_sub(self.cursor),
            Some(last) => {
                let before: u64 = self.upcoming.iter().map(|segment| segment.len()).sum();
                left + before - last.len() + used_before_fetch(last.len()).unwrap_or(last.len())
            }
        };
        Outlook {
            current: (self.switches > 0).then_some(self.current.start..self.current.end),
            cursor: self.cursor,
            next: self.upcoming.front().map(|next| next.start..next.end),
            remaining: self.remaining(),
            ids_to_grab,
            grab_in_flight: self.in_flight.is_some(),
            used: self.cursor - self.current.start,
            used_in_ms: now_ms.saturating_sub(self.switched_ms),
        }
    }

    /// Moves the cursor to the start of the next segment, if there is one.
    fn enter_next(&mut self) -> Option<()> {
        let next = self.upcoming.pop_front()?;
        assert!(next.start >= self.cursor, "the cursor would fall to {}", next.start);
        self.given_before += self.cursor - self.current.start;
        self.cursor = next.start;
        self.low_water = used_before_fetch(next.len()).map_or(u64::MAX, |used| next.start + used);
        self.current = next;
        self.switches += 1;
        Some(())
    }
}

/// The ids that one node holds of one tag, for people.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BufferView {
    /// Whether a segment was ever held.
    pub initialized: bool,
    /// Whether the next segment is held.
    pub next_ready: bool,
    /// Which of the two segments is the current one, 0 or 1.
    pub position: usize,
    /// The current segment and the next one, each in its place; all zeros for a missing one.
    pub segments: [SegmentView; 2],
}

/// One segment of a [`BufferView`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SegmentView {
    /// The next id to give from it.
    pub value: u64,
    /// First id past it.
    pub max: u64,
    /// Its length in ids.
    pub step: u64,
}

#[cfg(test)]
mod tests;
