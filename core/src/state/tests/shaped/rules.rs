//! The rules of shapes, one by one.

use super::*;
use crate::shape::LinesOf;

/// Every pair of shapes: a name made again is refused, or goes on above all earlier marks.
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
fn a_frozen_tag_of_any_shape_reserves_nothing_and_goes_on_at_its_mark() {
    for shape in shapes() {
        let mut state = fresh();
        state.apply(0, &create_shaped("a", &shape));
        let (_, mark) = granted(&mut state, grab("a", &shape, 0, 7));
        state.apply(FIRST_MS, &freeze("a", true));
        let before = written(&state);
        let (entry, command) = grab("a", &shape, 0, 7);
        assert_eq!(state.apply(entry, &command), Response::Frozen, "{shape:?}");
        assert_eq!(written(&state), before, "{shape:?}");
        state.apply(FIRST_MS, &freeze("a", false));
        assert_eq!(granted(&mut state, (entry, command)).0, mark, "{shape:?}");
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
    for shape in all_shapes() {
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
                    && !shape.giver().records_keys()
                    && by.is_some() == shape.giver().is_leader();
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
    for shape in shapes().into_iter().filter(|shape| shape.giver().is_leader()) {
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
fn only_a_tag_of_numbers_of_one_line_takes_a_mark_of_its_administrator() {
    for shape in all_shapes() {
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

/// Every kind of line rises with a restore: the lines that the copy has, and those it lacks.
#[test]
fn a_restore_raises_every_kind_of_line() {
    const N: u64 = 5_000;
    let lines = [Line::Whole, period(PeriodLength::Day, 0), Line::Section(7)];
    for line in lines {
        // A kind of line that is added does not compile before it is among `lines`.
        let (has_line, lacked): (fn(&Shape) -> bool, &[u32]) = match line {
            Line::Whole => (|shape| shape.has_whole_line() && !shape.is_plain(), &[]),
            Line::Period { .. } => (|shape| matches!(shape.lines(), LinesOf::Periods(_)), &[3, 5]),
            Line::Section(_) => (|shape| shape.lines() == LinesOf::Sections, &[8]),
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
            let new = old
                .raised(&Raise {
                    all: N,
                    tags,
                    floor_ms,
                    root: Some(RootKey([7; 32])),
                    ..Raise::default()
                })
                .unwrap();
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
