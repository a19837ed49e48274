//! The bound of what a grab reserves: it holds for every grab, and wherever the state goes.

use proptest::option;
use proptest::prelude::*;

use super::shaped::{all_shapes, shapes};
use super::{create, hex, tag, two_tags_and_a_tombstone, written};
use crate::encoding::read_snapshot;
use crate::limits::STEP_MAX;
use crate::shape::{Leadership, Line, LinesOf, Shape};
use crate::state::level::level_of;
use crate::state::{
    Actor, Change, Command, Fact, Field, Protection, Raise, Response, Stamp, State, TagFields,
};
use crate::steps::Steps;
use crate::tag::OutOfBounds;

/// Some time in November 2026.
const NOW_MS: u64 = 1_795_500_000_000;

fn level_three() -> State {
    let mut state = State::default();
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    state
}

fn administer(change: Change) -> Command {
    Command::Administer { actor: Actor::default(), change }
}

fn create_bounded(name: &str, step: u32, step_max: u32, shape: &Shape) -> Command {
    administer(Change::CreateBoundedTag {
        tag: tag(name),
        step,
        step_max,
        start: 1,
        description: String::new(),
        protection: Protection::default(),
        shape: Box::new(shape.clone()),
    })
}

fn update(step: Option<u32>, step_max: Option<Option<u32>>) -> Command {
    let fields = TagFields { step, ..TagFields::default() };
    administer(match step_max {
        None => Change::UpdateTag { tag: tag("a"), fields },
        Some(step_max) => Change::UpdateBoundedTag { tag: tag("a"), fields, step_max },
    })
}

fn grab(state: &mut State, name: &str, size: u32) -> u64 {
    let (ids, _) = state.apply(0, &Command::Grab { tag: tag(name), size }).segment().expect("ids");
    ids.end - ids.start
}

fn bounds(state: &State, name: &str) -> Option<(u32, Option<u32>)> {
    state.tag(name).map(|row| (row.step, row.step_max))
}

proptest! {
    /// Whatever was asked for, a grab reserves no more than the bound at that moment.
    #[test]
    fn no_grab_exceeds_the_bound_and_a_copy_reserves_the_same(
        changes in proptest::collection::vec(
            (option::of(1..20u32), option::of(option::of(1..20u32)), 0..100u32),
            0..20,
        ),
    ) {
        let mut state = level_three();
        state.apply(0, &create_bounded("a", 1, 7, &Shape::default()));
        for (step, step_max, size) in changes {
            let before = bounds(&state, "a");
            let response = state.apply(0, &update(step, step_max));
            let (step, step_max) = bounds(&state, "a").unwrap();
            let steps = Steps { step, step_max };
            prop_assert!(steps.is_sound());
            let is_refused = matches!(response, Response::Invalid { what: OutOfBounds::StepMax });
            prop_assert!(response.row().is_some() || is_refused && before == bounds(&state, "a"));
            let mut copy = read_snapshot(&written(&state)[..]).unwrap();
            prop_assert_eq!(copy.tag("a"), state.tag("a"));
            let reserved = grab(&mut state, "a", size);
            prop_assert_eq!(reserved, u64::from(size.max(step).min(step_max.unwrap_or(STEP_MAX))));
            prop_assert_eq!(grab(&mut copy, "a", size), reserved);
            prop_assert_eq!(written(&copy), written(&state));
        }
    }
}

#[test]
fn the_bound_holds_on_every_kind_of_line() {
    for shape in shapes() {
        let mut state = level_three();
        state.apply(0, &Command::DrawRoot { root: crate::shape::RootKey([1; 32]) });
        let made = state.apply(0, &create_bounded("a", 1, 3, &shape));
        let row = made.into_tag().expect("it is made");
        let plain = shape.is_plain();
        assert_eq!((row.step_max, row.shape.is_none()), (Some(3), plain));
        let line = match shape.lines() {
            LinesOf::Whole => Line::Whole,
            LinesOf::Sections => Line::Section(5),
            LinesOf::Periods(period) => {
                let calendar = crate::shape::Calendar::of(period).unwrap();
                calendar.period_at(NOW_MS).unwrap().line()
            }
        };
        let (term, leader_id) = (1, 1);
        let by = Leadership { node_id: leader_id, nonce: 1, term };
        let by = shape.giver().is_leader().then_some(by);
        let (tag, size) = (tag("a"), 1_000);
        let grab = match plain {
            true => Command::Grab { tag, size },
            false => Command::GrabLine { tag, size, line, by },
        };
        let response = state.apply(Stamp { now_ms: NOW_MS, term, leader_id }, &grab);
        let steps = Steps { step: 1, step_max: Some(3) };
        assert_eq!(response.segment(), Some((1..4, steps)), "{shape:?}");
    }
}

#[test]
fn a_deleted_tag_leaves_no_bound_behind() {
    let mut state = level_three();
    state.apply(0, &create_bounded("a", 1, 7, &Shape::default()));
    state.apply(0, &administer(Change::DeleteTag { tag: tag("a") }));
    let mut never = level_three();
    never.apply(0, &create("a", 1, 1));
    never.apply(0, &administer(Change::DeleteTag { tag: tag("a") }));
    assert_eq!((state.step_max("a"), state.names()), (None, never.names()));
    state.apply(0, &create("a", 1, 1));
    assert_eq!((bounds(&state, "a"), grab(&mut state, "a", 50)), (Some((1, None)), 50));
}

#[test]
fn a_restored_cluster_keeps_the_bounds() {
    let mut state = two_tags_and_a_tombstone();
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    state.apply(0, &update(Some(2), Some(Some(4))));
    let raised = state.raised(&Raise { all: 1_000, ..Raise::default() }).unwrap();
    let mut restored = read_snapshot(&written(&raised)[..]).unwrap();
    assert_eq!(
        (bounds(&restored, "a"), bounds(&restored, "c")),
        (Some((2, Some(4))), Some((10, None)))
    );
    assert_eq!((grab(&mut restored, "a", 100), grab(&mut restored, "c", 100)), (4, 100));
}

#[test]
fn a_bound_is_at_least_the_step_and_belongs_to_the_third_level() {
    for (step, step_max, fits) in
        [(5, 5, true), (5, 4, false), (1, 0, false), (1, STEP_MAX + 1, false)]
    {
        let command = create_bounded("a", step, step_max, &Shape::default());
        assert_eq!((command.check().is_ok(), command.level()), (fits, 3), "{step} {step_max}");
        let response = level_three().apply(0, &command);
        assert_eq!(response.row().is_some(), fits);
        assert_eq!(update(Some(step), Some(Some(step_max))).check().is_ok(), fits);
    }
    assert_eq!((update(Some(5), None).level(), update(None, Some(None)).level()), (1, 3));
    // What older builds read is what it was.
    let mut state = level_three();
    state.apply(0, &create_bounded("a", 1, 7, &Shape::default()));
    state.apply(0, &update(None, Some(None)));
    assert!(matches!(state.apply(0, &update(Some(9), None)), Response::Tag(row) if row.step == 9));
}

/// A bound hides no shape from the level: an older member could not read the creation, nor the answer to it.
#[test]
fn a_bounded_tag_belongs_to_the_level_of_its_shape_at_least() {
    for shape in all_shapes() {
        let level = level_of(&shape).max(3);
        assert_eq!(create_bounded("a", 1, 7, &shape).level(), level, "{shape:?}");
        let mut state = level_three();
        state.apply(0, &Command::DrawRoot { root: crate::shape::RootKey([1; 32]) });
        let made = state.apply(0, &create_bounded("a", 1, 7, &shape));
        assert!(matches!(made, Response::BoundedTag { .. }), "{made:?}");
        assert_eq!(made.level(), level, "{shape:?}");
    }
}

#[test]
fn the_audit_says_what_bound_was_set_and_taken_away() {
    let mut state = level_three();
    state.apply(0, &create_bounded("a", 1, 7, &Shape::default()));
    state.apply(0, &update(None, Some(None)));
    let entries = state.audit_page(0, 9, |_| true).entries;
    let of = |facts: &[(Field, Fact)]| {
        facts.iter().find(|(field, _)| *field == Field::StepMax).map(|(_, fact)| fact.clone())
    };
    assert_eq!(of(&entries[0].after), Some(Fact::Number(7)));
    assert_eq!(
        (of(&entries[1].before), of(&entries[1].after)),
        (Some(Fact::Number(7)), Some(Fact::Nothing))
    );
}

#[test]
fn snapshots_with_a_bound_out_of_place_are_refused() {
    let mut state = level_three();
    state.apply(0, &create_bounded("a", 1, 7, &Shape::default()));
    let whole = written(&state);
    assert!(read_snapshot(&whole[..]).is_ok());
    assert!(hex(&whole).contains("0a00000001105d92e40c01016107"), "{}", hex(&whole));
    // The level stands second; without it, nothing of the third level may follow.
    let length = |at: usize| 4 + u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
    let header = length(0);
    let without = [&whole[..header], &whole[header + length(header)..]].concat();
    assert!(read_snapshot(&without[..]).is_err());
}
