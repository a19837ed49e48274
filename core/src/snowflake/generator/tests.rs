//! Properties of every run of a generator, whatever its clock does.

use std::collections::HashSet;
use std::iter::once;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const EPOCH_MS: u64 = 1_000;
const START_MS: u64 = 1_000_000;

fn format(layout: &str) -> Format {
    Format::new(layout.parse().unwrap(), EPOCH_MS).unwrap()
}

fn window(worker_id: u16, floor_ms: u64, fence_ms: u64) -> Window {
    Window { worker_id, floor_ms, fence_ms }
}

fn generator(layout: &str, windows: &[Window]) -> Generator {
    let mut generator = Generator::new(format(layout), u64::MAX, 42);
    windows.iter().for_each(|&window| generator.install(window));
    generator
}

/// One worker id from [`START_MS`] on for a minute.
fn minute() -> Generator {
    generator("41+10+12", &[window(7, START_MS, START_MS + 60_000)])
}

fn parts(generator: &Generator, id: u64) -> IdParts {
    generator.format.decode(id).unwrap()
}

#[test]
fn an_id_shows_the_clock_and_the_worker() {
    let mut generator = minute();
    let id = generator.take_one(START_MS + 5).unwrap();
    let IdParts { time_ms, worker_id, .. } = parts(&generator, id);
    assert_eq!((time_ms, worker_id), (START_MS + 5, 7));
}

#[test]
fn a_clock_that_steps_back_is_ridden_out_on_the_last_time() {
    let mut generator = minute();
    let first = generator.take_one(START_MS + 500).unwrap();
    let then = [START_MS + 499, START_MS, 0].map(|ms| generator.take_one(ms).unwrap());
    assert!(first < then[0] && then.is_sorted());
    assert!(then.iter().all(|&id| parts(&generator, id).time_ms <= START_MS + 501));
    let later = generator.take_one(START_MS + 700).unwrap();
    assert_eq!(parts(&generator, later).time_ms, START_MS + 700);
}

#[test]
fn a_clock_that_steps_back_too_far_is_refused_until_it_returns() {
    let mut generator = Generator::new(format("41+10+12"), 1_000, 42);
    generator.install(window(7, START_MS, START_MS + 60_000));
    let first = generator.take_one(START_MS + 30_000).unwrap();
    assert!(generator.take_one(START_MS + 29_000).is_ok(), "ridden out");
    assert_eq!(generator.take_one(START_MS + 28_999), Err(Refusal::Spent));
    assert_eq!(generator.take(10, START_MS), Err(Refusal::Spent));
    assert!(generator.take_one(START_MS + 30_001).unwrap() > first);
}

#[test]
fn a_window_of_the_future_is_out_of_reach_until_the_clock_is_near() {
    let mut generator = Generator::new(format("41+10+12"), 1_000, 42);
    generator.install(window(7, START_MS, START_MS + 60_000));
    assert_eq!(generator.take_one(START_MS - 1_001), Err(Refusal::Spent));
    assert_eq!(generator.too_far_ahead_ms(START_MS - 1_001), Some(1_001));
    assert_eq!(generator.out_of_reach(START_MS - 1_001), [7]);
    assert_eq!(generator.remaining_ms(START_MS - 1_001), 0);
    assert!(generator.out_of_reach(START_MS - 1_000).is_empty());
    assert!(generator.take_one(START_MS - 1_000).is_ok());
}

#[test]
fn a_clock_before_the_floor_counts_as_the_floor() {
    let mut generator = minute();
    let id = generator.take_one(0).unwrap();
    assert_eq!(parts(&generator, id).time_ms, START_MS);
}

#[test]
fn a_spent_millisecond_moves_on_to_the_next() {
    let mut generator = minute();
    let ids: Vec<u64> = (0..3 * 4096).map(|_| generator.take_one(START_MS).unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    let last = parts(&generator, ids[ids.len() - 1]);
    assert!((START_MS + 2..=START_MS + 3).contains(&last.time_ms), "{last:?}");
}

#[test]
fn nothing_is_given_at_the_fence_or_past_it() {
    let mut generator = generator("41+10+12", &[window(0, START_MS, START_MS + 2)]);
    let full = generator.take(2 * 4096, 0).unwrap();
    assert_eq!(full.len(), 2, "every id of both milliseconds");
    assert_eq!(generator.take_one(START_MS + 1), Err(Refusal::Spent));
    assert_eq!(generator.take_one(START_MS + 2), Err(Refusal::Ended));
    generator.install(window(0, START_MS, START_MS + 3));
    let id = generator.take_one(START_MS).unwrap();
    assert_eq!(parts(&generator, id), IdParts { time_ms: START_MS + 2, worker_id: 0, sequence: 0 });
}

#[test]
fn a_clock_far_ahead_is_refused_and_forgotten_when_it_returns() {
    let mut generator = minute();
    assert_eq!(generator.take_one(START_MS + 3_600_000), Err(Refusal::Ended));
    assert_eq!(generator.take_one(u64::MAX), Err(Refusal::Ended));
    let id = generator.take_one(START_MS + 9).unwrap();
    assert_eq!(parts(&generator, id).time_ms, START_MS + 9);
}

#[test]
fn a_batch_is_whole_or_nothing() {
    let mut generator = generator("41+6+6", &[window(3, START_MS, START_MS + 10)]);
    assert_eq!(generator.take(641, 0), Err(Refusal::Spent));
    assert_eq!(generator.given(), 0);
    let runs = generator.take(640, 0).unwrap();
    assert_eq!(runs.iter().map(|run| run.end - run.start).sum::<u64>(), 640);
    assert_eq!((runs.len(), generator.given()), (10, 640));
    assert_eq!(generator.take_one(0), Err(Refusal::Spent));
    assert_eq!(Generator::new(format("41+6+6"), u64::MAX, 0).take(1, 0), Err(Refusal::NoWindow));
}

#[test]
fn a_random_start_costs_no_id_under_load() {
    let mut generator = minute();
    // 4,000 a millisecond on a clock that ticks by one: never more than two milliseconds ahead.
    for ms in START_MS..START_MS + 2_000 {
        let runs = generator.take(4_000, ms).unwrap();
        let time_ms = parts(&generator, runs[runs.len() - 1].end - 1).time_ms;
        assert!(time_ms <= ms + 2, "{} ms ahead", time_ms - ms);
    }
}

#[test]
fn several_worker_ids_take_turns_within_a_millisecond() {
    let fence_ms = START_MS + 10;
    let windows = [window(9, START_MS, fence_ms), window(2, START_MS + 4, fence_ms)];
    let mut generator = generator("41+6+6", &windows);
    let ids: Vec<u64> = generator.take(64 * 16, 0).unwrap().into_iter().flatten().collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    let of_2 = ids.iter().filter(|&&id| parts(&generator, id).worker_id == 2).count();
    assert_eq!((of_2, ids.len() - of_2), (64 * 6, 64 * 10));
    assert_eq!(generator.take_one(0), Err(Refusal::Spent));
}

#[test]
fn a_window_given_up_says_what_it_left_unused() {
    let mut generator = minute();
    assert_eq!(generator.give_up(8), None);
    let mut fresh = minute();
    assert_eq!(fresh.give_up(7), Some(START_MS), "nothing was given");
    generator.take_one(START_MS + 40).unwrap();
    assert_eq!(generator.give_up(7), Some(START_MS + 41));
    assert_eq!(generator.take_one(START_MS + 41), Err(Refusal::NoWindow));
    generator.install(window(8, START_MS, START_MS + 20));
    assert_eq!(generator.give_up(8), Some(START_MS + 20), "all of it lies below the last id");
}

#[test]
fn a_lift_leaves_nothing_below_and_goes_on_at_once_above() {
    let windows = [window(3, START_MS, START_MS + 40), window(7, START_MS, START_MS + 90)];
    let mut generator = generator("41+10+12", &windows);
    let first = generator.take_one(START_MS + 10).unwrap();
    assert_eq!(generator.lift(START_MS + 5), [], "both reach above");
    assert_eq!(generator.lift(START_MS + 40), [(3, START_MS + 11)]);
    assert_eq!(generator.windows(), [window(7, START_MS + 40, START_MS + 90)]);
    let next = generator.take_one(START_MS + 12).unwrap();
    let IdParts { time_ms, worker_id, .. } = parts(&generator, next);
    assert!(next > first);
    assert_eq!((time_ms, worker_id), (START_MS + 40, 7));
    generator.install(window(7, START_MS + 40, START_MS + 99));
    assert_eq!(generator.lift(START_MS + 200), [(7, START_MS + 41)]);
    assert_eq!(generator.take_one(START_MS + 200), Err(Refusal::NoWindow));
}

#[test]
#[should_panic(expected = "meets")]
fn a_window_that_overlaps_the_one_held_stops_the_process() {
    minute().install(window(7, START_MS + 1, START_MS + 90_000));
}

#[test]
#[should_panic(expected = "impossible")]
fn a_window_past_the_time_bits_stops_the_process() {
    minute().install(window(8, START_MS, EPOCH_MS + (1 << 41) + 1));
}

/// One id in each of 64,000 milliseconds, as at low traffic. Every residue comes up as often as
/// the others within five standard deviations.
#[test]
fn low_traffic_spreads_over_any_number_of_shards() {
    const IDS: u64 = 64_000;
    let mut generator = generator("41+10+12", &[window(7, START_MS, START_MS + 2 * IDS)]);
    let ids: Vec<u64> = (0..IDS).map(|n| generator.take_one(START_MS + 2 * n).unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    for shards in [2, 3, 5, 8, 10, 16, 100, 128, 256, 1000, 1024] {
        let mut counts = vec![0u64; shards as usize];
        ids.iter().for_each(|id| counts[(id % shards) as usize] += 1);
        let (mean, chance) = (IDS as f64 / shards as f64, 1.0 / shards as f64);
        let deviation = (IDS as f64 * chance * (1.0 - chance)).sqrt();
        for (residue, &count) in counts.iter().enumerate() {
            let off = (count as f64 - mean).abs() / deviation;
            assert!(off < 5.0, "residue {residue} of {shards}: {count} of {mean:.0}");
        }
    }
}

/// An event of a generator.
#[derive(Clone, Debug)]
enum Event {
    /// The clock moves by this much, or jumps there.
    Clock(i64),
    Jump(u64),
    One,
    Batch(u64),
    /// A worker id's window is extended by this much, or begins above its last one.
    Grant(u16, u64),
    GiveUp(u16),
    Lift(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (-20..20i64).prop_map(Event::Clock),
        1 => prop_oneof![
            Just(0), Just(EPOCH_MS), Just(u64::MAX), START_MS - 300..START_MS + 300
        ].prop_map(Event::Jump),
        6 => Just(Event::One),
        4 => (0..200u64).prop_map(Event::Batch),
        3 => (0..3u16, 1..30u64).prop_map(|(worker, ms)| Event::Grant(worker, ms)),
        1 => (0..3u16).prop_map(Event::GiveUp),
        1 => (START_MS..START_MS + 100).prop_map(Event::Lift),
    ];
    vec(event, 0..150)
}

/// Every worker id's line as the cluster keeps it, and what a process held of it.
#[derive(Default)]
struct Lines {
    fences_ms: [u64; 3],
    /// The snowflake floor.
    floor_ms: u64,
    owned: Vec<Window>,
}

impl Lines {
    /// Extends the window that is held, or begins one above all that was ever granted.
    fn grant(&mut self, generator: &mut Generator, worker_id: u16, ms: u64) {
        let fence_ms = &mut self.fences_ms[usize::from(worker_id)];
        let mut held = generator.windows().iter().filter(|held| held.worker_id == worker_id);
        let lowest_ms = START_MS.max(self.floor_ms);
        let floor_ms = held.next().map_or(lowest_ms.max(*fence_ms), |held| held.floor_ms);
        *fence_ms = (*fence_ms).max(floor_ms) + ms;
        let window = window(worker_id, floor_ms, *fence_ms);
        generator.install(window);
        self.owned.push(window);
    }

    /// Takes the fence back to the first millisecond that the holder knows it did not use.
    fn give_up(&mut self, generator: &mut Generator, worker_id: u16) {
        if let Some(unused_from_ms) = generator.give_up(worker_id) {
            self.fences_ms[usize::from(worker_id)] = unused_from_ms;
        }
    }

    /// Raises the floor under all lines. The process takes note of it.
    fn lift(&mut self, generator: &mut Generator, floor_ms: u64) {
        self.floor_ms = self.floor_ms.max(floor_ms);
        for (worker_id, unused_from_ms) in generator.lift(self.floor_ms) {
            self.fences_ms[usize::from(worker_id)] = unused_from_ms;
        }
    }

    fn own(&self, IdParts { time_ms, worker_id, .. }: IdParts) -> bool {
        self.owned.iter().any(|owned| owned.worker_id == worker_id && owned.covers(time_ms))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Ids rise and lie in held windows, whatever the clock does and whichever windows come and go, and none lies below
    /// a floor that the process has taken note of.
    #[test]
    fn ids_rise_and_lie_in_windows_that_were_held(events in events(), seed in any::<u64>()) {
        let mut generator = Generator::new(format("41+2+4"), u64::MAX, seed);
        let (mut clock_ms, mut last, mut lines) = (START_MS, 0, Lines::default());
        for event in events {
            let taken = match event {
                Event::Clock(by_ms) => {
                    clock_ms = clock_ms.saturating_add_signed(by_ms);
                    continue;
                }
                Event::Jump(to_ms) => {
                    clock_ms = to_ms;
                    continue;
                }
                Event::Grant(worker_id, ms) => {
                    lines.grant(&mut generator, worker_id, ms);
                    continue;
                }
                Event::GiveUp(worker_id) => {
                    lines.give_up(&mut generator, worker_id);
                    continue;
                }
                Event::Lift(floor_ms) => {
                    lines.lift(&mut generator, floor_ms);
                    continue;
                }
                Event::One => generator.take_one(clock_ms).map(|id| once(id..id + 1).collect()),
                Event::Batch(count) => {
                    let taken = generator.take(count, clock_ms);
                    let ids = |runs: &Vec<Range<u64>>| runs.iter().map(|r| r.end - r.start).sum();
                    prop_assert!(taken.as_ref().map_or(count, ids) == count);
                    taken
                }
            };
            for id in taken.unwrap_or_default().into_iter().flatten() {
                prop_assert!(id > last, "{id} after {last}");
                last = id;
                let parts = parts(&generator, id);
                prop_assert!(lines.own(parts) && parts.time_ms >= lines.floor_ms, "{parts:?}");
            }
        }
    }

    /// A worker id passes from process to process, each with a separate clock and all of these wrong: a process may
    /// give the ids that the one before gave up unused, and no id comes twice.
    #[test]
    fn holders_of_one_worker_id_never_share_an_id(
        holders in vec((vec((-400..400i64, 1..40u64), 1..8), any::<bool>()), 1..8),
    ) {
        let mut seen = HashSet::new();
        let mut fence_ms = START_MS;
        for (number, (takes, gives_up)) in holders.into_iter().enumerate() {
            let mut generator = Generator::new(format("41+2+4"), u64::MAX, number as u64);
            generator.install(window(1, fence_ms, fence_ms + 50));
            fence_ms += 50;
            for (off_ms, count) in takes {
                let clock_ms = START_MS.saturating_add_signed(off_ms);
                let ids = generator.take(count, clock_ms).unwrap_or_default();
                for id in ids.into_iter().flatten() {
                    prop_assert!(seen.insert(id), "{id} came twice");
                }
            }
            if gives_up {
                fence_ms = generator.give_up(1).unwrap();
            }
        }
    }
}

/// 10^8 ids, singly and in batches, on a clock that strobes; a tenth of a percent of that where the
/// code is not optimised. Ids that rise are all different.
#[test]
fn a_hundred_million_ids_are_unique() {
    let count_max: u64 = if cfg!(debug_assertions) { 100_000 } else { 100_000_000 };
    let mut generator = generator("41+10+12", &[window(5, START_MS, START_MS + 60_000)]);
    let (mut last, mut count) = (0, 0);
    let mut check = |ids: Range<u64>| {
        assert!(ids.start > last && ids.start < ids.end, "{ids:?} after {last}");
        last = ids.end - 1;
        ids.end - ids.start
    };
    while count < count_max {
        // Forward by a millisecond for 3,000 ids, and 250 ms to and fro.
        let strobe_ms = if count % 2 == 0 { 250 } else { 0 };
        let clock_ms = START_MS + count / 3_000 + strobe_ms;
        if count % 7 == 0 {
            let batch = generator.take(1 + count % 300, clock_ms).unwrap();
            count += batch.into_iter().map(&mut check).sum::<u64>();
        } else {
            let id = generator.take_one(clock_ms).unwrap();
            count += check(id..id + 1);
        }
    }
}
