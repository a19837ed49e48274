//! The next id of each line of a state.

use std::collections::BTreeMap;
use std::sync::Arc;

use mintleaf_core::limits::ID_END;
use mintleaf_core::shape::{Leadership, Line, Shape};
use mintleaf_core::state::{Actor, Change, Command, Protection, Response, Stamp, State};
use mintleaf_core::tag::BizTag;

use crate::oracle::{Key, Name, Number, Part};

/// The next id of each line in a state. If its tag does not exist there, this is the id that the line would
/// begin with if the tag were made now. For a period that is refused for good, it lies above all ids.
pub(crate) fn next_ids<'a>(
    state: &State,
    lines: impl Iterator<Item = &'a Name>,
) -> BTreeMap<&'a Name, u64> {
    let mut probe = state.clone();
    lines.map(|line| (line, next_id(&mut probe, line))).collect()
}

/// The numbers that keys of registers have in a state, of deleted registers too.
pub(crate) fn registered_in<'a>(
    state: &State,
    keys: impl Iterator<Item = &'a Key>,
) -> BTreeMap<Key, Number> {
    let mut probe = state.clone();
    let number = |of: &'a Key| {
        let (tag, key) = of;
        if probe.tag(tag).is_none() {
            create(&mut probe, tag);
        }
        let found = probe.registered(tag, key)?;
        Some((of.clone(), (found.period, found.number)))
    };
    keys.filter_map(number).collect()
}

fn next_id(probe: &mut State, (name, part): &Name) -> u64 {
    if probe.tag(name).is_none() {
        create(probe, name);
    }
    let row = probe.tag(name).expect("it was made");
    match *part {
        // No tag of this name ever existed, so it has no line. Each line begins where a plain tag would.
        _ if row.shape.is_none() => row.max_id,
        Part::Whole => row.max_id,
        Part::Period { number, start_ms, end_ms, age: _ } => {
            let line = Line::Period { number, start_ms, end_ms };
            grabbed(probe, name, row.shape.as_ref(), line, start_ms)
        }
        Part::Section(section) => probe.section_end(name, section).expect("a sequence"),
        Part::Key(_) => unreachable!("a key has no line of its own"),
    }
}

/// The first id that a grab for a period gives if it is made within that period.
fn grabbed(
    probe: &mut State,
    name: &str,
    shape: Option<&Arc<Shape>>,
    line: Line,
    now_ms: u64,
) -> u64 {
    if probe.protection(name).is_some_and(|protection| protection.frozen) {
        let delete = Change::DeleteTag { tag: tag(name) };
        probe.apply(0, &Command::Administer { actor: Actor::default(), change: delete });
        create(probe, name);
    }
    let (term, leader_id) = (1, 1);
    let by = Leadership { node_id: leader_id, nonce: 0, term };
    let by = shape.is_some_and(|shape| shape.giver().is_leader()).then_some(by);
    let grab = match shape.is_some_and(|shape| shape.giver().records_keys()) {
        // A key that has no number yet.
        true => {
            let key = format!("the {now_ms}").into();
            Command::Register { tag: tag(name), key, line, keys_max: u64::MAX }
        }
        false => Command::GrabLine { tag: tag(name), size: 1, line, by },
    };
    match probe.apply(Stamp { now_ms, term, leader_id }, &grab) {
        Response::Segment { start, .. } | Response::Registered { number: start, .. } => start,
        Response::PeriodOver { .. } => u64::MAX,
        Response::Exhausted => ID_END,
        other => panic!("{name}: a grab of {line:?} is answered with {other:?}"),
    }
}

/// Makes a tag. A tombstone's tag can be made again only with its former shape.
fn create(probe: &mut State, name: &str) {
    let (tag, description) = (tag(name), String::new());
    let (step, start, protection) = (1, 1, Protection::default());
    let create = match probe.shape(name) {
        None => Command::CreateTag { tag, step, start, description },
        Some(shape) => {
            let shape = Box::new((**shape).clone());
            let change =
                Change::CreateShapedTag { tag, step, start, description, protection, shape };
            Command::Administer { actor: Actor::default(), change }
        }
    };
    probe.apply(0, &create);
}

fn tag(name: &str) -> BizTag {
    BizTag::parse(name).expect("a name")
}
