//! Properties of every run of commands about worker ids.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{runs_alike_through_a_snapshot, written};
use crate::encoding::read_snapshot;
use crate::limits::AHEAD_MS_MAX;
use crate::snowflake::Format;
use crate::state::{Command, Response, State};

const START_MS: u64 = 1_800_000_000_000;

pub(crate) fn format(layout: &str) -> Format {
    Format::new(layout.parse().unwrap(), 1_288_834_974_657).unwrap()
}

fn acquire(nonce: u128, window_ms: u64) -> Command {
    Command::AcquireWorker { node_id: 1, nonce, worker_id: None, window_ms }
}

/// A state whose format has four worker ids.
fn four_workers() -> State {
    let mut state = State::default();
    state.apply(START_MS, &Command::FixFormat { format: format("41+2+12") });
    state
}

fn window(response: &Response) -> Option<(u16, Range<u64>)> {
    match *response {
        Response::Window { worker_id, floor_ms, fence_ms } => Some((worker_id, floor_ms..fence_ms)),
        _ => None,
    }
}

/// Stamps that jump to and fro, years ahead and before the epoch included.
fn stamps() -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => START_MS..START_MS + 5_000,
        1 => Just(0),
        1 => Just(START_MS + 400 * AHEAD_MS_MAX),
        1 => Just(u64::MAX),
    ]
}

fn commands() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let window_ms = prop_oneof![10 => 1..2_000u64, 1 => Just(0), 1 => Just(AHEAD_MS_MAX + 1)];
    let worker_id = 0..5u16;
    let nonce = 0..4u128;
    let command = prop_oneof![
        4 => (nonce.clone(), option::weighted(0.2, worker_id.clone()), window_ms.clone()).prop_map(
            |(nonce, worker_id, window_ms)| {
                Command::AcquireWorker { node_id: 1, nonce, worker_id, window_ms }
            }
        ),
        3 => (worker_id.clone(), nonce.clone(), window_ms).prop_map(
            |(worker_id, nonce, window_ms)| Command::RenewWorker { worker_id, nonce, window_ms }
        ),
        2 => (worker_id, nonce, stamps()).prop_map(|(worker_id, nonce, unused_from_ms)| {
            Command::ReleaseWorker { worker_id, nonce, unused_from_ms }
        }),
        1 => (0..3u64, stamps())
            .prop_map(|(node_id, clock_ms)| Command::ReportClock { node_id, clock_ms }),
    ];
    vec((stamps(), command), 0..80)
}

proptest! {
    /// Every holder may stamp all that it was given and did not give back, until the end of time.
    #[test]
    fn windows_of_a_worker_id_are_disjoint_whoever_holds_it(commands in commands()) {
        let mut state = four_workers();
        // The milliseconds that were given for good, and the latest window of each worker id with its holder.
        let mut settled: Vec<(u16, Range<u64>)> = Vec::new();
        let mut latest: BTreeMap<u16, (u128, Range<u64>)> = BTreeMap::new();
        for (now_ms, command) in &commands {
            let response = state.apply(*now_ms, command);
            match (command, window(&response)) {
                (Command::AcquireWorker { nonce, window_ms, .. }, Some((worker_id, given))) => {
                    prop_assert_eq!(&given, &(*now_ms..now_ms + window_ms));
                    let before = latest.insert(worker_id, (*nonce, given));
                    settled.extend(before.map(|(_, before)| (worker_id, before)));
                }
                (Command::RenewWorker { nonce, .. }, Some((worker_id, given))) => {
                    let (holder, held) = latest.get_mut(&worker_id).unwrap();
                    prop_assert_eq!(&*holder, nonce);
                    prop_assert_eq!(held.start, given.start);
                    prop_assert!(held.end <= given.end);
                    *held = given;
                }
                (Command::ReleaseWorker { worker_id, nonce, unused_from_ms }, _)
                    if response == Response::Noted =>
                {
                    let (holder, held) = latest.get_mut(worker_id).unwrap();
                    prop_assert_eq!(&*holder, nonce);
                    held.end = held.end.min(held.start.max(*unused_from_ms));
                }
                _ => {}
            }
        }
        settled.extend(latest.into_iter().map(|(worker_id, (_, held))| (worker_id, held)));
        settled.retain(|(_, held)| !held.is_empty());
        settled.sort_by_key(|(worker_id, held)| (*worker_id, held.start));
        for pair in settled.windows(2) {
            let [(one, below), (other, above)] = pair else { unreachable!() };
            prop_assert!(one != other || below.end <= above.start, "{below:?} meets {above:?}");
        }
    }

    #[test]
    fn worker_ids_survive_a_snapshot(commands in commands(), cut in any::<prop::sample::Index>()) {
        runs_alike_through_a_snapshot(four_workers, &commands, cut)?;
    }
}

/// More starts than there are worker ids, each a second after the one before and without a
/// release: every start ends with a window that no other had, or with the time when to try again.
#[test]
fn starts_in_a_row_are_given_a_worker_id_or_a_clear_refusal() {
    let mut state = State::default();
    state.apply(START_MS, &Command::FixFormat { format: format("41+10+12") });
    let mut given: Vec<(u16, Range<u64>)> = Vec::new();
    let mut refused = 0;
    for start in 0..4_000u64 {
        let now_ms = START_MS + start * 10;
        match state.apply(now_ms, &acquire(u128::from(start), 12_000)) {
            Response::NoWorkerFree { free_from_ms } => {
                assert!(free_from_ms > now_ms);
                refused += 1;
            }
            response => given.push(window(&response).unwrap()),
        }
    }
    assert!(refused > 0 && given.len() > 3 * 1024, "{} given, {refused} refused", given.len());
    given.sort_by_key(|(worker_id, held)| (*worker_id, held.start));
    for pair in given.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].1.end <= pair[1].1.start, "{pair:?}");
    }
}

#[test]
fn a_table_of_every_worker_id_fits_a_section() {
    let mut state = State::default();
    state.apply(START_MS, &Command::FixFormat { format: format("41+12+10") });
    for node_id in 0..4096 {
        let report = Command::ReportClock { node_id: u64::MAX - node_id, clock_ms: u64::MAX };
        state.apply(START_MS, &report);
        state.apply(START_MS, &acquire(u128::MAX, AHEAD_MS_MAX));
    }
    let restored = read_snapshot(written(&state).as_slice()).unwrap();
    assert_eq!((restored.workers().len(), restored.reports().len()), (4096, 4096));
}
