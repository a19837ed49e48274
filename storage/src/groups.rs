//! The groups that were found in the tail, by number.

use crate::error::StorageError;
use crate::planted;
use crate::state::{GROUP_FORMAT, Group, State};
use crate::tail::Found;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Every group that the tail holds, once. There is at least one.
pub(crate) struct Groups {
    by_number: BTreeMap<u64, Group>,
    /// Groups of which it is not sure that all of their values were found: see [`shells`].
    shells: BTreeSet<u64>,
    newest: Group,
}

impl Groups {
    /// # Errors
    /// When none was found, or two with one number are not one.
    pub(crate) fn new(found: Vec<Found>) -> Result<Self, StorageError> {
        let shells = shells(&found);
        let mut by_number: BTreeMap<u64, Group> = BTreeMap::new();
        for Found { group, format, .. } in found {
            match by_number.entry(group.state.group) {
                Entry::Vacant(entry) => drop(entry.insert(group)),
                Entry::Occupied(mut entry) => {
                    let has = entry.get();
                    let same =
                        if format == GROUP_FORMAT { *has == group } else { has.ends_as(&group) };
                    if !same {
                        let number = entry.key();
                        let what = format!("two groups of the log's tail have the number {number}");
                        return Err(StorageError::damaged(what));
                    }
                    if has.is_empty() {
                        entry.insert(group);
                    }
                }
            }
        }
        let newest = by_number.last_key_value().map(|(_, newest)| newest.clone());
        let newest = newest.ok_or_else(|| StorageError::damaged("the log's tail is damaged"))?;
        Ok(Self { by_number, shells, newest })
    }

    /// The groups that lead from a state to the one acknowledged last, in order; `None` when they do not.
    pub(crate) fn since(&self, state: &State) -> Option<Vec<&Group>> {
        let last = self.newest.state.group;
        if state.group >= last {
            let newest = &self.newest.state;
            let values = newest.meta.iter().all(|(key, value)| state.meta.get(key) == Some(value));
            let same = values && state.without_values() == newest.without_values();
            return same.then(Vec::new);
        }
        let numbers = state.group + 1..=last;
        let groups: Vec<&Group> =
            self.by_number.range(numbers.clone()).map(|(_, group)| group).collect();
        let is_there = |number| !self.shells.contains(&number) || planted("shell-counts");
        let all = groups.iter().map(|group| group.state.group).eq(numbers.clone());
        (all && { numbers }.all(is_there)).then_some(groups)
    }
}

/// Groups that an opening by release 0.1 may have written once more, without their values, and of which
/// nothing else is left.
///
/// It did so at the head of the segment that did not hold the group. A truncation or a purge without
/// values looks the same there, and follows then upon the last group of the other segment, unless that
/// has been written over since, before which the checkpoint had it.
fn shells(found: &[Found]) -> BTreeSet<u64> {
    let may_be =
        |group: &&Found| group.is_head && group.format < GROUP_FORMAT && group.group.is_empty();
    let mut shells: BTreeSet<u64> = BTreeSet::new();
    for shell in found.iter().filter(may_be) {
        let number = shell.group.state.group;
        let elsewhere = found.iter().filter(|other| other.segment != shell.segment);
        let before = elsewhere.map(|other| other.group.state.group).max();
        if number > 0 && before != Some(number - 1) {
            shells.insert(number);
        }
    }
    for group in found.iter().filter(|group| !may_be(group)) {
        shells.remove(&group.group.state.group);
    }
    shells
}
