//! The source of each tag's ids on this node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use foldhash::quality::RandomState;
use mintleaf_core::segment::BufferView;
use mintleaf_core::sequence::Counters;
use mintleaf_core::state::Protection;
use mintleaf_core::tag::BizTag;
use papaya::{HashMap, HashMapRef, LocalGuard};
use parking_lot::Mutex;

use super::leader::{SharedLedger, shared_ledger};
use super::local::first_segments::FirstSegments;
use super::local::slot::Slot;
use super::refusals::Refusals;
use super::source::Source;
use crate::replica::TagListener;

/// The table, entered for several look-ups; see [`TagTable::pin`].
pub(super) type PinnedTags<'a> = HashMapRef<'a, BizTag, Source, RandomState, LocalGuard<'a>>;

/// How long the table remembers that no slot holds an id.
const NONE_HELD_MS: u64 = 250;
/// Maximum number of tags to look at for those whose callers will wait soonest. A look takes 0.1 ms.
pub(super) const WATCHED_MAX: usize = 1_000;

/// The tags that callers have asked this node for since it started. Looking one up takes no lock. Once a tag is here,
/// it stays until it is deleted or the process ends. It begins with nothing: nothing is carried across a restart.
///
/// The table listens to the log. It is the only place where a change of a tag reaches what this node holds of the tag.
pub struct TagTable {
    tags: HashMap<BizTag, Source, RandomState>,
    /// The number of tags whose ids this node holds without the leader.
    with_slots: AtomicUsize,
    /// What this node holds as the leader.
    ledger: SharedLedger,
    /// First segments of plain tags that are not in the table yet.
    first_segments: FirstSegments,
    /// Until then, in milliseconds of the monotonic clock, the table assumes that no slot holds an id.
    none_held_until_ms: AtomicU64,
    /// The tags whose ids would run out soonest as of the last look, [`WATCHED_MAX`] at most.
    shortest: Mutex<Vec<BizTag>>,
    refusals: Refusals,
    /// How many ids the log has reserved, for any node, in the entries that this process applied.
    reserved: AtomicU64,
}

impl TagTable {
    /// An empty table. While this node leads, the counters of sequences take up to `sequence_memory` bytes; `secret` is
    /// random, and known to this process alone.
    pub fn new(sequence_memory: usize, secret: u128) -> Self {
        let secret = [secret as u64, (secret >> 64) as u64];
        Self {
            tags: HashMap::default(),
            with_slots: AtomicUsize::new(0),
            ledger: shared_ledger(Counters::new(sequence_memory, secret)),
            first_segments: FirstSegments::default(),
            none_held_until_ms: AtomicU64::new(0),
            shortest: Mutex::default(),
            refusals: Refusals::default(),
            reserved: AtomicU64::new(0),
        }
    }

    /// The table for several look-ups without a wait between them. Tags that are removed while this exists stay in
    /// memory until it is dropped.
    #[inline]
    pub(super) fn pin(&self) -> PinnedTags<'_> {
        self.tags.pin()
    }

    /// The source of a tag's ids; `None` for a tag that no caller has asked this node for.
    pub(super) fn get(&self, tag: &str) -> Option<Source> {
        self.tags.pin().get(tag).cloned()
    }

    /// What this node holds as the leader.
    pub(super) fn ledger(&self) -> &SharedLedger {
        &self.ledger
    }

    /// First segments on their way to the table.
    pub(super) fn first_segments(&self) -> &FirstSegments {
        &self.first_segments
    }

    /// Which tags refused their callers, and which is nearest to its end.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// How many ids the log has reserved, for any node, in the entries that this process applied.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    /// The source of a tag. If there is none, `new` makes one.
    pub(super) fn get_or_insert(&self, tag: &BizTag, new: impl FnOnce() -> Source) -> Source {
        let tags = self.tags.pin();
        if let Some(source) = tags.get(tag) {
            return source.clone();
        }
        let source = new();
        // It is counted before another thread can find it and take it off again.
        let count = usize::from(source.has_slots());
        self.with_slots.fetch_add(count, Relaxed);
        match tags.try_insert(tag.clone(), source.clone()) {
            Ok(_) => source,
            Err(occupied) => {
                self.with_slots.fetch_sub(count, Relaxed);
                occupied.current.clone()
            }
        }
    }

    /// Ends and removes a tag. It may come back later, and then begins with nothing.
    fn remove(&self, tag: &str) {
        if let Some(source) = self.tags.pin().remove(tag) {
            self.end(source);
        }
    }

    fn end(&self, removed: &Source) {
        self.with_slots.fetch_sub(usize::from(removed.has_slots()), Relaxed);
        removed.close();
    }

    /// Ends this slot, and removes its tag if the tag's ids still come from it.
    pub(super) fn forget(&self, slot: &Arc<Slot>) {
        let is_its = |_: &BizTag, source: &Source| source.has(slot);
        if let Ok(Some((_, source))) = self.tags.pin().remove_if(slot.tag(), is_its) {
            self.end(source);
        }
        slot.close();
    }

    /// Gives up the slot of a line whose grabs the log refuses. Its tag gets another slot when the line's time comes
    /// again.
    pub(super) fn drop_line(&self, slot: &Arc<Slot>) {
        match self.tags.pin().get(slot.tag()) {
            Some(source) => source.drop_line(slot),
            None => slot.close(),
        }
    }

    /// The number of tags whose ids this node holds or waits for; strict tags and sequences count only while it leads.
    pub(super) fn loaded(&self) -> usize {
        self.with_slots.load(Relaxed) + self.ledger.lock().tags_held()
    }

    /// Whether any slot holds an id. While none does, only a look at all slots shows that, so the table keeps that
    /// answer for [`NONE_HELD_MS`].
    pub(super) fn holds_ids(&self, now_ms: u64) -> bool {
        if now_ms < self.none_held_until_ms.load(Relaxed) {
            return false;
        }
        let holds = self.tags.pin().values().any(Source::holds_ids);
        if !holds {
            self.none_held_until_ms.store(now_ms + NONE_HELD_MS, Relaxed);
        }
        holds
    }

    /// The tags from which callers took ids since the last call: at most `limit`, those with the most ids. From then on
    /// [`watched`](Self::watched) returns those of the used tags that would run out first if their use goes on like
    /// this.
    pub(super) fn taken_since_look(&self, limit: usize) -> Vec<(BizTag, u64)> {
        let tags = self.tags.pin();
        let looked = tags.iter().map(|(tag, source)| (tag, source.taken_since_look()));
        let mut most = BinaryHeap::new();
        let mut shortest = BinaryHeap::new();
        for (tag, (taken, remaining)) in looked.filter(|(_, (taken, _))| *taken > 0) {
            most.push(Reverse((taken, tag)));
            if most.len() > limit {
                most.pop();
            }
            shortest.push((remaining / taken, tag));
            if shortest.len() > WATCHED_MAX {
                shortest.pop();
            }
        }
        *self.shortest.lock() = shortest.into_iter().map(|(_, tag)| tag.clone()).collect();
        most.into_iter().map(|Reverse((taken, tag))| (tag.clone(), taken)).collect()
    }

    /// Candidates for the tags whose callers will wait soonest: if there are few enough, all tags whose ids this node
    /// holds by itself; otherwise the tags that would run out soonest as of the last look.
    pub(super) fn watched(&self) -> Vec<BizTag> {
        if self.with_slots.load(Relaxed) > WATCHED_MAX {
            return self.shortest.lock().clone();
        }
        let tags = self.tags.pin();
        let with_slots = tags.iter().filter(|(_, source)| source.has_slots());
        with_slots.map(|(tag, _)| tag.clone()).collect()
    }

    /// The first `limit` buffers in the order of their tags.
    pub(super) fn views(&self, limit: usize) -> Vec<(BizTag, BufferView)> {
        let led = self.ledger.lock().views(limit);
        let mut first: BTreeMap<BizTag, BufferView> = led.into_iter().collect();
        for (tag, source) in &self.tags.pin() {
            if first.len() >= limit && first.last_key_value().is_none_or(|(last, _)| tag >= last) {
                continue;
            }
            first.extend(source.view().map(|view| (tag.clone(), view)));
            if first.len() > limit {
                first.pop_last();
            }
        }
        first.into_iter().collect()
    }
}

/// First segments receive every change before the sources do. So a first segment that becomes a slot in between misses
/// no change.
impl TagListener for TagTable {
    fn tag_deleted(&self, tag: &str) {
        self.first_segments.tag_deleted(tag);
        self.remove(tag);
        self.ledger.lock().drop_tag(tag);
    }

    fn tag_raised(&self, tag: &str, mark: u64) {
        self.first_segments.tag_raised(tag, mark);
        match self.tags.pin().get(tag).and_then(Source::raised_slot) {
            Some(slot) => slot.rise_to(mark),
            None => self.ledger.lock().rise_to(tag, mark),
        }
    }

    fn tag_protected(&self, tag: &str, protection: Protection) {
        if let Some(source) = self.tags.pin().get(tag) {
            source.protect(protection);
        }
    }

    fn ids_reserved(&self, count: u64) {
        self.reserved.fetch_add(count, Relaxed);
    }

    fn state_replaced(&self) {
        self.first_segments.state_replaced();
        let tags = self.tags.pin();
        let mut names: Vec<&BizTag> = tags.keys().collect();
        // The waiting callers wake in this order. So it must not depend on a hash with another seed in each
        // process: a simulated run comes out the same each time.
        names.sort_unstable();
        names.into_iter().for_each(|tag| self.remove(tag.as_str()));
        self.ledger.lock().drop_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::clock::SystemClock;
    use mintleaf_core::segment::Segment;
    use mintleaf_core::steps::Steps;

    #[test]
    fn a_snapshot_that_takes_the_place_of_the_state_has_the_node_drop_what_it_holds() {
        let table = TagTable::new(1 << 20, 1);
        let clock = Arc::new(SystemClock::default());
        let steps = Steps::from(1_000);
        for name in ["a", "b"] {
            let tag = BizTag::parse(name).unwrap();
            let slot = Arc::new(Slot::new(tag.clone(), steps, clock.clone()));
            table.get_or_insert(&tag, || Source::Plain(Arc::clone(&slot)));
            slot.begin_grab(steps);
            slot.install(Segment { start: 1, end: 1_001 }, steps);
        }
        assert!(table.holds_ids(0));
        table.state_replaced();
        assert!(!table.holds_ids(0));
        assert!(table.pin().is_empty());
    }
}
