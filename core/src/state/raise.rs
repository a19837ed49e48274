//! How a state is raised for a new cluster that is made of a copy of it.
//!
//! The original cluster may have handed out more ids since the copy was made: of lines that the copy has, and of lines
//! that came later. An operator says how many at most. So every line of the copy rises by that amount, and the state
//! keeps the amount, because each line that it does not know begins higher by that much. Where the operator knows the last
//! number of a line, that line goes on behind it instead. Marks only rise here, by the same code as everywhere.
//!
//! No field may be left out: each type on the way is taken apart by name, so that a new field does not compile before
//! its author has decided how it rises.

use std::collections::BTreeMap;

use super::apply::State;
use super::level::{LEVEL_MAX, first_version_of};
use super::line_names::{LastNumbers, LineName, RaiseError};
use super::shared_table::Named;
use crate::shape::RootKey;
use crate::tag::BizTag;

/// How far a state rises.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Raise {
    /// How many ids every line rises by, including lines that begin later.
    pub all: u64,
    /// Tags that rise by more, deleted ones among them.
    pub tags: BTreeMap<BizTag, u64>,
    /// Lines whose last number is known. They rise to behind it, whatever the amounts say.
    pub lasts: BTreeMap<BizTag, LastNumbers>,
    /// The first millisecond that windows of snowflakes may have, in Unix time.
    pub floor_ms: u64,
    /// Every lease of a pool in the old cluster began before this time or before `floor_ms`, in Unix time. Programs lease
    /// worker ids when the cluster itself has given no snowflake id for long, so `floor_ms` alone may be too early.
    pub leased_before_ms: u64,
    /// A root key for the new cluster, should the copy have none.
    pub root: Option<RootKey>,
}

impl State {
    /// The state raised, so that it gives nothing that was given by a cluster that had this state and has given less
    /// than `by` since. A line with fewer ids left than it rises by ends, and is exhausted.
    ///
    /// # Errors
    /// [`RaiseError`], when a tag or a line is named that the state does not have, or a number that it cannot rise to.
    pub fn raised(mut self, by: &Raise) -> Result<Self, RaiseError> {
        self.check_raise(by)?;
        let Raise { all, tags, lasts, floor_ms, leased_before_ms, root: drawn } = by;
        let Self {
            // Time as the log knows it. It decides nothing that must be unique.
            clock_ms: _,
            entries,
            shaped,
            // What a grab reserves at most; no line.
            step_bounds: _,
            // How many tags exist.
            tags: _,
            workers,
            pools,
            // Which key has which number. Numbers given since lie behind the marks, which rise.
            registers: _,
            level,
            audit: _,
            advance,
            periods_before,
            root,
        } = &mut self;
        let by = |tag: &str| tags.get(tag).copied().unwrap_or(0).max(*all);
        let none = LastNumbers::new();
        let lasts = |tag: &str| lasts.get(tag).unwrap_or(&none);
        entries.change_all(|tag, entry| {
            let last = lasts(tag).get(&LineName::Whole).copied();
            entry.rise(by(tag), last);
        });
        shaped.for_each_mut(|shaped| shaped.rise(by(shaped.name()), lasts(shaped.name())));
        workers.rise(*floor_ms);
        pools.rise(*floor_ms.max(leased_before_ms));
        *advance = advance.saturating_add(*all);
        // A new cluster begins at the level that all its founders support, and this build is the only one.
        level.raise(LEVEL_MAX, first_version_of(LEVEL_MAX));
        periods_before.await_stamp();
        if root.is_none() {
            root.clone_from(drawn);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::ID_END;
    use crate::state::tests::{create, tag, two_tags_and_a_tombstone, with_worker_ids, written};
    use crate::state::{Actor, Change, Command, Response};

    fn by(all: u64) -> Raise {
        Raise { all, ..Raise::default() }
    }

    /// The first id that a grab of a tag gives. If the tag is not there, it is created with this start.
    fn next(state: &mut State, name: &str, start: u64) -> u64 {
        state.apply(0, &create(name, 1, start));
        match state.apply(0, &Command::Grab { tag: tag(name), size: 1 }) {
            Response::Segment { start, .. } => start,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn every_line_rises_and_so_does_each_that_is_not_there_yet() {
        let state = two_tags_and_a_tombstone();
        for name in ["a", "b", "c", "new"] {
            for start in [1, 700] {
                let without = next(&mut state.clone(), name, start);
                let raised = state.clone().raised(&by(5_000)).unwrap();
                let with = next(&mut raised.clone(), name, start);
                assert!(
                    with >= without + 5_000 || name != "new" && with >= 5_001,
                    "{name}: {with}"
                );
            }
        }
    }

    #[test]
    fn a_tag_may_rise_by_more_than_the_others_and_by_no_less() {
        let state = two_tags_and_a_tombstone();
        let before = ["a", "b", "c"].map(|name| next(&mut state.clone(), name, 1));
        let tags = [(tag("a"), 900), (tag("b"), 10)].into();
        let mut raised = state.raised(&Raise { all: 100, tags, ..Raise::default() }).unwrap();
        let after = ["a", "b", "c"].map(|name| next(&mut raised, name, 1));
        assert_eq!(after, [before[0] + 900, before[1] + 100, before[2] + 100]);
    }

    #[test]
    fn a_tag_that_the_copy_does_not_know_is_named() {
        let tags = [(tag("new"), 900)].into();
        let refused = two_tags_and_a_tombstone()
            .raised(&Raise { all: 100, tags, ..Raise::default() })
            .unwrap_err();
        assert_eq!(refused, RaiseError::UnknownTag(tag("new")));
    }

    /// The import of another system's tables is repeated in the new cluster, as after a copy from before it.
    #[test]
    fn an_import_goes_on_above_what_the_cluster_of_before_may_have_given() {
        const N: u64 = 5_000;
        let mut state = two_tags_and_a_tombstone().raised(&by(N)).unwrap();
        let mut import = |name: &str, max_id| {
            let expected = state.tag(name).is_none().then(|| state.first_mark(name, max_id));
            let (import, description) = ("leaf.sql".into(), String::new());
            let change = Change::ImportTag { import, tag: tag(name), step: 1, max_id, description };
            let import = Command::Administer { actor: Actor::default(), change };
            match state.apply(0, &import) {
                Response::Imported { before, row } => {
                    assert_eq!(row.max_id, expected.unwrap_or(row.max_id), "{name}");
                    (before, row.max_id)
                }
                other => panic!("{name}: {other:?}"),
            }
        };
        assert_eq!(import("a", 900), (Some(11 + N), 11 + N), "its ids are behind it");
        assert_eq!(import("c", 9_000), (Some(11 + N), 9_000), "a mark is what it says");
        assert_eq!(import("b", 900), (None, 11 + N), "deleted, and risen as the others");
        assert_eq!(import("new", 900), (None, 900 + N), "no copy knows how far it went since");
        assert_eq!(import("new", 900), (Some(900 + N), 900 + N), "a second time changes nothing");
    }

    #[test]
    fn a_state_that_was_raised_again_remembers_both() {
        let state = two_tags_and_a_tombstone();
        let raised = state.raised(&by(100)).unwrap().raised(&by(20)).unwrap();
        assert_eq!(next(&mut raised.clone(), "new", 1), 121);
        // The amount is written down; a state that was never raised keeps its bytes.
        let restored = crate::encoding::read_snapshot(&written(&raised)[..]).unwrap();
        assert_eq!(next(&mut restored.clone(), "new", 1), 121);
        assert_eq!(written(&restored), written(&raised));
    }

    #[test]
    fn a_line_without_so_many_ids_ends_and_wraps_nowhere() {
        for all in [ID_END - 1, ID_END, u64::MAX] {
            let mut raised = two_tags_and_a_tombstone().raised(&by(all)).unwrap();
            for name in ["a", "b", "c", "new"] {
                raised.apply(0, &create(name, 1, 1));
                assert_eq!(raised.tag(name).unwrap().max_id, ID_END);
                let grab = Command::Grab { tag: tag(name), size: 1 };
                assert_eq!(raised.apply(0, &grab), Response::Exhausted);
            }
        }
    }

    #[test]
    fn no_window_begins_below_the_floor_and_a_higher_floor_stays() {
        let acquire = |worker_id| Command::AcquireWorker {
            node_id: 9,
            nonce: u128::from(worker_id) + 900,
            worker_id: Some(worker_id),
            window_ms: 60_000,
        };
        let floor = |floor_ms| Raise { floor_ms, ..Raise::default() };
        let raised = with_worker_ids().raised(&floor(70_000)).unwrap();
        for mut raised in [raised.clone(), raised.raised(&floor(65_000)).unwrap()] {
            assert_eq!(raised.snowflake_floor_ms(), 70_000);
            // The worker id 0 was used before, 3 never.
            for worker_id in [0, 3] {
                match raised.apply(30_000, &acquire(worker_id)) {
                    Response::Window { floor_ms, fence_ms, .. } => {
                        assert_eq!((floor_ms, fence_ms), (70_000, 90_000));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    proptest! {
        /// A cluster goes on after its copy was taken; whatever it does, a cluster raised by more than any of
        /// its lines moved gives none of its ids.
        #[test]
        fn nothing_given_since_is_given_again(
            before in prop::collection::vec((0..4_usize, 0..4_u8, 1..50_u32), 0..30),
            since in prop::collection::vec((0..4_usize, 0..4_u8, 1..50_u32), 0..30),
            after in prop::collection::vec((0..4_usize, 0..4_u8, 1..50_u32), 0..30),
        ) {
            const NAMES: [&str; 4] = ["a", "b", "c", "d"];
            let play = |state: &mut State, steps: &[(usize, u8, u32)]| {
                let mut given = Vec::new();
                for &(name, what, size) in steps {
                    let name = NAMES[name];
                    let command = match what {
                        0 => create(name, size, u64::from(size)),
                        1 => Command::DeleteTag { tag: tag(name) },
                        _ => Command::Grab { tag: tag(name), size },
                    };
                    if let Response::Segment { start, end, .. } = state.apply(0, &command) {
                        given.push((name, start, end));
                    }
                }
                given
            };
            let mut old = State::default();
            play(&mut old, &before);
            let copy = old.clone();
            let given = play(&mut old, &since);
            let mark = |name: &str| copy.entries.get(name).map_or(1, |tag| tag.entry.max_id());
            let moved = given.iter().map(|&(name, _, end)| end.saturating_sub(mark(name)));
            let mut new = copy.clone().raised(&by(moved.max().unwrap_or(0))).unwrap();
            for (name, start, end) in play(&mut new, &after) {
                for &(old, old_start, old_end) in &given {
                    prop_assert!(
                        old != name || end <= old_start || old_end <= start,
                        "{name}: [{start}, {end}) after [{old_start}, {old_end})"
                    );
                }
            }
        }
    }
}
