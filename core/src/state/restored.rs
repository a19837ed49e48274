//! A copy that becomes the state of a new cluster: raised, with an audit entry that says by how much.
//!
//! The audit of the old cluster stays, because it is the record of who changed what. The restore is the next entry, and
//! the first of the new cluster.

use std::collections::BTreeSet;

use super::actor::Actor;
use super::apply::State;
use super::audit::{Action, AuditEntry, Fact, Facts, Field};
use super::change::floor_facts;
use super::line_names::RaiseError;
use super::raise::Raise;
use super::shaped_entry::ShapedEntry;
use crate::tag::BizTag;

/// The actor of a restore in the audit. No token has a name with a space in it.
const ACTOR: &str = "mintleaf restore";
/// Tags that get an entry at most: a list of every tag must not push the old cluster's entries out.
const TAGS_RECORDED_MAX: usize = 1_000;

/// What the audit says of a restore besides how far the state rose.
#[derive(Clone, Debug)]
pub struct Restoration {
    /// When it was made, in Unix milliseconds.
    pub time_ms: u64,
    /// The cluster that the copy is of, if it is known.
    pub from_cluster: Option<u128>,
    /// The last log entry that the copy holds, if it is known.
    pub log_index: Option<u64>,
    /// The new cluster.
    pub to_cluster: u128,
}

impl State {
    /// The state raised as [`State::raised`] does, with an entry in its audit for that, and one for each tag that rose
    /// by more than the others, and for each register.
    ///
    /// # Errors
    /// The errors of [`State::raised`].
    pub fn restored(self, by: &Raise, restoration: &Restoration) -> Result<Self, RaiseError> {
        let (floor_before, level_before) = (floor_facts(self.snowflake_floor_ms()), self.level());
        let named: BTreeSet<&BizTag> = by.tags.keys().chain(by.lasts.keys()).collect();
        let registers = self.registers_named();
        let named = named.into_iter().chain(&registers).collect::<BTreeSet<_>>();
        let named: Vec<_> = named.into_iter().map(|tag| (tag, self.highest_mark(tag))).collect();
        let mut state = self.raised(by)?;
        // As a leader's stamp would: no later entry shows an earlier time.
        state.clock_ms = state.clock_ms.max(restoration.time_ms);
        let mut before = Facts::new();
        before.extend(restoration.from_cluster.map(|id| (Field::ClusterId, cluster(id))));
        before.extend(restoration.log_index.map(|index| (Field::LogIndex, Fact::Number(index))));
        before.extend(floor_before);
        let level = |level: u32| (Field::Level, Fact::Number(level.into()));
        let rises = state.level() > level_before;
        before.extend(rises.then(|| level(level_before)));
        let mut after = Facts::from([
            (Field::ClusterId, cluster(restoration.to_cluster)),
            (Field::Advance, Fact::Id(by.all)),
        ]);
        after.extend(floor_facts(state.snowflake_floor_ms()));
        after.extend(rises.then(|| level(state.level())));
        state.record_restored(Action::Restore, "cluster", before, after);
        let more = named.into_iter().filter_map(|(tag, before)| {
            let after = state.highest_mark(tag);
            // A register's rise is a gap in its numbers, which its owner must be able to explain.
            let is_recorded = after.saturating_sub(before) > by.all || registers.contains(tag);
            (is_recorded && after > before).then_some((tag, before, after))
        });
        let fact = |mark| Facts::from([(Field::MaxId, Fact::Id(mark))]);
        for (tag, before, after) in more.take(TAGS_RECORDED_MAX).collect::<Vec<_>>() {
            state.record_restored(Action::UpdateTag, tag.as_str(), fact(before), fact(after));
        }
        Ok(state)
    }

    /// The names of registers, deleted or not.
    fn registers_named(&self) -> BTreeSet<BizTag> {
        let all = self.shaped.after(None);
        let registers = all.filter(|shaped| shaped.shape().giver().records_keys());
        registers.map(|shaped| shaped.tag().clone()).collect()
    }

    fn record_restored(&mut self, action: Action, target: &str, before: Facts, after: Facts) {
        let (index, time_ms) = (self.audit.next_index(), self.clock_ms);
        let actor = Actor::parse(ACTOR).expect("the name is short and has no control character");
        let target = target.into();
        self.audit.push(AuditEntry { index, time_ms, actor, action, target, before, after });
    }

    /// The watermark of a tag, the highest of its lines, deleted or not; 0 for an unknown name.
    fn highest_mark(&self, tag: &BizTag) -> u64 {
        let shaped = self.shaped.get(tag.as_str()).and_then(ShapedEntry::max_id);
        shaped.or_else(|| self.entries.get(tag.as_str()).map(|tag| tag.entry.max_id())).unwrap_or(0)
    }
}

fn cluster(id: u128) -> Fact {
    Fact::Text(format!("{id:032x}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::read_snapshot;
    use crate::state::tests::{hex, tag, two_tags_and_a_tombstone, written};
    use crate::state::{Change, Command, LEVEL_MAX, Response};

    fn restoration(time_ms: u64) -> Restoration {
        Restoration { time_ms, from_cluster: Some(0x01d), log_index: Some(700), to_cluster: 0x2e3 }
    }

    fn raise() -> Raise {
        let tags = [(tag("a"), 900), (tag("b"), 100), (tag("c"), 500)].into();
        Raise { all: 100, tags, floor_ms: 9_000, ..Raise::default() }
    }

    fn audit(state: &State) -> Vec<AuditEntry> {
        state.audit_page(0, usize::MAX, |_| true).entries
    }

    fn mark(id: u64) -> Facts {
        vec![(Field::MaxId, Fact::Id(id))]
    }

    #[test]
    fn the_audit_goes_on_with_the_restore_and_the_tags_that_rose_by_more() {
        let mut old = two_tags_and_a_tombstone();
        let change = Change::DeleteTag { tag: tag("a") };
        old.apply(6_000, &Command::Administer { actor: Actor::default(), change });
        let state = old.restored(&raise(), &restoration(7_000)).unwrap();
        let entries = audit(&state);
        let shown = |entry: &AuditEntry| (entry.index, entry.action, entry.target.to_string());
        assert_eq!(
            entries.iter().map(shown).collect::<Vec<_>>(),
            [
                (1, Action::DeleteTag, "a".to_owned()),
                (2, Action::Restore, "cluster".to_owned()),
                (3, Action::UpdateTag, "a".to_owned()),
                (4, Action::UpdateTag, "c".to_owned()),
            ]
        );
        let id = |id: &str| Fact::Text(format!("{id:0>32}").into());
        assert_eq!(
            entries[1].before,
            [
                (Field::ClusterId, id("1d")),
                (Field::LogIndex, Fact::Number(700)),
                (Field::Level, Fact::Number(1)),
            ]
        );
        assert_eq!(
            entries[1].after,
            [
                (Field::ClusterId, id("2e3")),
                (Field::Advance, Fact::Id(100)),
                (Field::FloorMs, Fact::Number(9_000)),
                (Field::Level, Fact::Number(LEVEL_MAX.into())),
            ]
        );
        // `a` was deleted, and keeps a mark.
        assert_eq!((&entries[2].before, &entries[2].after), (&mark(11), &mark(911)));
        assert_eq!((&entries[3].before, &entries[3].after), (&mark(11), &mark(511)));
        assert!(entries[1..].iter().all(|entry| entry.actor.as_str() == ACTOR));
    }

    #[test]
    fn no_entry_shows_an_earlier_time_than_the_one_before() {
        for (restored_ms, shown_ms) in [(1, 4_000), (7_000, 7_000)] {
            let old = two_tags_and_a_tombstone();
            assert_eq!(old.clock_ms(), 4_000);
            let mut state = old.restored(&raise(), &restoration(restored_ms)).unwrap();
            let change = Change::DeleteTag { tag: tag("a") };
            let delete = Command::Administer { actor: Actor::default(), change };
            assert_eq!(state.apply(2, &delete), Response::Deleted);
            assert!(audit(&state).iter().all(|entry| entry.time_ms == shown_ms));
        }
    }

    #[test]
    fn a_restore_keeps_its_bytes_and_is_read_back() {
        let raise = Raise { all: 100, floor_ms: 9_000, ..Raise::default() };
        let state = two_tags_and_a_tombstone().restored(&raise, &restoration(7_000)).unwrap();
        let whole = written(&state);
        let entry = "0101fb581b106d696e746c65616620726573746f72650907636c7573746572";
        assert!(hex(&whole).contains(entry), "{}", hex(&whole));
        let read = read_snapshot(&whole[..]).unwrap();
        assert_eq!((written(&read), audit(&read)), (whole, audit(&state)));
    }
}
