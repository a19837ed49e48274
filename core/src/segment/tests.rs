mod courses;
mod outlook;

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::limits::STEP_MAX;

const MINUTE_MS: u64 = 60 * 1000;
const TEN: Steps = Steps { step: 10, step_max: None };

/// A buffer that was given these segments at 0 ms.
fn holding(segments: &[(u64, u64)]) -> SegmentBuffer {
    let mut buffer = SegmentBuffer::new(TEN);
    for segment in segments {
        install(&mut buffer, *segment);
    }
    buffer
}

fn install(buffer: &mut SegmentBuffer, (start, end): (u64, u64)) {
    buffer.begin_grab(0, TEN, 0);
    buffer.install(Segment { start, end }, TEN, 0);
}

fn unread() -> u64 {
    panic!("the clock was read inside a segment")
}

#[test]
fn ids_come_in_order_until_none_is_held() {
    let mut buffer = holding(&[(1, 4), (10, 12)]);
    let ids: Vec<u64> = std::iter::from_fn(|| buffer.take_one(|| 0)).collect();
    assert_eq!(ids, [1, 2, 3, 10, 11]);
    install(&mut buffer, (12, 13));
    assert_eq!(buffer.take_one(|| 0), Some(12));
    assert_eq!(buffer.take_one(|| 0), None);
}

#[test]
fn take_gives_every_id_or_takes_none() {
    let mut buffer = holding(&[(1, 5), (10, 15), (20, 21)]);
    assert_eq!(buffer.take(11, unread), None);
    assert_eq!(buffer.remaining(), 10);
    assert_eq!(buffer.take(0, unread), Some(vec![]));
    assert_eq!(buffer.take(6, || 0), Some(vec![1..5, 10..12]));
    assert_eq!(buffer.take(4, || 0), Some(vec![12..15, 20..21]));
    assert_eq!(buffer.take(1, unread), None);
}

#[test]
fn the_clock_is_read_only_on_entering_a_segment() {
    let mut buffer = holding(&[(1, 3), (3, 5)]);
    buffer.take_one(unread);
    buffer.take(1, unread);
    assert_eq!(buffer.take_one(|| 0), Some(3));
    assert_eq!(buffer.take_one(unread), Some(4));
    assert_eq!(buffer.take_one(unread), None);
}

#[test]
fn the_next_segment_is_wanted_when_a_tenth_of_the_current_is_used() {
    let mut buffer = holding(&[(1, 101)]);
    buffer.take(9, unread);
    assert!(!buffer.wants_grab());
    buffer.take_one(unread);
    assert!(buffer.wants_grab());
    install(&mut buffer, (101, 201));
    buffer.take(90, unread);
    assert!(!buffer.wants_grab(), "the next one is there");
    buffer.take(9, || 0);
    assert!(!buffer.wants_grab(), "a tenth of the next one is not used yet");
    buffer.take_one(unread);
    assert!(buffer.wants_grab());
}

#[test]
fn ten_ids_of_a_segment_are_used_before_the_next_is_wanted_and_all_of_a_shorter_one() {
    for (length, used) in [(1, None), (10, None), (11, Some(10)), (100, Some(10)), (101, Some(11))]
    {
        assert_eq!(used_before_fetch(length), used, "{length}");
    }
    let mut short = holding(&[(1, 11)]);
    short.take(10, unread);
    assert!(!short.wants_grab(), "a caller must wait first");
    let mut longer = holding(&[(1, 12)]);
    longer.take(9, unread);
    assert!(!longer.wants_grab());
    longer.take_one(unread);
    assert!(longer.wants_grab());
}

#[test]
fn no_grab_exceeds_the_bound_of_its_tag_whoever_waits() {
    let bound = Steps { step: 3, step_max: Some(5) };
    let mut buffer = SegmentBuffer::new(bound);
    let mut max_id = 1;
    for (demand, size) in [(0, 3), (1_000_000, 5), (0, 5), (0, 5), (4, 5)] {
        assert_eq!(buffer.begin_grab(0, bound, demand), size);
        buffer.install(Segment { start: max_id, end: max_id + u64::from(size) }, bound, 0);
        max_id += u64::from(size);
    }
}

#[test]
fn one_grab_is_in_flight_at_a_time_and_a_failed_one_makes_room() {
    let mut buffer = SegmentBuffer::new(TEN);
    assert!(buffer.wants_grab(), "nothing is held");
    assert_eq!(buffer.begin_grab(0, TEN, 0), 10);
    assert!(buffer.grab_in_flight() && !buffer.wants_grab());
    buffer.grab_failed();
    assert!(!buffer.grab_in_flight() && buffer.wants_grab());
}

#[test]
fn failed_grabs_do_not_make_the_next_one_larger() {
    let mut buffer = holding(&[(1, 11), (11, 21)]);
    for _ in 0..20 {
        assert_eq!(buffer.begin_grab(1000, TEN, 0), 20);
        buffer.grab_failed();
    }
}

#[test]
fn demand_is_covered_even_above_the_cap() {
    let mut buffer = SegmentBuffer::new(TEN);
    for (demand, size) in [(7, 10), (3_000_000, 3_000_000), (u64::MAX, STEP_MAX)] {
        assert_eq!(buffer.begin_grab(0, TEN, demand), size);
        buffer.grab_failed();
    }
}

#[test]
fn a_batch_does_not_enlarge_the_grabs_after_it() {
    let mut buffer = holding(&[(1, 11), (11, 21)]);
    assert_eq!(buffer.begin_grab(0, TEN, 5000), 5000);
    buffer.install(Segment { start: 21, end: 5021 }, TEN, 0);
    assert_eq!(buffer.begin_grab(MINUTE_MS, TEN, 0), 40);
}

#[test]
fn the_rate_is_measured_since_the_segment_was_entered() {
    let hour_ms = 60 * MINUTE_MS;
    let mut by_take_one = holding(&[(1, 1001), (1001, 2001)]);
    by_take_one.take(1000, unread);
    by_take_one.take_one(|| hour_ms);
    by_take_one.take(99, unread);
    let mut by_take = holding(&[(1, 1001), (1001, 2001)]);
    by_take.take(1100, || hour_ms);
    let mut by_install = holding(&[(1, 1001)]);
    by_install.take(1000, unread);
    by_install.begin_grab(hour_ms, TEN, 0);
    by_install.install(Segment { start: 1001, end: 2001 }, TEN, hour_ms);
    by_install.take(100, unread);
    for mut buffer in [by_take_one, by_take, by_install] {
        assert_eq!(buffer.begin_grab(hour_ms + 2000, TEN, 0), 50 * 15 * 60);
    }
}

#[test]
fn the_view_shows_two_slots_that_take_turns() {
    let mut buffer = SegmentBuffer::new(TEN);
    assert!(!buffer.view().initialized);
    install(&mut buffer, (1, 11));
    buffer.take_one(unread);
    let first = SegmentView { value: 2, max: 11, step: 10 };
    let empty = SegmentView::default();
    let view =
        BufferView { initialized: true, next_ready: false, position: 0, segments: [first, empty] };
    assert_eq!(buffer.view(), view);
    install(&mut buffer, (21, 41));
    let second = SegmentView { value: 21, max: 41, step: 20 };
    assert_eq!(buffer.view(), BufferView { next_ready: true, segments: [first, second], ..view });
    buffer.take(10, || 0);
    let second = SegmentView { value: 22, ..second };
    assert_eq!(buffer.view(), BufferView { position: 1, segments: [empty, second], ..view });
}

#[test]
fn a_raised_mark_is_a_floor_for_what_is_held_and_for_what_is_on_its_way() {
    let mut buffer = holding(&[(1, 11), (11, 21), (30, 60)]);
    buffer.take(4, unread);
    buffer.rise_to(3);
    assert_eq!(buffer.take_one(unread), Some(5), "what lies below is gone anyway");
    buffer.rise_to(15);
    assert_eq!((buffer.remaining(), buffer.outlook(0).used), (36, 5));
    assert_eq!(buffer.take(7, || 0), Some(vec![15..21, 30..31]));
    buffer.begin_grab(0, TEN, 0);
    buffer.rise_to(100);
    assert_eq!((buffer.remaining(), buffer.take_one(unread)), (0, None));
    buffer.install(Segment { start: 60, end: 70 }, TEN, 0);
    assert_eq!(buffer.take_one(unread), None, "the grab came before the mark");
    assert!(buffer.wants_grab());
    install(&mut buffer, (95, 105));
    buffer.rise_to(99);
    assert_eq!(buffer.take_one(unread), Some(100));
}

#[test]
#[should_panic(expected = "is not above 11")]
fn a_segment_below_what_was_ever_held_stops_the_process() {
    let mut buffer = holding(&[(1, 11)]);
    buffer.take(10, unread);
    install(&mut buffer, (10, 20));
}

#[test]
#[should_panic(expected = "is not above 30")]
fn a_segment_below_the_next_one_stops_the_process() {
    install(&mut holding(&[(1, 11), (20, 30)]), (11, 20));
}

#[test]
#[should_panic(expected = "no grab is in flight")]
fn a_segment_that_nobody_asked_for_stops_the_process() {
    SegmentBuffer::new(TEN).install(Segment { start: 1, end: 2 }, TEN, 0);
}

/// One node that takes ids of one tag at a steady pace, millisecond by millisecond. A grab takes
/// [`Self::GRAB_MS`].
struct Simulation {
    buffer: SegmentBuffer,
    now_ms: u64,
    max_id: u64,
    /// The size of the grab in flight and when it comes back.
    in_flight: Option<(u32, u64)>,
    /// When each grab began, and its size.
    grabs: Vec<(u64, u32)>,
    /// Ids that could not be had at once.
    missed: u64,
}

impl Simulation {
    const STEP: Steps = Steps { step: 1000, step_max: None };
    const GRAB_MS: u64 = 50;

    fn new() -> Self {
        let mut buffer = SegmentBuffer::new(Self::STEP);
        buffer.begin_grab(0, Self::STEP, 0);
        buffer.install(Segment { start: 1, end: 1001 }, Self::STEP, 0);
        Self { buffer, now_ms: 0, max_id: 1001, in_flight: None, grabs: vec![], missed: 0 }
    }

    /// How many grabs it takes to reach the largest size at this pace.
    fn grabs_to_the_largest(&mut self, ids_per_s: u64) -> usize {
        self.run(60 * 1000, ids_per_s);
        let sizes: Vec<u32> = self.grabs.iter().map(|(_, size)| *size).collect();
        let largest = sizes.iter().position(|size| *size == 1_000_000);
        largest.unwrap_or_else(|| panic!("{sizes:?}")) + 1
    }

    fn run(&mut self, for_ms: u64, ids_per_s: u64) {
        for _ in 0..for_ms {
            let due = |now_ms| now_ms * ids_per_s / 1000;
            for _ in due(self.now_ms)..due(self.now_ms + 1) {
                self.missed += u64::from(self.buffer.take_one(|| self.now_ms).is_none());
                if self.buffer.wants_grab() {
                    let size = self.buffer.begin_grab(self.now_ms, Self::STEP, 0);
                    self.in_flight = Some((size, self.now_ms + Self::GRAB_MS));
                    self.grabs.push((self.now_ms, size));
                }
            }
            if let Some((size, _)) = self.in_flight.take_if(|(_, back_ms)| *back_ms <= self.now_ms)
            {
                let end = self.max_id + u64::from(size);
                let segment = Segment { start: self.max_id, end };
                self.buffer.install(segment, Self::STEP, self.now_ms);
                self.max_id = end;
            }
            self.now_ms += 1;
        }
    }
}

#[test]
fn at_a_steady_pace_a_segment_lasts_a_quarter_to_half_an_hour() {
    let mut simulation = Simulation::new();
    simulation.run(6 * 60 * MINUTE_MS, 20);
    let settled = simulation.grabs.iter().filter(|(began_ms, _)| *began_ms > 60 * MINUTE_MS);
    for (_, size) in settled {
        let lasts_ms = u64::from(*size) * 1000 / 20;
        assert!((14 * MINUTE_MS..=36 * MINUTE_MS).contains(&lasts_ms), "{lasts_ms} ms");
    }
    assert_eq!(simulation.missed, 0);
}

#[test]
fn a_new_tag_under_full_load_has_the_largest_grabs_after_a_few() {
    for ids_per_s in [20_000, 100_000, 1_000_000] {
        let grabs = Simulation::new().grabs_to_the_largest(ids_per_s);
        assert!(grabs <= 4, "{grabs} grabs at {ids_per_s} ids/s");
    }
}

/// From 100 ids a second to 10,000, at many moments in the life of a segment.
#[test]
fn a_hundredfold_surge_is_covered_by_the_next_grab() {
    let mut at_once = 0;
    for phase in 0..20 {
        let mut simulation = Simulation::new();
        simulation.run(40 * MINUTE_MS + phase * 100_000, 100);
        let began_ms = simulation.now_ms;
        let steady = simulation.grabs.len();
        simulation.run(60 * 1000, 10_000);
        let surge: Vec<u32> = simulation.grabs[steady..].iter().map(|(_, size)| *size).collect();
        assert_eq!(simulation.missed, 0, "surge at {began_ms} ms: {surge:?}");
        // A grab that begins within the surge's first second or so may not have noticed it yet.
        assert!(surge[..2].contains(&1_000_000), "surge at {began_ms} ms: {surge:?}");
        at_once += u32::from(surge[0] == 1_000_000);
    }
    assert!(at_once >= 18, "only {at_once} of 20 surges were covered by the very next grab");
}

/// An event of a buffer.
#[derive(Clone, Debug)]
enum Event {
    TakeOne,
    Take(u64),
    TakePiece(u64),
    TakeSome(u64),
    Begin { step: u32, step_max: Option<u32>, demand: u64 },
    Install { gap: u64, short_by: u64 },
    Fail,
    Rise { by: u64 },
    Pass { ms: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::TakeOne),
        4 => (0..40u64).prop_map(Event::Take),
        2 => (1..40u64).prop_map(Event::TakePiece),
        2 => (1..40u64).prop_map(Event::TakeSome),
        4 => (1..30u32, proptest::option::of(30..60u32), prop_oneof![Just(0), 0..100u64])
            .prop_map(|(step, step_max, demand)| Event::Begin { step, step_max, demand }),
        4 => (0..5u64, 0..30u64).prop_map(|(gap, short_by)| Event::Install { gap, short_by }),
        1 => Just(Event::Fail),
        2 => (0..60u64).prop_map(|by| Event::Rise { by }),
        1 => (0..20 * MINUTE_MS).prop_map(|ms| Event::Pass { ms }),
    ];
    vec(event, 0..120)
}

/// The place of the first `count` numbers without a gap.
fn first_run(ascending: &[u64], count: u64) -> Option<usize> {
    let last = count - 1;
    ascending.windows(count as usize).position(|run| run[last as usize] - run[0] == last)
}

proptest! {
    /// Inside a process, one cursor walks an interval, upward only: the ids that come out are the installed ones, each
    /// once and in order; only ids below a contiguous run or a raised mark are lost.
    #[test]
    fn what_is_installed_comes_out_once_and_in_order(events in events()) {
        let mut buffer = SegmentBuffer::new(TEN);
        let mut held: VecDeque<u64> = VecDeque::new();
        let (mut now_ms, mut max_id, mut floor) = (0, 1, 0);
        let mut in_flight = None;
        for event in events {
            match event {
                Event::TakeOne => prop_assert_eq!(buffer.take_one(|| now_ms), held.pop_front()),
                Event::Take(count) if count <= held.len() as u64 => {
                    let ids = buffer.take(count, || now_ms).unwrap().into_iter().flatten();
                    prop_assert!(ids.eq(held.drain(..count as usize)));
                }
                Event::Take(count) => prop_assert_eq!(buffer.take(count, unread), None),
                Event::TakeSome(count) => match buffer.take_some(count, || now_ms) {
                    Some(ids) => {
                        prop_assert!((1..=count).contains(&(ids.end - ids.start)));
                        ids.for_each(|id| assert_eq!(held.pop_front(), Some(id)));
                    }
                    None => prop_assert!(held.is_empty()),
                },
                Event::TakePiece(count) => match first_run(held.make_contiguous(), count) {
                    Some(at) => {
                        let piece = buffer.take_contiguous(count, || now_ms).unwrap();
                        held.drain(..at);
                        prop_assert!(piece.eq(held.drain(..count as usize)));
                    }
                    None => prop_assert_eq!(buffer.take_contiguous(count, unread), None),
                },
                Event::Begin { step, step_max, demand } if in_flight.is_none() => {
                    let steps = Steps { step, step_max };
                    let size = buffer.begin_grab(now_ms, steps, demand);
                    let size_max = step_max.unwrap_or(1_000_000);
                    prop_assert!(size >= step && u64::from(size) >= demand.min(size_max.into()));
                    prop_assert!(size <= size_max);
                    in_flight = Some((steps, size));
                }
                Event::Install { gap, short_by } if in_flight.is_some() => {
                    let (steps, size) = in_flight.take().unwrap();
                    let start = max_id + gap;
                    let length = u64::from(size.min(500)).saturating_sub(short_by).max(1);
                    max_id = start + length;
                    buffer.install(Segment { start, end: max_id }, steps, now_ms);
                    held.extend(start.max(floor)..max_id);
                }
                // The mark is one that was named while ids around it were held, or on their way.
                Event::Rise { by } => {
                    floor = floor.max(held.front().map_or(max_id, |next| *next) + by);
                    buffer.rise_to(floor);
                    held.retain(|id| *id >= floor);
                }
                Event::Fail => {
                    buffer.grab_failed();
                    in_flight = None;
                }
                Event::Pass { ms } => now_ms += ms,
                Event::Begin { .. } | Event::Install { .. } => {}
            }
            prop_assert_eq!(buffer.remaining(), held.len() as u64);
            prop_assert_eq!(buffer.grab_in_flight(), in_flight.is_some());
            prop_assert!(!(buffer.wants_grab() && in_flight.is_some()));
            let was_short = used_before_fetch(buffer.current.len()).is_none() && buffer.switches > 0;
            let is_due = buffer.wants_grab() || was_short;
            prop_assert!(is_due || in_flight.is_some() || !held.is_empty());
            prop_assert!(held.iter().all(|id| *id >= floor));
        }
    }
}
