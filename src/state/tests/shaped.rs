//! Tags with a shape: whatever is asked for, no number of a line is given twice, and no name forgets its shape.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{create, runs_alike_through_a_snapshot, tag, written};
use crate::encoding::read_snapshot;
use crate::limits::{ID_END, PERIOD_SKEW_MS, PERIODS_KEPT, SECTIONS};
use crate::shape::{
    Hidden, HiddenKey, Kind, Leadership, Line, Order, Period, PeriodLength, PeriodNumber, Shape,
    TextFormat,
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

/// Every shape that tags may have, the plain one among them.
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
    let by = shape.needs_leadership().then(|| leadership(3));
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
        let mut new = copy.raised(&Raise { all, floor_ms, ..Raise::default() }).unwrap();
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

/// Every pair of shapes: a name made again is refused, or goes on above all marks of before.
#[test]
fn a_name_made_again_is_refused_or_above_every_mark() {
    let shapes = shapes();
    for (at, first) in shapes.iter().enumerate() {
        for (again_at, again) in shapes.iter().enumerate() {
            let mut state = fresh();
            state.apply(FIRST_MS, &create_shaped("a", first));
            let marks = [0, 1].map(|line| granted(&mut state, grab("a", first, line, 7)).1);
            state.apply(FIRST_MS, &delete("a"));
            let kept = written(&state);
            let mut restored = read_snapshot(&kept[..]).unwrap();
            for state in [&mut state, &mut restored] {
                let response = state.apply(FIRST_MS, &create_shaped("a", again));
                if at != again_at {
                    assert_eq!(response, Response::OtherShape, "{first:?} then {again:?}");
                    assert_eq!(written(state), kept);
                    continue;
                }
                assert!(response.into_tag().is_ok(), "{first:?}");
                // A strict tag does not go back to its first period.
                let back = usize::from(!goes_back(again));
                for (line, mark) in (0..).zip(marks).skip(back) {
                    assert!(granted(state, grab("a", again, line, 1)).0 >= mark, "{first:?}");
                }
            }
        }
    }
}

#[test]
fn the_first_key_of_hidden_ids_stays() {
    let hidden = |key| Shape { hidden: Some(Hidden { digits: 12, key }), ..Shape::default() };
    let (old, new) = (HiddenKey([1; 32]), HiddenKey([2; 32]));
    let mut state = fresh();
    state.apply(0, &create_shaped("a", &hidden(old.clone())));
    state.apply(0, &delete("a"));
    let made = state.apply(0, &create_shaped("a", &hidden(new))).into_tag().unwrap();
    assert_eq!(made.shape.unwrap().hidden.as_ref().unwrap().key, old);
    assert_eq!(state.shape("a").unwrap().hidden.as_ref().unwrap().key, old);
}

#[test]
fn a_grab_that_does_not_fit_the_shape_reserves_nothing() {
    let lines = [
        Line::Whole,
        period(PeriodLength::Day, 0),
        period(PeriodLength::Year, 0),
        Line::Section(0),
    ];
    for shape in shapes() {
        let mut state = fresh();
        state.apply(0, &create_shaped("a", &shape));
        let before = written(&state);
        if !shape.is_plain() {
            let plain = Command::Grab { tag: tag("a"), size: 1 };
            assert_eq!(state.apply(stamp(0), &plain), Response::OtherShape, "{shape:?}");
        }
        for line in lines {
            for by in [None, Some(leadership(3))] {
                let fits = !shape.is_plain()
                    && shape.has_line(&line)
                    && by.is_some() == shape.needs_leadership();
                let grab = Command::GrabLine { tag: tag("a"), size: 1, line, by };
                if !fits {
                    let response = state.apply(stamp(0), &grab);
                    assert_eq!(response, Response::OtherShape, "{shape:?} {line:?} {by:?}");
                }
            }
        }
        assert_eq!(written(&state), before, "{shape:?}");
    }
    let grab = Command::GrabLine { tag: tag("x"), size: 1, line: Line::Whole, by: None };
    assert_eq!(fresh().apply(0, &grab), Response::UnknownTag);
}

#[test]
fn a_strict_grab_of_another_leadership_reserves_nothing() {
    for shape in shapes().into_iter().filter(Shape::needs_leadership) {
        let mut state = fresh();
        state.apply(0, &create_shaped("a", &shape));
        let (entry, command) = grab("a", &shape, 0, 1);
        for (term, leader_id) in [(2, 1), (4, 1), (3, 2), (0, 0)] {
            let entry = Stamp { term, leader_id, ..entry };
            assert_eq!(state.apply(entry, &command), Response::OtherTerm, "{shape:?}");
        }
        assert_eq!(granted(&mut state, (entry, command)), (1, 6), "{shape:?}");
    }
}

#[test]
fn a_hidden_line_ends_where_its_digits_do() {
    let shape =
        Shape { hidden: Some(Hidden { digits: 6, key: HiddenKey([0; 32]) }), ..Shape::default() };
    let mut state = fresh();
    state.apply(0, &create_shaped("a", &shape));
    assert_eq!(granted(&mut state, grab("a", &shape, 0, 899_999)), (1, 900_000));
    assert_eq!(granted(&mut state, grab("a", &shape, 0, 9)), (900_000, 900_001));
    let (entry, command) = grab("a", &shape, 0, 1);
    assert_eq!(state.apply(entry, &command), Response::Exhausted);
}

fn daily(order: Order) -> (State, Shape) {
    let length = PeriodLength::Day;
    let period = Some(Period { length, time_zone: "UTC".into() });
    let shape = Shape { order, period, ..Shape::default() }.completed();
    let mut state = fresh();
    state.apply(FIRST_MS, &create_shaped("a", &shape));
    (state, shape)
}

#[test]
fn a_period_is_open_while_its_entries_are_stamped_within_it_or_the_skew() {
    let (mut state, shape) = daily(Order::Trend);
    let (_, command) = grab("a", &shape, 1, 1);
    let (start_ms, end_ms) = (FIRST_MS + PERIOD_MS, FIRST_MS + 2 * PERIOD_MS);
    // A clock that once ran ahead closes nothing.
    state.apply(end_ms + PERIOD_MS, &Command::Grab { tag: tag("nobody"), size: 0 });
    for closed in [0, start_ms - PERIOD_SKEW_MS - 1, end_ms + PERIOD_SKEW_MS, u64::MAX] {
        assert_eq!(state.apply(stamp(closed), &command), Response::PeriodClosed, "{closed}");
    }
    for (at, open) in
        (0..).zip([start_ms - PERIOD_SKEW_MS, start_ms, end_ms, end_ms + PERIOD_SKEW_MS - 1])
    {
        let first = 1 + 5 * at;
        assert_eq!(granted(&mut state, (stamp(open), command.clone())), (first, first + 5));
    }
}

#[test]
fn the_last_sixteen_periods_are_kept_and_what_is_older_is_refused_for_good() {
    let (mut state, shape) = daily(Order::Trend);
    let kept = PERIODS_KEPT as u32;
    for at in (2..2 + kept).rev() {
        assert_eq!(granted(&mut state, grab("a", &shape, at, 1)).0, 1);
    }
    let refused = |state: &mut State, at| {
        let (entry, command) = grab("a", &shape, at, 1);
        matches!(state.apply(entry, &command), Response::PeriodOver { number } if number.0 == 20_270_101 + at)
    };
    // Below all that are kept, and never used: its place would be dropped at once.
    assert!(refused(&mut state, 1));
    assert_eq!(granted(&mut state, grab("a", &shape, 2, 1)).0, 6, "the lowest kept goes on");
    assert_eq!(granted(&mut state, grab("a", &shape, 2 + kept, 1)).0, 1);
    let mut restored = read_snapshot(&written(&state)[..]).unwrap();
    for state in [&mut state, &mut restored] {
        assert!(refused(state, 2) && refused(state, 1) && refused(state, 0));
        assert_eq!(granted(state, grab("a", &shape, 3, 1)).0, 6);
    }
}

#[test]
fn a_strict_tag_never_goes_back_to_an_earlier_period() {
    let (mut state, shape) = daily(Order::Strict);
    assert_eq!(granted(&mut state, grab("a", &shape, 1, 1)).0, 1);
    let (entry, command) = grab("a", &shape, 0, 1);
    assert!(matches!(state.apply(entry, &command), Response::PeriodOver { .. }));
    assert_eq!(granted(&mut state, grab("a", &shape, 1, 1)).0, 6);
    assert_eq!(granted(&mut state, grab("a", &shape, 2, 1)).0, 1);
}

#[test]
fn the_mark_that_is_shown_is_that_of_the_latest_period_or_the_highest_section() {
    let (mut state, shape) = daily(Order::Trend);
    let shown = |state: &State| state.tag("a").unwrap().max_id;
    assert_eq!(shown(&state), 1);
    granted(&mut state, grab("a", &shape, 2, 100));
    granted(&mut state, grab("a", &shape, 0, 200));
    assert_eq!(shown(&state), 101);
    let shape = Shape { kind: Kind::Sequence, ..Shape::default() };
    let mut state = fresh();
    state.apply(0, &create_shaped("a", &shape));
    granted(&mut state, grab("a", &shape, 9, 100));
    granted(&mut state, grab("a", &shape, 3, 200));
    granted(&mut state, grab("a", &shape, 4, 1));
    assert_eq!(shown(&state), 201);
}

#[test]
fn only_a_strict_tag_of_bare_numbers_takes_a_mark_of_its_administrator() {
    for shape in shapes() {
        let mut state = fresh();
        state.apply(0, &create_shaped("a", &shape));
        let fields = TagFields { max_id: Some(700), ..TagFields::default() };
        let change = Change::UpdateTag { tag: tag("a"), fields };
        let update = Command::Administer { actor: Actor::default(), change };
        let (import, description) = ("leaf.sql".into(), String::new());
        let change = Change::ImportTag { import, tag: tag("a"), step: 1, max_id: 800, description };
        let import = Command::Administer { actor: Actor::default(), change };
        let responses = [update, import].map(|command| state.apply(0, &command));
        let refused = responses.map(|response| response == Response::OtherShape);
        let takes = shape.takes_max_id();
        assert_eq!(refused, [!takes, !takes], "{shape:?}");
        assert_eq!(state.tag("a").unwrap().max_id, if takes { 800 } else { 1 });
    }
}

/// Every kind of line that there is rises with a restore: those that the copy has, and those that it lacks.
#[test]
fn a_restore_raises_every_kind_of_line() {
    const N: u64 = 5_000;
    let lines = [Line::Whole, period(PeriodLength::Day, 0), Line::Section(7)];
    for line in lines {
        // A kind of line that is added does not compile before it is among `lines`.
        let (has_line, lacked): (fn(&Shape) -> bool, &[u32]) = match line {
            Line::Whole => (|shape| shape.has_whole_line() && !shape.is_plain(), &[]),
            Line::Period { .. } => (|shape| shape.period.is_some(), &[3, 5]),
            Line::Section(_) => (|shape| shape.kind == Kind::Sequence, &[8]),
        };
        let having: Vec<_> = shapes().into_iter().filter(has_line).collect();
        assert!(!having.is_empty());
        for shape in having {
            let at = if let Line::Section(section) = line { u32::from(section) } else { 0 };
            let mut old = fresh();
            old.apply(0, &create_shaped("a", &shape));
            old.apply(0, &create_shaped("gone", &shape));
            let marks = ["a", "gone"].map(|name| granted(&mut old, grab(name, &shape, at, 9)).1);
            old.apply(0, &delete("gone"));
            let tags = [(tag("a"), N + 70)].into();
            let floor_ms = FIRST_MS + 5 * PERIOD_MS;
            let new = old.raised(&Raise { all: N, tags, floor_ms }).unwrap();
            let mut new = read_snapshot(&written(&new)[..]).unwrap();
            new.apply(0, &create_shaped("gone", &shape));
            new.apply(0, &create_shaped("later", &shape));
            let first = |state: &mut State, name, at| granted(state, grab(name, &shape, at, 1)).0;
            assert_eq!(first(&mut new, "a", at), marks[0] + N + 70, "{shape:?}");
            assert_eq!(first(&mut new, "gone", at), marks[1] + N, "{shape:?}");
            assert_eq!(first(&mut new, "later", at), 1 + N, "{shape:?}");
            for &lacked in lacked {
                assert_eq!(first(&mut new, "a", lacked), 1 + N + 70, "{shape:?}");
                assert_eq!(first(&mut new, "gone", lacked), 1 + N, "{shape:?}");
            }
            if shape.period.is_some() {
                // It begins too late for the old cluster to have used it.
                assert_eq!(first(&mut new, "a", 6), 1, "{shape:?}");
            }
        }
    }
}

#[test]
fn a_sequence_with_every_section_in_use_and_the_longest_texts_fit_a_snapshot() {
    let sequence = Shape { kind: Kind::Sequence, ..Shape::default() };
    let mut state = fresh();
    state.apply(0, &create_shaped("all", &sequence));
    for section in 0..SECTIONS {
        let entry = grab("all", &sequence, section.into(), u32::from(section));
        granted(&mut state, entry);
    }
    let format = TextFormat::parse(&format!("{}{{period}}{{id}}", "🙂".repeat(116))).unwrap();
    let period = Some(Period { length: PeriodLength::Day, time_zone: "x".repeat(64).into() });
    let longest = Shape { period, format: Some(format), ..Shape::default() };
    for number in 0..600 {
        let name = format!("{number:08}{}", "🙂".repeat(120));
        assert!(state.apply(0, &create_shaped(&name, &longest)).into_tag().is_ok());
    }
    let restored = read_snapshot(&written(&state)[..]).unwrap();
    assert_eq!(written(&restored), written(&state));
    assert_eq!(restored.tag("all").unwrap().max_id, state.tag("all").unwrap().max_id);
}
