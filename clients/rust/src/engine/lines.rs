//! The lines of tags, by name.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use papaya::HashMap;

use super::slot::Slot;

/// Cells in the array that gives fast access to lines; a power of two.
const CELLS: usize = 256;

/// The lines of tags, by name. A line is never removed.
///
/// The first line whose tag hashes to a cell is found there, without the guard that the map needs. A cell that
/// is taken never changes, so no two tags write to it in turn.
pub(super) struct Lines {
    all: HashMap<String, Arc<Slot>, RandomState>,
    near: [OnceLock<Arc<Slot>>; CELLS],
    hasher: RandomState,
}

impl Lines {
    pub(super) fn new() -> Self {
        let all = HashMap::with_hasher(RandomState::default());
        Self { all, near: [const { OnceLock::new() }; CELLS], hasher: RandomState::default() }
    }

    /// Applies `of` to a tag's line, if there is one.
    #[inline]
    pub(super) fn with<T>(&self, tag: &str, of: impl FnOnce(&Arc<Slot>) -> T) -> Option<T> {
        match self.near(tag).get() {
            Some(slot) if slot.is_of(tag) => Some(of(slot)),
            _ => self.all.pin().get(tag).map(of),
        }
    }

    /// Adds the line of a tag that has none yet.
    pub(super) fn insert(&self, tag: &str, slot: &Arc<Slot>) {
        self.all.pin().insert(tag.to_owned(), Arc::clone(slot));
        self.near(tag).get_or_init(|| Arc::clone(slot));
    }

    /// Calls `of` for every line.
    pub(super) fn for_each(&self, of: impl FnMut(&Arc<Slot>)) {
        self.all.pin().values().for_each(of);
    }

    #[inline]
    fn near(&self, tag: &str) -> &OnceLock<Arc<Slot>> {
        &self.near[self.hasher.hash_one(tag) as usize % CELLS]
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("len", &self.all.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn every_line_is_found_whether_its_cell_was_free_or_not() {
        let lines = Lines::new();
        let tags: Vec<String> = (0..10 * CELLS).map(|tag| format!("tag-{tag}")).collect();
        for tag in &tags {
            assert!(lines.with(tag, |_| ()).is_none(), "{tag}");
            lines.insert(tag, &Arc::new(Slot::new(Some(tag.clone()), Settings::default().tags())));
        }
        for tag in &tags {
            assert_eq!(lines.with(tag, |slot| slot.is_of(tag)), Some(true), "{tag}");
        }
        let mut seen = 0;
        lines.for_each(|_| seen += 1);
        assert_eq!(seen, tags.len());
    }
}
