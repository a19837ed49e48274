//! The pool, the longest window and the snowflake floor bind every window that is given.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::workers::format;
use super::{runs_alike_through_a_snapshot, written};
use crate::encoding::read_snapshot;
use crate::limits::AHEAD_MS_MAX;
use crate::snowflake::Rules;
use crate::state::{Action, Actor, Change, Command, Fact, Field, Response, State};

const START_MS: u64 = 1_800_000_000_000;
const WINDOW_MS: u64 = 1_000;

fn rules(pool: &str, window_ms_max: u64) -> Rules {
    Rules::new(format("41+3+12"), pool.parse().unwrap(), window_ms_max).unwrap()
}

/// A state whose worker ids are 2, 5 and 6, in windows of up to a second.
pub(crate) fn with_rules() -> State {
    let mut state = State::default();
    let rules = rules("2,5-6", WINDOW_MS);
    let settled = state.apply(START_MS, &Command::FixRules { rules: rules.clone() });
    assert_eq!(settled, Response::Rules { rules });
    state
}

fn acquire(nonce: u128, worker_id: Option<u16>, window_ms: u64) -> Command {
    Command::AcquireWorker { node_id: 1, nonce, worker_id, window_ms }
}

pub(crate) fn raise_floor(floor_ms: u64) -> Command {
    let actor = Actor::parse("ops").unwrap();
    Command::Administer { actor, change: Change::RaiseSnowflakeFloor { floor_ms } }
}

fn window(worker_id: u16, floor_ms: u64, fence_ms: u64) -> Response {
    Response::Window { worker_id, floor_ms, fence_ms }
}

#[test]
fn assigned_worker_ids_come_from_the_pool_and_others_are_refused() {
    let mut state = with_rules();
    for (nonce, worker_id) in [(1, 2), (2, 5), (3, 6)] {
        let given = state.apply(START_MS, &acquire(nonce, None, 1));
        assert_eq!(given, window(worker_id, START_MS, START_MS + 1));
    }
    let full = state.apply(START_MS, &acquire(4, None, 1));
    assert_eq!(full, Response::NoWorkerFree { free_from_ms: START_MS + 1 });
    let again = state.apply(START_MS + 1, &acquire(5, None, 1));
    assert_eq!(again, window(2, START_MS + 1, START_MS + 2));
    for outside in [0, 1, 3, 4, 7, 8] {
        let refused = state.apply(START_MS + 9, &acquire(6, Some(outside), 1));
        assert_eq!(refused, Response::NoSuchWorker, "{outside}");
    }
}

#[test]
fn rules_are_settled_once_and_a_format_from_before_means_all_worker_ids_and_an_hour() {
    let mut state = with_rules();
    let other = Command::FixRules { rules: rules("0-7", 5) };
    let settled = Response::Rules { rules: rules("2,5-6", WINDOW_MS) };
    assert_eq!(state.apply(START_MS, &other), settled);
    let fixed = state.apply(START_MS, &Command::FixFormat { format: format("41+10+12") });
    assert_eq!(fixed, Response::Format { format: format("41+3+12") });

    let mut older = State::default();
    assert_eq!(older.snowflake_rules(), None);
    older.apply(START_MS, &Command::FixFormat { format: format("41+3+12") });
    let settled = Response::Rules { rules: rules("0-7", AHEAD_MS_MAX) };
    assert_eq!(older.apply(START_MS, &other), settled);
    assert_eq!(older.snowflake_window_ms_max(), AHEAD_MS_MAX);
}

#[test]
fn no_window_reaches_further_than_the_longest_that_was_settled() {
    let mut state = with_rules();
    let given = state.apply(START_MS, &acquire(1, None, AHEAD_MS_MAX));
    assert_eq!(given, window(2, START_MS, START_MS + WINDOW_MS));
    let renew = Command::RenewWorker { worker_id: 2, nonce: 1, window_ms: AHEAD_MS_MAX };
    let given = state.apply(START_MS + 10, &renew);
    assert_eq!(given, window(2, START_MS, START_MS + 10 + WINDOW_MS));
}

#[test]
fn no_window_begins_below_the_floor_on_worker_ids_never_used_either() {
    let mut state = with_rules();
    let floor_ms = START_MS + 400;
    let raised = Response::Floor { before_ms: 0, floor_ms };
    assert_eq!(state.apply(START_MS, &raise_floor(floor_ms)), raised);
    for worker_id in [2, 5, 6] {
        let given = state.apply(START_MS, &acquire(worker_id.into(), None, WINDOW_MS));
        assert_eq!(given, window(worker_id, floor_ms, START_MS + WINDOW_MS));
    }
    let below = state.apply(START_MS, &acquire(9, Some(2), 400));
    assert_eq!(below, Response::BelowFloor { floor_ms });
}

#[test]
fn a_floor_only_rises_and_is_recorded_when_it_does() {
    let mut state = State::default();
    for (asked_ms, before_ms, floor_ms) in [(7, 0, 7), (5, 7, 7), (7, 7, 7), (9, 7, 9), (0, 9, 9)] {
        let answered = state.apply(1, &raise_floor(asked_ms));
        assert_eq!(answered, Response::Floor { before_ms, floor_ms });
        assert_eq!(state.snowflake_floor_ms(), floor_ms);
    }
    let entries = state.audit_page(0, 9, |_| true).entries;
    let floor = |floor_ms| vec![(Field::FloorMs, Fact::Number(floor_ms))];
    let shown: Vec<_> = entries.into_iter().map(|e| (e.action, e.before, e.after)).collect();
    let raised = Action::RaiseSnowflakeFloor;
    assert_eq!(shown, [(raised, vec![], floor(7)), (raised, floor(7), floor(9))]);
    let restored = read_snapshot(written(&state).as_slice()).unwrap();
    assert_eq!((restored.snowflake_floor_ms(), written(&restored)), (9, written(&state)));
}

#[test]
fn a_window_from_below_the_floor_is_extended_only_after_its_holder_lifted_it() {
    let mut state = with_rules();
    let floor_ms = START_MS + 500;
    state.apply(START_MS, &acquire(1, None, WINDOW_MS));
    state.apply(START_MS, &raise_floor(floor_ms));
    let renew = Command::RenewWorker { worker_id: 2, nonce: 1, window_ms: WINDOW_MS };
    let lift = |nonce| Command::LiftWindow { worker_id: 2, nonce, floor_ms };
    assert_eq!(state.apply(START_MS + 100, &renew), Response::BelowFloor { floor_ms });
    assert_eq!(state.apply(START_MS + 100, &lift(2)), Response::NotHolder);
    let lifted = window(2, floor_ms, START_MS + WINDOW_MS);
    assert_eq!(state.apply(START_MS + 100, &lift(1)), lifted);
    assert_eq!(state.apply(START_MS + 100, &lift(1)), lifted, "a lift may be applied twice");
    let renewed = window(2, floor_ms, START_MS + 100 + WINDOW_MS);
    assert_eq!(state.apply(START_MS + 100, &renew), renewed);
}

#[test]
fn windows_reach_below_a_floor_until_their_holders_lift_or_release_them() {
    let mut state = with_rules();
    for (nonce, now_ms) in [(1, START_MS), (2, START_MS), (3, START_MS + 600)] {
        state.apply(now_ms, &acquire(nonce, None, WINDOW_MS));
    }
    let floor_ms = START_MS + 500;
    let below = |state: &State| {
        state.windows_below(floor_ms).iter().map(|row| row.worker_id).collect::<Vec<_>>()
    };
    assert_eq!(below(&state), [2, 5]);
    state.apply(START_MS, &Command::LiftWindow { worker_id: 2, nonce: 1, floor_ms: floor_ms - 1 });
    assert_eq!(below(&state), [2, 5]);
    state.apply(START_MS, &Command::LiftWindow { worker_id: 2, nonce: 1, floor_ms });
    assert_eq!(below(&state), [5]);
    let unused_from_ms = START_MS + 900;
    state.apply(START_MS, &Command::ReleaseWorker { worker_id: 5, nonce: 2, unused_from_ms });
    assert_eq!(below(&state), [0; 0]);
}

#[test]
fn the_end_of_a_window_is_remembered_if_its_worker_id_was_reassigned_before_it_was_given_back() {
    let raise = Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() };
    // Below the level that has it, nothing is remembered.
    for (to, remembered_ms) in [(2, 0), (3, START_MS + WINDOW_MS)] {
        let mut state = with_rules();
        state.apply(START_MS, &Command::RaiseLevel { to, version: "0.3.0".to_owned() });
        state.apply(START_MS, &acquire(1, Some(2), WINDOW_MS));
        assert_eq!(state.reassigned_until_ms(), 0);
        state.apply(START_MS + WINDOW_MS, &acquire(2, Some(2), WINDOW_MS));
        let read = read_snapshot(written(&state).as_slice()).unwrap();
        assert_eq!(
            (state.reassigned_until_ms(), read.reassigned_until_ms()),
            (remembered_ms, remembered_ms)
        );
    }
    let mut state = with_rules();
    state.apply(START_MS, &raise);
    state.apply(START_MS, &acquire(1, Some(2), WINDOW_MS));
    let unused_from_ms = START_MS + 400;
    state.apply(START_MS, &Command::ReleaseWorker { worker_id: 2, nonce: 1, unused_from_ms });
    state.apply(START_MS + 400, &acquire(2, Some(2), WINDOW_MS));
    assert_eq!(state.reassigned_until_ms(), 0, "its holder gave it back");
    // The floor lies ahead, so the next holder's window begins there, and this one's has not ended.
    state.apply(START_MS + 500, &raise_floor(START_MS + 1_450));
    state.apply(START_MS + 500, &acquire(3, Some(2), WINDOW_MS));
    assert_eq!(state.reassigned_until_ms(), START_MS + 1_400);
}

fn commands() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let now_ms = || START_MS..START_MS + 3_000;
    let (worker_id, nonce, window_ms) = (0..8u16, 0..4u128, 1..2_000u64);
    let command = prop_oneof![
        4 => (nonce.clone(), option::weighted(0.2, worker_id.clone()), window_ms.clone())
            .prop_map(|(nonce, worker_id, window_ms)| acquire(nonce, worker_id, window_ms)),
        3 => (worker_id.clone(), nonce.clone(), window_ms).prop_map(
            |(worker_id, nonce, window_ms)| Command::RenewWorker { worker_id, nonce, window_ms }
        ),
        3 => (worker_id.clone(), nonce.clone(), now_ms()).prop_map(
            |(worker_id, nonce, floor_ms)| Command::LiftWindow { worker_id, nonce, floor_ms }
        ),
        2 => (worker_id, nonce, now_ms()).prop_map(|(worker_id, nonce, unused_from_ms)| {
            Command::ReleaseWorker { worker_id, nonce, unused_from_ms }
        }),
        1 => now_ms().prop_map(raise_floor),
    ];
    vec((now_ms(), command), 0..80)
}

proptest! {
    /// What a holder may stamp that it was given after the floor was raised lies above the floor, and so does
    /// all that a holder may stamp that lifted its window to there.
    #[test]
    fn nothing_is_given_below_the_floor(commands in commands()) {
        let mut state = with_rules();
        let mut floor_ms = 0;
        // What each worker id's holder may stamp.
        let mut held: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for (now_ms, command) in &commands {
            let response = state.apply(*now_ms, command);
            prop_assert!(state.snowflake_floor_ms() >= floor_ms);
            floor_ms = state.snowflake_floor_ms();
            let Response::Window { worker_id, floor_ms: first_ms, fence_ms } = response else {
                continue;
            };
            prop_assert!([2, 5, 6].contains(&worker_id), "{worker_id} is not in the pool");
            let before = held.insert(worker_id, (first_ms, fence_ms));
            match command {
                Command::AcquireWorker { .. } => {
                    prop_assert!(first_ms >= floor_ms && fence_ms - now_ms <= WINDOW_MS);
                }
                Command::RenewWorker { .. } => {
                    let (first_before_ms, fence_before_ms) = before.unwrap();
                    prop_assert_eq!(first_ms, first_before_ms);
                    prop_assert!(first_ms >= floor_ms);
                    prop_assert!(fence_ms == fence_before_ms || fence_ms - now_ms <= WINDOW_MS);
                }
                Command::LiftWindow { floor_ms: lifted_ms, .. } => {
                    let (first_before_ms, fence_before_ms) = before.unwrap();
                    prop_assert_eq!(fence_ms, fence_before_ms);
                    prop_assert_eq!(first_ms, (*lifted_ms).clamp(first_before_ms, fence_ms));
                }
                other => panic!("{other:?} was answered with a window"),
            }
        }
    }

    #[test]
    fn rules_and_floor_survive_a_snapshot(commands in commands(), cut in any::<prop::sample::Index>()) {
        runs_alike_through_a_snapshot(with_rules, &commands, cut)?;
    }
}
