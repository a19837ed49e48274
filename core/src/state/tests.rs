//! Properties that hold for every run of commands. The golden scripts show what single commands do.

mod import;
mod lease_model;
mod model;
mod register_model;
mod registers;
pub(crate) mod shaped;
pub(crate) mod snowflake_floor;
mod step_bounds;
pub(crate) mod workers;

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{
    Action, Actor, Change, Command, Protection, Response, Stamp, State, TagFields, VISITED_MAX,
};
use crate::encoding::{
    decode_command, decode_response, digest, encode_command, encode_response, read_snapshot,
    write_snapshot,
};
use crate::limits::{ID_END, STEP_MAX};
use crate::snowflake::{Format, Layout};
use crate::tag::BizTag;

pub(crate) fn tag(name: &str) -> BizTag {
    BizTag::parse(name).unwrap()
}

pub(crate) fn create(name: &str, step: u32, start: u64) -> Command {
    Command::CreateTag { tag: tag(name), step, start, description: String::new() }
}

pub(crate) fn written(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(&state.freeze(), &mut bytes).unwrap();
    bytes
}

/// Runs the commands on one state, and on another one that a snapshot replaces on the way: both give the same responses
/// and end the same, and what the log carries of them decodes to what was given.
fn runs_alike_through_a_snapshot(
    fresh: fn() -> State,
    commands: &[(impl Into<Stamp> + Copy, Command)],
    cut: prop::sample::Index,
) -> Result<State, TestCaseError> {
    let cut = cut.index(commands.len() + 1);
    let (mut whole, mut resumed) = (fresh(), fresh());
    for (at, (stamp, command)) in commands.iter().enumerate() {
        if at == cut {
            resumed = read_snapshot(written(&resumed).as_slice()).unwrap();
        }
        let response = whole.apply(*stamp, command);
        prop_assert_eq!(&response, &resumed.apply(*stamp, command));
        prop_assert_eq!(&decode_command(&encode_command(command)).unwrap(), command);
        prop_assert_eq!(
            decode_response(&encode_response(&response, whole.level())).unwrap(),
            response
        );
    }
    prop_assert_eq!(written(&whole), written(&resumed));
    prop_assert_eq!(whole.len(), resumed.len());
    prop_assert_eq!(whole.workers(), resumed.workers());
    prop_assert_eq!(whole.reports(), resumed.reports());
    prop_assert_eq!(whole.snowflake_rules(), resumed.snowflake_rules());
    Ok(whole)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

pub(crate) fn two_tags_and_a_tombstone() -> State {
    let mut state = State::default();
    for (now_ms, name) in [(1000, "a"), (2000, "b"), (3000, "c")] {
        state.apply(now_ms, &create(name, 10, 1));
        state.apply(now_ms, &Command::Grab { tag: tag(name), size: 0 });
    }
    state.apply(4000, &Command::DeleteTag { tag: tag("b") });
    state
}

/// One worker id held, one released, and a report.
pub(crate) fn with_worker_ids() -> State {
    let mut state = two_tags_and_a_tombstone();
    let format = Format::new(Layout::LEAF, 0).unwrap();
    let acquire =
        |nonce| Command::AcquireWorker { node_id: 1, nonce, worker_id: None, window_ms: 60_000 };
    let release = Command::ReleaseWorker { worker_id: 1, nonce: 8, unused_from_ms: 5_000 };
    let report = Command::ReportClock { node_id: 1, clock_ms: 4_001 };
    for command in [Command::FixFormat { format }, acquire(7), acquire(8), release, report] {
        state.apply(4_000, &command);
    }
    state
}

/// Few names, so that commands meet; values in bounds and out of them, near both ends of the number line.
fn commands() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let tag = prop::sample::select(vec!["a", "b", "c"]).prop_map(tag);
    let step = prop_oneof![0..5u32, 1..200u32, Just(STEP_MAX)];
    let mark = prop_oneof![0..500u64, ID_END - 500..ID_END + 2];
    let text = prop_oneof![Just(String::new()), Just("about it".to_owned())];
    let rate = prop_oneof![Just(None), option::of(0..3u32)];
    let fields = (option::of(step.clone()), option::of(mark.clone()), option::of(text.clone()));
    let fields = (fields, option::of(rate.clone()), option::of(any::<bool>())).prop_map(
        |((step, max_id, description), rate_limit, frozen)| TagFields {
            step,
            max_id,
            description,
            rate_limit,
            frozen,
        },
    );
    let protection =
        (rate, any::<bool>()).prop_map(|(rate_limit, frozen)| Protection { rate_limit, frozen });
    let spec = (tag.clone(), step.clone(), mark.clone(), text.clone(), protection);
    let change = prop_oneof![
        spec.prop_map(|(tag, step, start, description, protection)| {
            Change::CreateTag { tag, step, start, description, protection }
        }),
        (tag.clone(), fields).prop_map(|(tag, fields)| Change::UpdateTag { tag, fields }),
        tag.clone().prop_map(|tag| Change::DeleteTag { tag }),
        (tag.clone(), step.clone(), mark.clone(), text.clone()).prop_map(
            |(tag, step, max_id, description)| {
                let import = "leaf.sql".into();
                Change::ImportTag { import, tag, step, max_id, description }
            }
        ),
    ];
    let by_ops = |change| Command::Administer { actor: Actor::parse("ops").unwrap(), change };
    let command = prop_oneof![
        2 => (tag.clone(), step.clone(), mark.clone(), text.clone()).prop_map(
            |(tag, step, start, description)| Command::CreateTag { tag, step, start, description }
        ),
        2 => (tag.clone(), option::of(step.clone()), option::of(mark), option::of(text)).prop_map(
            |(tag, step, max_id, description)| Command::UpdateTag { tag, step, max_id, description }
        ),
        1 => tag.clone().prop_map(|tag| Command::DeleteTag { tag }),
        5 => change.prop_map(by_ops),
        8 => (tag, prop_oneof![Just(0), step]).prop_map(|(tag, size)| Command::Grab { tag, size }),
    ];
    vec((0..1000u64, command), 0..80)
}

fn name_of(command: &Command) -> &str {
    match command {
        Command::CreateTag { tag, .. }
        | Command::UpdateTag { tag, .. }
        | Command::DeleteTag { tag }
        | Command::Grab { tag, .. } => tag.as_str(),
        Command::Administer { change, .. } => change.tag().expect("it is about a tag").as_str(),
        other => panic!("{other:?} is about no tag"),
    }
}

fn is_import(command: &Command) -> bool {
    matches!(command, Command::Administer { change: Change::ImportTag { .. }, .. })
}

proptest! {
    /// Apply is the only writer of a watermark, and only ever raises it.
    #[test]
    fn watermarks_never_fall_and_ranges_never_overlap(commands in commands()) {
        let mut state = State::default();
        let mut marks: BTreeMap<&str, u64> = BTreeMap::new();
        for (now_ms, command) in &commands {
            let mark = marks.entry(name_of(command)).or_insert(1);
            let before = state.tag(name_of(command));
            let response = state.apply(*now_ms, command);
            match (command, response) {
                (_, Response::Imported { before: mark_before, row }) => {
                    let Command::Administer { change: Change::ImportTag { max_id, .. }, .. } = command
                    else { panic!("{command:?}") };
                    prop_assert_eq!(mark_before, before.map(|row| row.max_id));
                    prop_assert!(row.max_id >= *max_id);
                    prop_assert!(row.max_id >= *mark);
                    *mark = row.max_id;
                    prop_assert_eq!(Some(row), state.tag(name_of(command)));
                }
                (_, Response::Tag(row)) => {
                    prop_assert!(row.max_id >= *mark);
                    *mark = row.max_id;
                    prop_assert_eq!(Some(row), state.tag(name_of(command)));
                }
                (Command::Grab { size, .. }, Response::Segment { start, end, step }) => {
                    prop_assert_eq!(start, *mark);
                    prop_assert!(start < end && end <= ID_END);
                    prop_assert_eq!(end, ID_END.min(start + u64::from(step.max(*size))));
                    prop_assert_eq!(state.tag(name_of(command)).unwrap().max_id, end);
                    *mark = end;
                }
                (Command::DeleteTag { .. } | Command::Administer { .. }, Response::Deleted) => {
                    prop_assert_eq!(state.tag(name_of(command)), None);
                }
                (_, rejection) => {
                    prop_assert_eq!(before, state.tag(name_of(command)), "{:?}", rejection);
                }
            }
        }
    }

    /// An admin change that changed something has its entry; nothing else has one.
    #[test]
    fn every_admin_change_is_recorded_once_and_nothing_else(commands in commands()) {
        let mut state = State::default();
        let mut recorded = 0;
        // Imports have a test of their own, because many of them have one entry.
        for (now_ms, command) in commands.iter().filter(|(_, command)| !is_import(command)) {
            let before = state.tag(name_of(command));
            let response = state.apply(*now_ms, command);
            let after = state.tag(name_of(command));
            let page = state.audit_page(recorded, 10, |_| true);
            let changed = |change: &Change| {
                let done = matches!(response, Response::Tag(_) | Response::Deleted);
                done && change.facts(before.as_ref()) != change.facts(after.as_ref())
            };
            if let Command::Administer { actor, change } = command
                && changed(change)
            {
                recorded += 1;
                prop_assert_eq!(page.entries.len(), 1);
                let entry = &page.entries[0];
                prop_assert_eq!(entry.index, recorded);
                prop_assert_eq!((&entry.actor, entry.time_ms), (actor, state.clock_ms()));
                prop_assert_eq!(&*entry.target, name_of(command));
                prop_assert_eq!(&entry.before, &change.facts(before.as_ref()));
                prop_assert_eq!(&entry.after, &change.facts(after.as_ref()));
            } else {
                prop_assert_eq!(page.entries.len(), 0);
            }
        }
    }

    /// Nothing of a frozen tag is reserved, and a tombstone is not frozen.
    #[test]
    fn a_frozen_tag_gives_no_segment(commands in commands()) {
        let mut state = State::default();
        for (now_ms, command) in &commands {
            let frozen = state.protection(name_of(command)).is_some_and(|tag| tag.frozen);
            let response = state.apply(*now_ms, command);
            if matches!(command, Command::Grab { .. }) {
                let is_segment = matches!(response, Response::Segment { .. });
                prop_assert!(!(frozen && is_segment));
                let frozen_now = state.protection(name_of(command)).is_some_and(|tag| tag.frozen);
                prop_assert_eq!(response == Response::Frozen, frozen_now && command.check().is_ok());
            }
        }
    }

    #[test]
    fn a_snapshot_on_the_way_changes_nothing(
        commands in commands(),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = runs_alike_through_a_snapshot(State::default, &commands, cut)?;
        prop_assert_eq!(whole.len(), whole.tags_after(None, usize::MAX).len());
    }
}

#[test]
fn the_level_only_rises_and_says_which_version_it_needs() {
    let mut state = State::default();
    assert_eq!((state.level(), state.version_needed()), (1, "0.2.0"));
    for (to, level, version) in [(3, 3, "0.3.0"), (2, 3, "0.3.0"), (4, 4, "0.4.0")] {
        let raise = Command::RaiseLevel { to, version: format!("0.{to}.0") };
        assert_eq!(state.apply(0, &raise), Response::Noted);
        assert_eq!((state.level(), state.version_needed()), (level, version));
    }
}

#[test]
fn a_frozen_state_stands_still_while_the_state_goes_on() {
    let mut state = State::default();
    for number in 0..3000 {
        state.apply(0, &create(&format!("tag-{number:04}"), 10, 1));
    }
    let before = written(&state);
    let frozen = state.freeze();
    for number in 0..3000 {
        state.apply(1, &Command::Grab { tag: tag(&format!("tag-{number:04}")), size: 0 });
        state.apply(1, &create(&format!("tag-{number:04}-more"), 10, 1));
    }
    let mut after = Vec::new();
    write_snapshot(&frozen, &mut after).unwrap();
    assert!(before == after, "the frozen state changed");
    assert_ne!(digest(&frozen), digest(&state.freeze()));
    assert_eq!(read_snapshot(after.as_slice()).unwrap().len(), 3000);
}

#[test]
fn equal_states_have_equal_snapshots_whatever_order_they_came_in() {
    let mut ascending = State::default();
    let mut descending = State::default();
    for number in 0..2000 {
        ascending.apply(0, &create(&format!("{number:04}"), 10, 1));
        descending.apply(0, &create(&format!("{:04}", 1999 - number), 10, 1));
    }
    assert!(written(&ascending) == written(&descending), "equal states, other bytes");
}

#[test]
fn a_name_is_counted_once_and_for_ever() {
    let mut state = two_tags_and_a_tombstone();
    let counted = |state: &State| (state.names(), state.len(), state.knows("b"));
    assert_eq!(counted(&state), (3, 2, true));
    state.apply(5000, &create("b", 10, 1));
    assert_eq!(counted(&state), (3, 3, true));
    assert!(!state.knows("d"));
    let restored = read_snapshot(written(&two_tags_and_a_tombstone()).as_slice()).unwrap();
    assert_eq!(counted(&restored), (3, 2, true));
}

#[test]
fn an_audit_page_ends_where_it_is_full_and_says_where_the_next_begins() {
    let mut state = State::default();
    for level in 1..=5 {
        let change = Change::RaiseLevel { from: level, to: level + 1 };
        state.apply(u64::from(level), &Command::Administer { actor: Actor::default(), change });
    }
    let page = |after, limit, room: usize| {
        let mut seen = 0;
        let page = state.audit_page(after, limit, |_| {
            seen += 1;
            seen <= room
        });
        (page.entries.iter().map(|entry| entry.index).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(page(0, 2, 9), (vec![1, 2], Some(2)));
    assert_eq!(page(2, 9, 2), (vec![3, 4], Some(4)));
    assert_eq!(page(4, 9, 9), (vec![5], None));
    assert_eq!(page(3, 2, 9), (vec![4, 5], None));
    assert_eq!(page(0, 9, 0), (vec![1], Some(1)), "a page has an entry, however long that is");
    assert_eq!(page(77, 9, 9), (vec![], None));
    let raised = state.audit_page(0, 1, |_| true).entries.remove(0);
    assert_eq!(
        (raised.action, &*raised.target, raised.time_ms),
        (Action::RaiseLevel, "cluster", 1)
    );
}

#[test]
fn a_deleted_tag_loses_its_protection() {
    let mut state = State::default();
    let protection = Protection { rate_limit: Some(7), frozen: true };
    let (step, start, description) = (1, 1, String::new());
    let created = Change::CreateTag { tag: tag("a"), step, start, description, protection };
    let by_ops = |change| Command::Administer { actor: Actor::default(), change };
    state.apply(0, &by_ops(created));
    assert_eq!(state.protection("a"), Some(protection));
    assert_eq!(state.apply(0, &Command::Grab { tag: tag("a"), size: 0 }), Response::Frozen);
    state.apply(0, &by_ops(Change::DeleteTag { tag: tag("a") }));
    assert_eq!(state.protection("a"), None);
    state.apply(0, &create("a", 1, 1));
    assert_eq!(state.protection("a"), Some(Protection::default()));
}

#[test]
fn pages_follow_each_other_over_tombstones_without_looking_at_too_many() {
    let mut state = State::default();
    let name = |number: usize| format!("t{number:06}");
    let numbers = 0..2 * VISITED_MAX;
    for number in numbers.clone() {
        state.apply(0, &create(&name(number), 10, 1));
    }
    let is_left = |number: &usize| *number < 3 || *number == 2 * VISITED_MAX - 1;
    for number in numbers.clone().filter(|number| !is_left(number)) {
        state.apply(0, &Command::DeleteTag { tag: tag(&name(number)) });
    }
    let (mut after, mut sizes, mut rows) = (None, Vec::new(), Vec::new());
    loop {
        let page = state.tags_page("t", after.as_deref(), 2, |_| true);
        sizes.push(page.rows.len());
        rows.extend(page.rows.iter().map(|row| row.tag.to_string()));
        match page.next {
            Some(next) => after = Some(next.to_string()),
            None => break,
        }
    }
    assert_eq!(sizes, [2, 1, 1]);
    assert!(rows.into_iter().eq(numbers.filter(is_left).map(name)));
    let one = state.tags_page("", None, 10, |row| row.tag.as_str() != "t000001");
    assert_eq!((one.rows.len(), one.next), (1, Some(tag("t000000"))));
}
