//! Where tags of a copy would go on.

use std::collections::BTreeMap;

use mintleaf::state::{Actor, Change, Command, Protection, State};
use mintleaf::tag::BizTag;

/// The next id of each tag in a state, as it would be if the tag were made there now where it is not.
pub(crate) fn next_ids<'a>(
    state: &State,
    tags: impl Iterator<Item = &'a String>,
) -> BTreeMap<&'a String, u64> {
    let mut probe = state.clone();
    tags.map(|name| (name, next_id(&mut probe, name))).collect()
}

fn next_id(probe: &mut State, name: &str) -> u64 {
    if let Some(row) = probe.tag(name) {
        return row.max_id;
    }
    let (tag, description) = (BizTag::parse(name).expect("a name"), String::new());
    let (step, start, protection) = (1, 1, Protection::default());
    // A tombstone is made again with its own shape only.
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
    probe.tag(name).expect("it was made").max_id
}
