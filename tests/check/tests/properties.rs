//! Legal histories pass with any seed. A single change that makes them illegal is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mintleaf_check::history::{Ids, Interval, Outcome, Record, Text};
use mintleaf_check::{Input, Invariant, Options, Report, check, generate};
use proptest::prelude::*;

type Line = Record<'static>;
type History = Vec<Line>;

fn judge(history: &[Line]) -> Report {
    let mut written = Vec::new();
    history.iter().for_each(|record| record.write(&mut written).unwrap());
    let mut input = Input::default();
    input.stream("history", written.as_slice()).unwrap();
    check(input, &Options::default()).unwrap()
}

/// One kind of change to a history, at a place that `pick` chooses. `None` if the history has no such place.
type Mutation = fn(&mut History, usize) -> Option<()>;

const MUTATIONS: [(Invariant, Mutation); 9] = [
    (Invariant::I1, repeat_an_id),
    (Invariant::I1, repeat_a_snowflake),
    (Invariant::I2, overlap_grants),
    (Invariant::I2, lose_a_grant),
    (Invariant::I3, lower_max_id),
    (Invariant::I4, overlap_windows),
    (Invariant::I4, leave_the_window),
    (Invariant::I5, swap_answers),
    (Invariant::I6, lose_a_tag),
];

/// Chooses one of the lines that `of` accepts. Returns its index, and what `of` found there.
fn pick<T>(history: &History, pick: usize, of: impl Fn(&Line) -> Option<T>) -> Option<(usize, T)> {
    let found = history.iter().enumerate().filter_map(|(at, record)| Some((at, of(record)?)));
    let mut found: Vec<(usize, T)> = found.collect();
    (!found.is_empty()).then(|| found.swap_remove(pick % found.len()))
}

fn repeat_an_id(history: &mut History, at: usize) -> Option<()> {
    let (_, mut ids) = pick(history, at, given)?;
    ids.call.node = 9;
    history.push(Record::Ids(ids));
    Some(())
}

/// A request that received ids of a tag.
fn given(record: &Line) -> Option<Ids<'static>> {
    match record {
        Record::Ids(ids) if ids.call.out == Outcome::Ok => Some(ids.clone()),
        _ => None,
    }
}

fn repeat_a_snowflake(history: &mut History, at: usize) -> Option<()> {
    let given = |record: &Line| match record {
        Record::Flakes(flakes) if flakes.call.out == Outcome::Ok => Some(flakes.clone()),
        _ => None,
    };
    let (_, mut flakes) = pick(history, at, given)?;
    flakes.call.boot = Some(Text::from("another"));
    history.push(Record::Flakes(flakes));
    Some(())
}

fn overlap_grants(history: &mut History, at: usize) -> Option<()> {
    let grant =
        |record: &Line| matches!(record, Record::Grant(grant) if grant.r[0].0 > 1).then_some(());
    let (at, ()) = pick(history, at, grant)?;
    let Record::Grant(grant) = &mut history[at] else { return None };
    grant.r[0].0 -= 1;
    Some(())
}

fn lose_a_grant(history: &mut History, at: usize) -> Option<()> {
    let (_, Ids { key, r, .. }) = pick(history, at, given)?;
    let covers = |&(start, end): &Interval| (start..end).contains(&r[0].0);
    history.retain(|record| match record {
        Record::Grant(grant) => grant.key != key || !grant.r.iter().any(covers),
        _ => true,
    });
    Some(())
}

fn lower_max_id(history: &mut History, at: usize) -> Option<()> {
    let max_id = |record: &Line| match record {
        Record::Read(read) => read.row.as_ref()?.max_id.filter(|&max_id| max_id > 1),
        _ => None,
    };
    let (at, max_id) = pick(history, at, max_id)?;
    // A read after all other operations.
    let Record::Read(mut read) = history[at].clone() else { return None };
    read.call.inv += 1 << 40;
    read.call.ret = read.call.ret.map(|ret| ret + (1 << 40));
    read.row.as_mut()?.max_id = Some(max_id - 1);
    history.push(Record::Read(read));
    Some(())
}

fn overlap_windows(history: &mut History, at: usize) -> Option<()> {
    let window = |record: &Line| match record {
        Record::Window(window) => Some(window.clone()),
        _ => None,
    };
    let (_, mut window) = pick(history, at, window)?;
    window.node = 9;
    window.w.0 = window.w.1 - 1;
    history.push(Record::Window(window));
    Some(())
}

fn leave_the_window(history: &mut History, at: usize) -> Option<()> {
    let given = |record: &Line| {
        matches!(record, Record::Flakes(flakes) if flakes.call.out == Outcome::Ok).then_some(())
    };
    let (at, ()) = pick(history, at, given)?;
    let Record::Flakes(flakes) = &mut history[at] else { return None };
    // This gives a worker id above those in use.
    flakes.r[0].0 |= 1 << 21;
    flakes.r[0].1 |= 1 << 21;
    Some(())
}

/// Swaps the answers of two requests to one node, where one follows the other.
fn swap_answers(history: &mut History, at: usize) -> Option<()> {
    let (first, earlier) = pick(history, at, given)?;
    let follows = |later: &Ids<'_>| {
        let after = Some(later.call.inv) > earlier.call.ret;
        after && later.key == earlier.key && later.call.node == earlier.call.node
    };
    let (second, later) = pick(history, at, |record| given(record).filter(follows))?;
    history[first] = Record::Ids(Ids { r: later.r.clone(), ..earlier.clone() });
    history[second] = Record::Ids(Ids { r: earlier.r, ..later });
    Some(())
}

/// Reads a tag that is never deleted once more, and finds it gone.
fn lose_a_tag(history: &mut History, at: usize) -> Option<()> {
    let read = |record: &Line| match record {
        Record::Read(read) if read.row.as_ref()?.max_id.is_some() => Some(read.clone()),
        _ => None,
    };
    let (_, mut read) = pick(history, at, read)?;
    read.call.inv = read.call.ret? + 1;
    read.call.ret = Some(read.call.inv);
    read.row = None;
    history.push(Record::Read(read));
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn legal_histories_pass(seed: u64, operations in 0_u64..3000) {
        let history: History = generate::clean(seed, operations).collect();
        let report = judge(&history);
        prop_assert!(report.is_clean(), "seed {seed}, {operations} operations: {report}");
    }

    #[test]
    fn lines_may_stand_in_any_order(seed: u64, turn in 0_usize..2000) {
        let mut history: History = generate::clean(seed, 2000).collect();
        history.reverse();
        history.rotate_left(turn);
        let report = judge(&history);
        prop_assert!(report.is_clean(), "seed {seed}, turned by {turn}: {report}");
    }

    #[test]
    fn one_illegal_change_is_found(seed: u64, at: usize, number in 0..MUTATIONS.len()) {
        let (invariant, mutate) = MUTATIONS[number];
        let mut history: History = generate::clean(seed, 1500).collect();
        prop_assume!(mutate(&mut history, at).is_some());
        let found = judge(&history).verdicts[&invariant].violations;
        prop_assert!(found > 0, "mutation {number} ({invariant:?}) of seed {seed} at {at}");
    }
}
