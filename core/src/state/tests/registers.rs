//! Registers: numbers without a gap, each given to one key for good.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::shaped::create_shaped;
use super::{runs_alike_through_a_snapshot, tag, written};
use crate::encoding::read_snapshot;
use crate::limits::STEP_MAX;
use crate::shape::{Kind, Line, Period, PeriodLength, PeriodNumber, Shape, TextFormat};
use crate::state::{
    Action, Actor, Change, Command, Fact, Field, LineName, Raise, RegisterEntry, Response,
    Restoration, State, TagFields,
};

const DAY_MS: u64 = 86_400_000;
const FIRST_MS: u64 = 1_800_000_000_000;

fn shape(has_periods: bool) -> Shape {
    let period = has_periods.then(|| Period { length: PeriodLength::Day, time_zone: "UTC".into() });
    let format = (!has_periods).then(|| TextFormat::parse("INV-{id}").unwrap());
    Shape { kind: Kind::Register, period, format, ..Shape::default() }.completed()
}

fn fresh() -> State {
    let mut state = State::default();
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    state.apply(0, &create_shaped("inv", &shape(false)));
    state.apply(0, &create_shaped("day", &shape(true)));
    state
}

fn day(at: u32) -> Line {
    let start_ms = FIRST_MS + u64::from(at) * DAY_MS;
    let number = PeriodNumber(20_270_101 + at);
    Line::Period { number, start_ms, end_ms: start_ms + DAY_MS }
}

fn during(at: u32) -> u64 {
    FIRST_MS + u64::from(at) * DAY_MS + DAY_MS / 2
}

fn register(name: &str, key: &str, line: Line) -> Command {
    Command::Register { tag: tag(name), key: key.into(), line, keys_max: 1_000_000 }
}

fn whole(state: &mut State, key: &str) -> Response {
    state.apply(during(0), &register("inv", key, Line::Whole))
}

fn given(number: u64, period: Option<u32>, is_new: bool) -> Response {
    Response::Registered { number, period: period.map(PeriodNumber), is_new }
}

fn administer(state: &mut State, change: Change) -> Response {
    state.apply(0, &Command::Administer { actor: Actor::default(), change })
}

fn entries(state: &State, name: &str, period: Option<u32>) -> Vec<RegisterEntry> {
    let listed = state.registered_after(name, period.map(PeriodNumber), 0);
    listed.into_iter().flatten().collect()
}

#[test]
fn the_same_key_has_the_same_number_for_ever() {
    let mut state = fresh();
    assert_eq!(whole(&mut state, "a"), given(1, None, true));
    assert_eq!(whole(&mut state, "b"), given(2, None, true));
    assert_eq!(whole(&mut state, "a"), given(1, None, false));
    assert_eq!(state.registered("inv", "b").unwrap().time_ms, during(0));
    assert_eq!(state.registered("inv", "c"), None);
}

#[test]
fn nothing_but_a_key_takes_a_number() {
    let mut state = fresh();
    let grab = Command::GrabLine { tag: tag("inv"), size: STEP_MAX, line: Line::Whole, by: None };
    assert_eq!(state.apply(0, &grab), Response::OtherShape);
    assert_eq!(state.apply(0, &Command::Grab { tag: tag("inv"), size: 1 }), Response::OtherShape);
    assert_eq!(whole(&mut state, "a"), given(1, None, true));
    let strict = Shape { order: crate::shape::Order::Strict, ..Shape::default() };
    state.apply(0, &create_shaped("ids", &strict));
    assert_eq!(state.apply(0, &register("ids", "a", Line::Whole)), Response::OtherShape);
    assert_eq!(state.apply(0, &register("inv", "b", day(0))), Response::OtherShape);
    assert_eq!(state.apply(0, &register("none", "a", Line::Whole)), Response::UnknownTag);
}

#[test]
fn each_period_begins_at_one_and_a_key_keeps_its_first() {
    let mut state = fresh();
    let mut ask = |at, key: &str, line| state.apply(during(at), &register("day", key, line));
    let first = Some(20_270_101);
    assert_eq!(ask(0, "a", day(0)), given(1, first, true));
    assert_eq!(ask(0, "b", day(0)), given(2, first, true));
    assert_eq!(ask(0, "x", day(1)), Response::PeriodClosed);
    assert_eq!(ask(1, "c", day(1)), given(1, Some(20_270_102), true));
    assert_eq!(ask(1, "a", day(1)), given(1, first, false));
    // Clocks that went back take no register back.
    let over = Response::PeriodOver { number: PeriodNumber(20_270_101) };
    assert_eq!(ask(0, "d", day(0)), over);
    assert_eq!(ask(0, "b", day(0)), given(2, first, false));
    let keys = |period| -> Vec<_> {
        entries(&state, "day", period).into_iter().map(|entry| entry.key.to_string()).collect()
    };
    assert_eq!((keys(first), keys(None)), (vec!["a".into(), "b".into()], vec!["c".to_owned()]));
}

#[test]
fn a_register_that_is_made_again_goes_on_with_its_keys() {
    let mut state = fresh();
    whole(&mut state, "a");
    administer(&mut state, Change::DeleteTag { tag: tag("inv") });
    assert_eq!(whole(&mut state, "a"), Response::UnknownTag);
    assert!(state.registered("inv", "a").is_none() && state.register_keys() == 1);
    assert_eq!(state.apply(0, &create_shaped("inv", &shape(true))), Response::OtherShape);
    let mut state = read_snapshot(&written(&state)[..]).unwrap();
    state.apply(0, &create_shaped("inv", &shape(false)));
    assert_eq!(whole(&mut state, "a"), given(1, None, false));
    assert_eq!(whole(&mut state, "b"), given(2, None, true));
}

#[test]
fn a_frozen_register_answers_the_keys_that_it_has() {
    let mut state = fresh();
    whole(&mut state, "a");
    let fields = TagFields { frozen: Some(true), ..TagFields::default() };
    administer(&mut state, Change::UpdateTag { tag: tag("inv"), fields });
    assert_eq!(whole(&mut state, "a"), given(1, None, false));
    assert_eq!(whole(&mut state, "b"), Response::Frozen);
}

#[test]
fn there_are_no_more_keys_than_the_command_allows() {
    let mut state = fresh();
    let ask = |state: &mut State, name: &str, key: &str, line| {
        let (tag, key) = (tag(name), key.into());
        state.apply(during(0), &Command::Register { tag, key, line, keys_max: 2 })
    };
    assert_eq!(ask(&mut state, "inv", "a", Line::Whole), given(1, None, true));
    assert_eq!(ask(&mut state, "day", "a", day(0)), given(1, Some(20_270_101), true));
    assert_eq!(ask(&mut state, "inv", "b", Line::Whole), Response::TooManyKeys);
    assert_eq!(ask(&mut state, "inv", "a", Line::Whole), given(1, None, false));
}

#[test]
fn a_raise_leaves_a_gap_and_an_operator_that_knows_the_last_number_none() {
    let mut state = fresh();
    whole(&mut state, "a");
    let fields = TagFields { max_id: Some(7), ..TagFields::default() };
    administer(&mut state, Change::UpdateTag { tag: tag("inv"), fields });
    assert_eq!(whole(&mut state, "b"), given(7, None, true));
    let mut higher = state.clone().raised(&Raise { all: 100, ..Raise::default() }).unwrap();
    assert_eq!(whole(&mut higher, "b"), given(7, None, false));
    assert_eq!(whole(&mut higher, "c"), given(108, None, true));
    let lasts = [(tag("inv"), [(LineName::Whole, 9)].into())].into();
    let mut known = state.raised(&Raise { all: 100, lasts, ..Raise::default() }).unwrap();
    assert_eq!(whole(&mut known, "c"), given(10, None, true));
}

#[test]
fn the_audit_of_a_restored_cluster_names_the_gap_of_each_register() {
    let mut state = fresh();
    whole(&mut state, "a");
    let restoration =
        Restoration { time_ms: 7, from_cluster: None, log_index: None, to_cluster: 2 };
    let by = Raise { all: 100, ..Raise::default() };
    let restored = state.restored(&by, &restoration).unwrap();
    let entries = restored.audit_page(0, 10, |_| true).entries;
    let rise = entries.iter().rfind(|entry| &*entry.target == "inv").unwrap();
    let mark = |id| vec![(Field::MaxId, Fact::Id(id))];
    assert_eq!((rise.action, &rise.before, &rise.after), (Action::UpdateTag, &mark(2), &mark(102)));
}

#[test]
fn snapshots_that_no_register_has_are_refused() {
    let mut state = fresh();
    whole(&mut state, "a");
    whole(&mut state, "b");
    let bytes = written(&state);
    assert!(read_snapshot(&bytes[..]).is_ok());
    let mut forged = state.clone();
    forged
        .registers
        .push(&tag("inv"), &RegisterEntry { key: "c".into(), number: 3, period: None, time_ms: 0 });
    assert!(read_snapshot(&written(&forged)[..]).is_err(), "a number above the mark");
    let mut forged = state.clone();
    whole(&mut forged, "c");
    forged.registers.push(
        &tag("none"),
        &RegisterEntry { key: "c".into(), number: 1, period: None, time_ms: 0 },
    );
    assert!(read_snapshot(&written(&forged)[..]).is_err(), "keys of no register");
}

#[test]
fn a_key_takes_at_most_a_hundred_bytes_in_memory_and_in_snapshots() {
    const KEYS: u32 = 100_000;
    let mut state = fresh();
    let before = written(&state).len();
    for at in 0..KEYS {
        let key = format!("{at:036}").into();
        let register =
            Command::Register { tag: tag("inv"), key, line: Line::Whole, keys_max: 1_000_000 };
        state.apply(during(0), &register);
    }
    let bytes = state.registers.bytes_of("inv") / KEYS as usize;
    assert!((60..=100).contains(&bytes), "{bytes} bytes a key");
    let frozen = state.freeze();
    whole(&mut state, "one more");
    let written = written(&state).len() - before;
    assert!(written / KEYS as usize <= 100, "{written}");
    drop(frozen);
    let restored = read_snapshot(&super::written(&state)[..]).unwrap();
    assert_eq!(restored.registered("inv", "one more").unwrap().number, u64::from(KEYS) + 1);
    assert_eq!(restored.registered("inv", &format!("{:036}", 77)).unwrap().number, 78);
    assert_eq!(
        restored.registered_after("inv", None, 99_998).unwrap().map(|e| e.number).last(),
        Some(100_001)
    );
}

proptest! {
    /// Whatever is asked, and asked again: numbers of a line are dense from 1, a key has one number, a number one key,
    /// and a snapshot in between changes nothing.
    #[test]
    fn numbers_are_dense_and_each_belongs_to_one_key(
        asked in vec((0..3_u32, 0..30_u32, any::<bool>()), 1..120),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut at = 0;
        let commands: Vec<(u64, Command)> = asked
            .iter()
            .map(|(later, key, has_periods)| {
                at = (at + later / 2).min(20);
                let key = format!("k{key}");
                let (name, line) = match has_periods {
                    true => ("day", day(at)),
                    false => ("inv", Line::Whole),
                };
                (during(at), register(name, &key, line))
            })
            .collect();
        let state = runs_alike_through_a_snapshot(fresh, &commands, cut)?;
        let mut again = state.clone();
        let mut seen: BTreeMap<(String, Option<PeriodNumber>, u64), String> = BTreeMap::new();
        for (stamp, command) in &commands {
            let Command::Register { tag, key, .. } = command else { unreachable!() };
            let answer = again.apply(*stamp, command);
            let Response::Registered { number, period, is_new: false } = answer else {
                return Err(TestCaseError::fail(format!("{answer:?}")));
            };
            let holder = seen.entry((tag.to_string(), period, number)).or_insert(key.to_string());
            prop_assert_eq!(&*holder, &**key, "a number with two keys");
        }
        for (name, period, _) in seen.keys() {
            let numbers = seen.keys().filter(|(n, p, _)| n == name && p == period);
            let numbers: Vec<u64> = numbers.map(|(_, _, number)| *number).collect();
            prop_assert_eq!(numbers.clone(), (1..=numbers.len() as u64).collect::<Vec<_>>());
        }
        prop_assert_eq!(written(&again), written(&state), "asking again changes nothing");
    }
}
