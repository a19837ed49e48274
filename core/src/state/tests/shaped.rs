//! Tags with a shape: whatever is asked for, no number of a line is given twice, and no name forgets its shape.

mod known_lines;
mod restored;
mod rules;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{create, runs_alike_through_a_snapshot, tag, written};
use crate::encoding::read_snapshot;
use crate::limits::{ID_END, PERIOD_SKEW_MS, PERIODS_KEPT, SECTIONS};
use crate::shape::{
    Hidden, HiddenKey, Kind, Leadership, Line, Order, Period, PeriodLength, PeriodNumber, RootKey,
    Shape, TextFormat,
};
use crate::state::{Actor, Change, Command, Protection, Raise, Response, Stamp, State, TagFields};

/// The length of a period in these tests, and where the periods begin.
const PERIOD_MS: u64 = 86_400_000;
const FIRST_MS: u64 = 1_800_000_000_000;

/// A state of the level that has shapes.
pub(crate) fn fresh() -> State {
    let mut state = State::default();
    state.apply(0, &Command::RaiseLevel { to: 2, version: "0.3.0".to_owned() });
    state
}

/// Every shape of tags that grabs reserve numbers of, the plain one among them.
pub(crate) fn shapes() -> Vec<Shape> {
    let plain = Shape::default();
    let text = |text| Some(TextFormat::parse(text).unwrap());
    let period = |length| Some(Period { length, time_zone: "Asia/Kolkata".into() });
    let hidden = |digits| Some(Hidden { digits, key: HiddenKey([digits; 32]) });
    let mut shapes = vec![Shape { kind: Kind::Sequence, ..plain.clone() }];
    for order in [Order::Trend, Order::Strict] {
        let plain = Shape { order, ..plain.clone() };
        shapes.extend([
            plain.clone(),
            Shape { format: text("T-{id}"), ..plain.clone() },
            Shape { hidden: hidden(6), ..plain.clone() },
            Shape { hidden: hidden(7), format: text("T-{id}"), ..plain.clone() },
            Shape { period: period(PeriodLength::Day), ..plain.clone() }.completed(),
            Shape { period: period(PeriodLength::Year), ..plain.clone() }.completed(),
            Shape { period: period(PeriodLength::Day), format: text("{period}:{id}"), ..plain },
        ]);
    }
    shapes
}

/// Every shape that tags may have: those of registers besides [`shapes`].
pub(crate) fn all_shapes() -> Vec<Shape> {
    let whole = Shape { kind: Kind::Register, ..Shape::default() };
    let period = Some(Period { length: PeriodLength::Day, time_zone: "Asia/Kolkata".into() });
    let shown = Shape { format: Some(TextFormat::parse("R-{id}").unwrap()), ..whole.clone() };
    let periods = Shape { period, ..whole.clone() }.completed();
    let all = [shapes(), vec![whole, shown, periods]].concat();
    assert!(Kind::ALL.iter().all(|kind| all.iter().any(|shape| shape.kind == *kind)));
    all
}

pub(crate) fn create_shaped(name: &str, shape: &Shape) -> Command {
    if shape.is_plain() {
        return create(name, 5, 1);
    }
    let (tag, description, shape) = (tag(name), String::new(), Box::new(shape.clone()));
    let (step, start, protection) = (5, 1, Protection::default());
    let change = Change::CreateShapedTag { tag, step, start, description, protection, shape };
    Command::Administer { actor: Actor::default(), change }
}

/// One tag of each kind of line, and a tombstone, each with numbers reserved.
pub(crate) fn with_shapes() -> State {
    let strict = Shape { order: Order::Strict, ..Shape::default() };
    let sequence = Shape { kind: Kind::Sequence, ..Shape::default() };
    let hidden = Some(Hidden { digits: 12, key: HiddenKey([0xab; 32]) });
    let hidden = Shape { hidden, ..Shape::default() };
    let (mut state, daily) = daily(Order::Trend);
    for (name, shape) in [("b", &strict), ("c", &sequence), ("d", &hidden)] {
        state.apply(0, &create_shaped(name, shape));
    }
    for (name, shape) in [("a", &daily), ("b", &strict), ("c", &sequence), ("d", &hidden)] {
        granted(&mut state, grab(name, shape, 0, 9));
        granted(&mut state, grab(name, shape, 1, 300));
    }
    state.apply(0, &delete("d"));
    state
}

fn delete(name: &str) -> Command {
    let change = Change::DeleteTag { tag: tag(name) };
    Command::Administer { actor: Actor::default(), change }
}

fn freeze(name: &str, frozen: bool) -> Command {
    let fields = TagFields { frozen: Some(frozen), ..TagFields::default() };
    let change = Change::UpdateTag { tag: tag(name), fields };
    Command::Administer { actor: Actor::default(), change }
}

/// The day or year with this number, and where it lies.
fn period(length: PeriodLength, at: u32) -> Line {
    let number = match length {
        PeriodLength::Day => 20_270_100 + 1 + at,
        PeriodLength::Month => 202_700 + 1 + at,
        PeriodLength::Year => 2027 + at,
    };
    let start_ms = FIRST_MS + u64::from(at) * PERIOD_MS;
    Line::Period { number: PeriodNumber(number), start_ms, end_ms: start_ms + PERIOD_MS }
}

/// Whether earlier periods of a tag are given once there is a later one.
fn goes_back(shape: &Shape) -> bool {
    shape.order == Order::Trend || shape.period.is_none()
}

/// A line that a tag of this shape has.
fn line_of(shape: &Shape, at: u32) -> Line {
    match (shape.kind, &shape.period) {
        (Kind::Sequence, _) => Line::Section(at as u16 % SECTIONS),
        (_, Some(has)) => period(has.length, at),
        _ => Line::Whole,
    }
}

/// The stamp of an entry of term 3 of node 1.
fn stamp(now_ms: u64) -> Stamp {
    Stamp { now_ms, term: 3, leader_id: 1 }
}

fn leadership(term: u64) -> Leadership {
    Leadership { node_id: 1, nonce: 9, term }
}

/// A grab as a tag of this shape takes it, in an entry whose stamp lies in the line.
fn grab(name: &str, shape: &Shape, at: u32, size: u32) -> (Stamp, Command) {
    let tag = tag(name);
    if shape.is_plain() {
        return (stamp(0), Command::Grab { tag, size });
    }
    let by = shape.giver().is_leader().then(|| leadership(3));
    let line = line_of(shape, at);
    (stamp(moment_in(line)), Command::GrabLine { tag, size, line, by })
}

fn moment_in(line: Line) -> u64 {
    if let Line::Period { start_ms, .. } = line { start_ms } else { FIRST_MS }
}

#[track_caller]
fn granted(state: &mut State, (stamp, command): (Stamp, Command)) -> (u64, u64) {
    match state.apply(stamp, &command) {
        Response::Segment { start, end, .. } => (start, end),
        other => panic!("{command:?}: {other:?}"),
    }
}

/// What two numbers must not share: the tag and its line, a period by its number alone.
fn key_of(command: &Command) -> Option<(String, String)> {
    let (tag, line) = match command {
        Command::Grab { tag, .. } => (tag, "whole".to_owned()),
        Command::GrabLine { tag, line: Line::Whole, .. } => (tag, "whole".to_owned()),
        Command::GrabLine { tag, line: Line::Section(section), .. } => (tag, format!("s{section}")),
        Command::GrabLine { tag, line: Line::Period { number, .. }, .. } => {
            (tag, format!("p{}", number.0))
        }
        _ => return None,
    };
    Some((tag.to_string(), line))
}

/// Few names and lines, so that commands meet; grabs that fit the tag and grabs that do not, in entries of two
/// leaders whose clocks jump.
fn commands() -> impl Strategy<Value = Vec<(Stamp, Command)>> {
    let name = || prop::sample::select(vec!["a", "b"]);
    let line = prop_oneof![
        1 => Just(Line::Whole),
        4 => (0..24_u32).prop_map(|at| period(PeriodLength::Day, at)),
        1 => (0..3_u32).prop_map(|at| period(PeriodLength::Year, at)),
        2 => (0..3_u16).prop_map(Line::Section),
    ];
    let by = option::of((1..3_u64).prop_map(leadership));
    let created = (name(), prop::sample::select(shapes()));
    let mark = (name(), 1..300_u64).prop_map(|(name, max_id)| {
        let fields = TagFields { max_id: Some(max_id), ..TagFields::default() };
        let change = Change::UpdateTag { tag: tag(name), fields };
        Command::Administer { actor: Actor::default(), change }
    });
    let command = prop_oneof![
        2 => created.prop_map(|(name, shape)| create_shaped(name, &shape)),
        1 => name().prop_map(delete),
        1 => mark,
        2 => (name(), 0..9_u32).prop_map(|(name, size)| Command::Grab { tag: tag(name), size }),
        12 => (name(), 0..9_u32, line, by).prop_map(|(name, size, line, by)| {
            Command::GrabLine { tag: tag(name), size, line, by }
        }),
    ];
    let stamped = (0..25 * PERIOD_MS, 1..3_u64).prop_map(|(after_ms, term)| Stamp {
        now_ms: FIRST_MS + after_ms,
        term,
        leader_id: 1,
    });
    vec((stamped, command), 0..120)
}

/// Has each grab of a period stamped within it, as most are.
fn stamped_aptly((stamp, command): (Stamp, Command)) -> (Stamp, Command) {
    match command {
        Command::GrabLine { line: Line::Period { start_ms, .. }, .. } if stamp.now_ms % 4 > 0 => {
            (Stamp { now_ms: start_ms + stamp.now_ms % PERIOD_MS, ..stamp }, command)
        }
        _ => (stamp, command),
    }
}

fn daily(order: Order) -> (State, Shape) {
    let length = PeriodLength::Day;
    let period = Some(Period { length, time_zone: "UTC".into() });
    let shape = Shape { order, period, ..Shape::default() }.completed();
    let mut state = fresh();
    state.apply(FIRST_MS, &create_shaped("a", &shape));
    (state, shape)
}

proptest! {
    /// Line 1, over every kind of line: intervals of a line follow each other, so no number is given twice, whatever
    /// is created, deleted and created again, and whatever clocks and terms there are.
    #[test]
    fn marks_of_lines_never_fall_and_no_number_is_given_twice(commands in commands()) {
        let mut state = fresh();
        let mut marks: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (stamp, command) in commands.into_iter().map(stamped_aptly) {
            let before = written(&state);
            let response = state.apply(stamp, &command);
            match (response, key_of(&command)) {
                (Response::Segment { start, end, .. }, Some(key)) => {
                    let mark = marks.entry(key).or_insert(1);
                    prop_assert!(*mark <= start && start < end && end <= ID_END, "{:?}", command);
                    *mark = end;
                }
                (Response::Tag(_) | Response::ShapedTag { .. } | Response::Deleted, None) => {}
                (rejection, _) => {
                    // What is refused changes nothing but the state's clock.
                    let clock_ms = state.clock_ms();
                    let mut unchanged = read_snapshot(&before[..]).unwrap();
                    unchanged.apply(clock_ms, &Command::Grab { tag: tag("nobody"), size: 0 });
                    prop_assert_eq!(written(&state), written(&unchanged), "{:?}", rejection);
                }
            }
        }
    }

    #[test]
    fn a_snapshot_on_the_way_keeps_every_line(
        commands in commands(),
        cut in any::<prop::sample::Index>(),
    ) {
        let commands: Vec<_> = commands.into_iter().map(stamped_aptly).collect();
        let whole = runs_alike_through_a_snapshot(fresh, &commands, cut)?;
        prop_assert_eq!(written(&read_snapshot(&written(&whole)[..]).unwrap()), written(&whole));
    }

    /// A cluster goes on after its copy was taken; a cluster made of the copy, raised by more than any line moved
    /// since, gives no number that the old one gave: neither of lines that the copy has, nor of others.
    #[test]
    fn nothing_of_any_line_that_was_given_since_is_given_again(
        before in vec((0..15_usize, 0..4_u32, 1..9_u32), 0..30),
        since in vec((0..15_usize, 0..4_u32, 1..9_u32), 1..40),
    ) {
        let shapes = shapes();
        let play = |state: &mut State, steps: &[(usize, u32, u32)]| {
            let mut given = Vec::new();
            for &(shape, at, size) in steps {
                let (name, shape) = (format!("t{shape}"), &shapes[shape]);
                state.apply(FIRST_MS, &create_shaped(&name, shape));
                let (stamp, command) = grab(&name, shape, at, size);
                if let Response::Segment { start, end, .. } = state.apply(stamp, &command) {
                    given.push((key_of(&command).unwrap(), start, end));
                }
            }
            given
        };
        let mut old = fresh();
        play(&mut old, &before);
        let copy = old.clone();
        let given = play(&mut old, &since);
        // Each line moved by less than this, and the old cluster stopped before its last period ended.
        let all = since.iter().map(|(.., size)| u64::from(*size).max(5)).sum::<u64>() + 1;
        let floor_ms = FIRST_MS + 4 * PERIOD_MS;
        let mut new = copy.raised(&Raise { all, floor_ms, root: Some(RootKey([7; 32])), ..Raise::default() }).unwrap();
        let again = play(&mut new, &since);
        let granted = since.iter().filter(|(shape, ..)| goes_back(&shapes[*shape])).count();
        prop_assert!(again.len() >= granted);
        for (line, start, end) in &again {
            for (given, given_start, given_end) in &given {
                prop_assert!(
                    line != given || end <= given_start || given_end <= start,
                    "{line:?}: [{start}, {end}) after [{given_start}, {given_end})"
                );
            }
        }
    }
}
