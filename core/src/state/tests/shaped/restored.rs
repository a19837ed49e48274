//! What a cluster that was made from a copy gives, of tags and of periods that the copy does not know.

use std::collections::BTreeSet;

use super::*;
use crate::shape::HiddenIds;

const OLD_ROOT: RootKey = RootKey([0x0a; 32]);

/// A state of the third level, as a leader raises it.
fn third(root: RootKey) -> State {
    let mut state = State::default();
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    state.apply(0, &Command::DrawRoot { root });
    state
}

fn hidden(digits: u8, key: u8) -> Shape {
    Shape { hidden: Some(Hidden { digits, key: HiddenKey([key; 32]) }), ..Shape::default() }
}

fn key_of(state: &State, name: &str) -> HiddenKey {
    state.shape(name).unwrap().hidden.as_ref().unwrap().key.clone()
}

/// The ids that clients see of the numbers reserved by a grab of a tag with hidden ids.
fn ids(state: &mut State, name: &str, size: u32) -> BTreeSet<u64> {
    let Hidden { digits, key } = state.shape(name).unwrap().hidden.clone().unwrap();
    let (start, end) = granted(state, grab(name, &hidden(digits, 0), 0, size));
    let hidden = HiddenIds::new(digits, &key.0);
    (start..end).map(|number| hidden.id(number)).collect()
}

fn raise(all: u64) -> Raise {
    Raise { all, root: Some(RootKey([0x0b; 32])), ..Raise::default() }
}

proptest! {
    /// A tag that was made after the copy is made again in the new cluster, with the key of that second creation. No id
    /// that is given of it there was given by the old cluster, if that one gave no more than N.
    #[test]
    fn hidden_ids_of_a_tag_that_the_copy_lacks_do_not_repeat(
        digits in 6..9_u8,
        given in 5..400_u32,
        more in 0..300_u64,
        again in 5..400_u32,
        names in prop::sample::subsequence(vec!["a", "b", "订单", " "], 1..4),
    ) {
        let mut old = third(OLD_ROOT);
        old.apply(0, &create_shaped("known", &hidden(digits, 1)));
        let copy = read_snapshot(&written(&old)[..]).unwrap();
        let mut new = copy.raised(&raise(u64::from(given) + more)).unwrap();
        for (at, name) in names.iter().chain(&["known"]).enumerate() {
            let key = 1 + at as u8;
            for (state, key) in [(&mut old, key), (&mut new, 100 + key)] {
                state.apply(0, &create_shaped(name, &hidden(digits, key)));
            }
            let (before, after) = (ids(&mut old, name, given), ids(&mut new, name, again));
            prop_assert!(before.is_disjoint(&after), "{name}: {:?}", before.intersection(&after));
        }
    }

    /// The restoring machine's clock shows anything that is past; the new cluster's own is right. No (period, id) is
    /// given that the old cluster gave before it stopped, whatever periods and whenever the new one gives.
    #[test]
    fn no_id_of_a_period_repeats_whatever_the_restoring_clock_showed(
        since in vec((0..3_u32, 1..9_u32), 1..12),
        stopped in 0..3 * PERIOD_MS,
        behind in 0..40 * PERIOD_MS,
        first in 0..3 * PERIOD_MS,
        later in vec((0..7_u32, 1..9_u32), 1..24),
    ) {
        let (mut old, shape) = daily(Order::Trend);
        let copy = old.clone();
        let mut given = BTreeSet::new();
        for &(at, size) in since.iter().filter(|(at, _)| u64::from(*at) * PERIOD_MS <= stopped) {
            let (start, end) = granted(&mut old, grab("a", &shape, at, size));
            given.extend((start..end).map(|id| (at, id)));
        }
        let all = given.iter().map(|(_, id)| *id).max().unwrap_or(0);
        let stopped_ms = FIRST_MS + stopped;
        let raise = Raise { all, floor_ms: stopped_ms - behind, ..Raise::default() };
        let new = copy.raised(&raise).unwrap();
        let mut new = read_snapshot(&written(&new)[..]).unwrap();
        new.apply(stopped_ms + first, &create("first", 1, 1));
        let mut new = read_snapshot(&written(&new)[..]).unwrap();
        for &(at, size) in &later {
            let (start, end) = granted(&mut new, grab("a", &shape, at, size));
            prop_assert!((start..end).all(|id| !given.contains(&(at, id))), "{at}: {start}..{end}");
        }
    }
}

#[test]
fn the_first_stamp_of_a_restored_cluster_says_which_periods_begin_higher() {
    let (old, shape) = daily(Order::Trend);
    let first = |state: &mut State, at| granted(state, grab("a", &shape, at, 1)).0;
    let restored = old.raised(&Raise { all: 700, ..Raise::default() }).unwrap();
    for (stamped, higher) in [(0, 0..=1), (PERIOD_MS / 2, 0..=1), (3 * PERIOD_MS, 0..=3)] {
        let mut new = read_snapshot(&written(&restored)[..]).unwrap();
        // A missing time does not count as a stamp, and later stamps change nothing any more.
        for now_ms in [0, FIRST_MS + stamped.max(1), FIRST_MS + 9 * PERIOD_MS] {
            new.apply(now_ms, &create("other", 1, 1));
        }
        let mut new = read_snapshot(&written(&new)[..]).unwrap();
        for at in 0..8 {
            let begins = if higher.contains(&at) { 701 } else { 1 };
            assert_eq!(first(&mut new, at), begins, "period {at}, first stamp {stamped}");
        }
    }
}

#[test]
fn what_was_frozen_stays_so_over_a_restore_and_rises_all_the_same() {
    for shape in shapes() {
        let mut old = fresh();
        old.apply(0, &create_shaped("a", &shape));
        let (_, mark) = granted(&mut old, grab("a", &shape, 0, 7));
        old.apply(0, &freeze("a", true));
        let new = old.raised(&raise(700)).unwrap();
        let mut new = read_snapshot(&written(&new)[..]).unwrap();
        let (entry, command) = grab("a", &shape, 0, 7);
        assert_eq!(new.apply(entry, &command), Response::Frozen, "{shape:?}");
        new.apply(0, &freeze("a", false));
        assert_eq!(granted(&mut new, (entry, command)).0, mark + 700, "{shape:?}");
    }
}

#[test]
fn the_first_root_key_stays_and_keys_of_new_tags_are_made_of_it() {
    let mut state = third(OLD_ROOT);
    let drawn = state.apply(0, &Command::DrawRoot { root: RootKey([9; 32]) });
    assert_eq!(drawn, Response::Noted);
    let restored = read_snapshot(&written(&state)[..]).unwrap();
    let raised = restored.clone().raised(&raise(5)).unwrap();
    for mut state in [state, restored, raised] {
        state.apply(0, &create_shaped("a", &hidden(7, 1)));
        assert_eq!(key_of(&state, "a"), OLD_ROOT.key_of("a", 7));
    }
}

#[test]
fn tags_from_before_the_root_key_keep_their_keys_and_so_do_their_names() {
    let mut state = fresh();
    for name in ["a", "gone"] {
        state.apply(0, &create_shaped(name, &hidden(7, 1)));
    }
    state.apply(0, &delete("gone"));
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    state.apply(0, &Command::DrawRoot { root: OLD_ROOT });
    assert!(state.apply(0, &create_shaped("gone", &hidden(7, 2))).into_tag().is_ok());
    for name in ["a", "gone"] {
        assert_eq!(key_of(&state, name), HiddenKey([1; 32]), "{name}");
    }
}

#[test]
fn without_a_root_key_no_tag_with_digits_is_made_and_every_other_one_is() {
    let mut state = State::default();
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    let before = written(&state);
    assert_eq!(state.apply(0, &create_shaped("a", &hidden(7, 1))), Response::NoRootKey);
    assert_eq!(written(&state), before);
    let strict = Shape { order: Order::Strict, ..Shape::default() };
    assert!(state.apply(0, &create_shaped("a", &strict)).into_tag().is_ok());
}

/// A copy from before the root key: the cluster that is made from it draws one, at the level that has it.
#[test]
fn a_restore_of_an_older_copy_draws_a_root_key() {
    for old in [State::default(), fresh()] {
        let mut new = old.raised(&raise(5)).unwrap();
        assert_eq!((new.has_root(), new.level()), (true, crate::state::LEVEL_MAX));
        new.apply(0, &create_shaped("a", &hidden(7, 1)));
        assert_eq!(key_of(&new, "a"), RootKey([0x0b; 32]).key_of("a", 7));
    }
}
