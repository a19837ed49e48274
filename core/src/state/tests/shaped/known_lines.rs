//! What a cluster that was made from a copy gives of lines whose last number an operator knows.

use super::*;
use crate::state::{LastNumbers, LineMark, LineName, RaiseError};

fn name_of(line: Line) -> LineName {
    match line {
        Line::Whole => LineName::Whole,
        Line::Period { number, .. } => LineName::Period(number),
        Line::Section(section) => LineName::Section(section),
    }
}

fn lasts(lines: &[(&str, LineName, u64)]) -> BTreeMap<crate::tag::BizTag, LastNumbers> {
    let mut all: BTreeMap<_, LastNumbers> = BTreeMap::new();
    for &(name, line, last) in lines {
        all.entry(tag(name)).or_default().insert(line, last);
    }
    all
}

fn raised(state: &State, all: u64, lines: &[(&str, LineName, u64)]) -> Result<State, RaiseError> {
    state.clone().raised(&Raise { all, lasts: lasts(lines), ..Raise::default() })
}

fn marks(state: &State, name: &str) -> Vec<(LineName, u64)> {
    let of_tag = state.line_marks().filter(|it| it.tag.as_str() == name);
    of_tag.map(|LineMark { line, mark, .. }| (line, mark)).collect()
}

proptest! {
    /// A cluster goes on after its copy was taken. A cluster made of the copy, with the true last number of each line
    /// that gave any since and no other advance, repeats none and wastes none: each such line goes on with the next.
    #[test]
    fn lines_whose_last_numbers_are_known_go_on_with_the_next(
        before in vec((0..15_usize, 0..4_u32, 1..9_u32), 0..30),
        since in vec((0..15_usize, 0..4_u32, 1..9_u32), 1..40),
    ) {
        let shapes = shapes();
        let play = |state: &mut State, steps: &[(usize, u32, u32)]| {
            let mut given = Vec::new();
            for &(shape, at, size) in steps {
                let (name, shape) = (format!("t{shape}"), &shapes[shape]);
                let (stamp, command) = grab(&name, shape, at, size);
                if let Response::Segment { start, end, .. } = state.apply(stamp, &command) {
                    given.push((name, name_of(line_of(shape, at)), start, end));
                }
            }
            given
        };
        let mut old = fresh();
        for (at, shape) in shapes.iter().enumerate() {
            old.apply(FIRST_MS, &create_shaped(&format!("t{at}"), shape));
        }
        play(&mut old, &before);
        let copy = old.clone();
        let mut last = BTreeMap::new();
        for (name, line, _, end) in play(&mut old, &since) {
            last.insert((name, line), end - 1);
        }
        let known: Vec<_> =
            last.iter().map(|((name, line), last)| (name.as_str(), *line, *last)).collect();
        let mut new = raised(&copy, 0, &known).unwrap();
        for ((name, line), last) in &last {
            let mark = marks(&new, name).into_iter().find(|(at, _)| at == line).map(|(_, mark)| mark);
            prop_assert_eq!(mark, Some(last + 1), "{} {}", name, line);
        }
        for (name, line, start, _) in play(&mut new, &since) {
            if let Some(last) = last.get(&(name.clone(), line)) {
                prop_assert!(start > *last, "{name} {line}: {start} after {last}");
            }
        }
    }
}

#[test]
fn lines_that_the_list_lacks_rise_by_the_number_for_all() {
    let copy = with_shapes();
    let days = [1, 2, 3].map(|day| LineName::Period(PeriodNumber(20_270_100 + day)));
    let before = marks(&copy, "a");
    assert_eq!(before, [(days[0], 10), (days[1], 301)]);
    let [one, two] = [LineName::Section(0), LineName::Section(1)];
    let sections = marks(&copy, "c");
    assert_eq!(sections, [(one, 10), (two, 301)]);
    let known =
        [("a", days[1], 400), ("a", days[2], 7), ("c", one, 9), ("b", LineName::Whole, 900)];
    let new = raised(&copy, 1_000, &known).unwrap();
    assert_eq!(marks(&new, "a"), [(days[0], 1_010), (days[1], 401), (days[2], 8)]);
    assert_eq!(marks(&new, "c"), [(one, 10), (two, 1_301)]);
    assert_eq!(marks(&new, "b"), [(LineName::Whole, 901)]);
    // A tag that is deleted has a line too.
    assert_eq!(marks(&new, "d")[0].1, marks(&copy, "d")[0].1 + 1_000);
}

#[test]
fn what_would_lower_a_mark_or_names_no_line_is_refused() {
    let copy = with_shapes();
    let (whole, day) = (LineName::Whole, LineName::Period(PeriodNumber(20_270_101)));
    let mark = marks(&copy, "b")[0].1;
    assert!(raised(&copy, 0, &[("b", whole, mark - 1)]).is_ok());
    let lower = RaiseError::Lower { tag: tag("b"), line: whole, mark, last: mark - 2 };
    assert_eq!(raised(&copy, 9, &[("b", whole, mark - 2)]).unwrap_err(), lower);
    assert!(raised(&copy, 9, &[("a", day, 8)]).is_err());
    assert_eq!(raised(&copy, 9, &[("e", whole, 8)]).unwrap_err(), RaiseError::UnknownTag(tag("e")));
    for (name, line) in [
        ("a", whole),
        ("b", day),
        ("c", whole),
        ("b", LineName::Section(1)),
        ("c", LineName::Section(SECTIONS)),
        ("a", LineName::Period(PeriodNumber(2027))),
    ] {
        let refused = raised(&copy, 0, &[(name, line, 1 << 40)]).unwrap_err();
        assert_eq!(refused, RaiseError::NoSuchLine { tag: tag(name), line });
    }
    // A tag of 12 digits has nine tenths of 10^12 numbers.
    for (name, last, is_past) in [
        ("d", 900_000_000_000, false),
        ("d", 900_000_000_001, true),
        ("b", ID_END - 1, false),
        ("b", ID_END, true),
        ("b", u64::MAX, true),
    ] {
        let refused = raised(&copy, 0, &[(name, whole, last)]).err();
        let is_so = matches!(refused, Some(RaiseError::PastTheEnd { .. }));
        assert_eq!(is_so, is_past, "{name} {last}: {refused:?}");
    }
}

#[test]
fn periods_that_are_over_for_good_stay_so_and_the_latest_are_kept() {
    let (mut copy, shape) = daily(Order::Trend);
    for at in 0..PERIODS_KEPT as u32 + 2 {
        granted(&mut copy, grab("a", &shape, at, 5));
    }
    let day = |day: u32| LineName::Period(PeriodNumber(20_270_100 + day));
    let before = marks(&copy, "a");
    assert_eq!((before.len(), before[0].0), (PERIODS_KEPT, day(3)));
    let new = raised(&copy, 0, &[("a", day(1), 90), ("a", day(19), 70)]).unwrap();
    let after = marks(&new, "a");
    assert_eq!(after.len(), PERIODS_KEPT);
    assert_eq!((after[0].0, after[PERIODS_KEPT - 1]), (day(4), (day(19), 71)));
    let read = read_snapshot(&written(&new)[..]).unwrap();
    assert_eq!(written(&read), written(&new), "it is a state that can be written and read");
}
