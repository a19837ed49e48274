//! The tags that this node has handed ids out of since it started.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use foldhash::quality::RandomState;
use mintleaf_core::segment::BufferView;
use mintleaf_core::state::Protection;
use mintleaf_core::tag::BizTag;
use papaya::{HashMap, HashMapRef, LocalGuard};
use parking_lot::Mutex;

use super::first_segments::FirstSegments;
use super::ordered::SharedLedger;
use super::shaped::ShapedTable;
use super::slot::{Slot, SlotStatus};
use crate::replica::TagListener;

/// The table, entered for several look-ups; see [`SlotTable::pin`].
pub(super) type PinnedSlots<'a> = HashMapRef<'a, BizTag, Arc<Slot>, RandomState, LocalGuard<'a>>;

/// How long "no slot holds an id" is assumed to stay true once it was found.
const NONE_HELD_MS: u64 = 250;
/// Most tags that are looked at to find those whose callers wait soonest: 0.1 ms.
pub(super) const WATCHED_MAX: usize = 1_000;

/// Slots by tag. Looking one up takes no lock. A tag that this node was not asked for has no slot; a slot,
/// once made, stays until its tag is gone or the process ends. It begins empty: nothing is carried over a restart.
#[derive(Default)]
pub struct SlotTable {
    slots: HashMap<BizTag, Arc<Slot>, RandomState>,
    /// The shaped tags. None of them is in `slots`.
    shaped: ShapedTable,
    /// What is held in strict order.
    ordered: OnceLock<SharedLedger>,
    /// First segments of plain tags that have no slot yet.
    first_segments: FirstSegments,
    /// Until then no slot counts as holding an id, in milliseconds of the monotonic clock.
    none_held_until_ms: AtomicU64,
    /// The tags that lasted shortest at the last look, [`WATCHED_MAX`] at most.
    shortest: Mutex<Vec<BizTag>>,
}

impl SlotTable {
    /// From now on, when a tag's slot is dropped, what is held of the tag in strict order is dropped too.
    pub(super) fn drop_held_from(&self, ledger: SharedLedger) {
        let _ = self.ordered.set(ledger);
    }

    /// The table for several look-ups without a wait between them. Slots that are removed while this exists stay in
    /// memory until it is dropped.
    #[inline]
    pub(super) fn pin(&self) -> PinnedSlots<'_> {
        self.slots.pin()
    }

    /// First segments on their way to a slot.
    pub(super) fn first_segments(&self) -> &FirstSegments {
        &self.first_segments
    }

    /// The shaped tags.
    pub(super) fn shaped(&self) -> &ShapedTable {
        &self.shaped
    }

    /// The slot of a tag. If there is no slot, `new` makes one.
    pub(super) fn get_or_insert(&self, tag: &BizTag, new: impl FnOnce() -> Slot) -> Arc<Slot> {
        let slots = self.slots.pin();
        if let Some(slot) = slots.get(tag) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(new());
        match slots.try_insert(tag.clone(), Arc::clone(&slot)) {
            Ok(_) => slot,
            Err(occupied) => Arc::clone(occupied.current),
        }
    }

    /// Ends and removes the slot of a tag. The tag may get another one later, which starts empty.
    pub(super) fn remove(&self, tag: &str) {
        self.shaped.remove(tag);
        if let Some(ordered) = self.ordered.get() {
            ordered.drop_tag(tag);
        }
        self.remove_plain(tag);
    }

    fn remove_plain(&self, tag: &str) {
        if let Some(slot) = self.slots.pin().remove(tag) {
            slot.close();
        }
    }

    /// Ends this slot, and removes it if it is still its tag's.
    pub(super) fn forget(&self, slot: &Arc<Slot>) {
        if slot.is_of_line() {
            return self.shaped.forget(slot);
        }
        let is_this = |_: &BizTag, current: &Arc<Slot>| Arc::ptr_eq(current, slot);
        let _ = self.slots.pin().remove_if(slot.tag(), is_this);
        slot.close();
    }

    /// Gives up the slot of a line that no grab is let into; its tag gets another one when its time comes again.
    pub(super) fn drop_line(&self, slot: &Arc<Slot>) {
        self.shaped.drop_slot(slot);
    }

    /// How many tags this node holds ids of, or waits for: strict tags and sequences only while it leads.
    pub(super) fn loaded(&self) -> usize {
        let ordered = self.ordered.get().map_or(0, SharedLedger::tags_held);
        self.slots.pin().len() + self.shaped.with_slots() + ordered
    }

    /// Whether any slot holds an id. As long as none does, finding that out takes a look at all of them, so the answer
    /// is kept for [`NONE_HELD_MS`].
    pub(super) fn holds_ids(&self, now_ms: u64) -> bool {
        if now_ms < self.none_held_until_ms.load(Relaxed) {
            return false;
        }
        let holds = self.slots.pin().values().any(|slot| slot.remaining() > 0);
        let holds = holds || self.shaped.holds_ids();
        if !holds {
            self.none_held_until_ms.store(now_ms + NONE_HELD_MS, Relaxed);
        }
        holds
    }

    /// The tags that ids were taken of since the last call, at most `limit`: those with most ids. From then on
    /// [`watched`](Self::watched) has those among them that would be used up first if their use goes on like this.
    pub(super) fn taken_since_look(&self, limit: usize) -> Vec<(BizTag, u64)> {
        let slots = self.slots.pin();
        let of_shaped = self.shaped.taken_since_look();
        let plain = slots.iter().map(|(tag, slot)| (tag, slot.taken_since_look()));
        let looked = plain.chain(of_shaped.iter().map(|(tag, looked)| (tag, *looked)));
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

    /// Candidates for the tags whose callers wait soonest: all that are not in strict order if there are few enough,
    /// otherwise the tags that lasted shortest at the last look.
    pub(super) fn watched(&self) -> Vec<BizTag> {
        let slots = self.slots.pin();
        if slots.len() + self.shaped.len() > WATCHED_MAX {
            return self.shortest.lock().clone();
        }
        slots.keys().cloned().chain(self.shaped.names()).collect()
    }

    /// What this node holds of a tag that is not in strict order, and of its present period at this moment of the
    /// cluster's time.
    pub(super) fn status(
        &self,
        slots: &PinnedSlots<'_>,
        tag: &str,
        now_ms: Option<u64>,
    ) -> Option<SlotStatus> {
        match slots.get(tag) {
            Some(slot) => Some(slot.status()),
            None => self.shaped.get(tag)?.status(now_ms),
        }
    }

    /// The first `limit` buffers in the order of their tags.
    pub(super) fn views(&self, limit: usize) -> Vec<(BizTag, BufferView)> {
        let slots = self.slots.pin();
        let mut first = BTreeMap::new();
        for (tag, slot) in &slots {
            if first.len() < limit || first.last_key_value().is_some_and(|(last, _)| tag < *last) {
                first.insert(tag, slot);
            }
            if first.len() > limit {
                first.pop_last();
            }
        }
        let mut views: Vec<_> =
            first.into_iter().map(|(tag, slot)| (tag.clone(), slot.view())).collect();
        let mut others = self.shaped.views();
        others.extend(self.ordered.get().map(|ordered| ordered.views(limit)).unwrap_or_default());
        if !others.is_empty() {
            views.extend(others);
            views.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            views.truncate(limit);
        }
        views
    }
}

/// First segments receive every change before the slots do. So a first segment that becomes a slot during that misses
/// no change.
impl TagListener for SlotTable {
    fn tag_deleted(&self, tag: &str) {
        self.first_segments.tag_deleted(tag);
        self.remove(tag);
    }

    fn tag_raised(&self, tag: &str, mark: u64) {
        self.first_segments.tag_raised(tag, mark);
        match self.slots.pin().get(tag) {
            Some(slot) => slot.rise_to(mark),
            // A mark can be named of one line alone: of a plain tag, or of a strict one, which the leader holds.
            None => self.ordered.get().into_iter().for_each(|ordered| ordered.rise_to(tag, mark)),
        }
    }

    fn tag_protected(&self, tag: &str, protection: Protection) {
        match self.slots.pin().get(tag) {
            Some(slot) => slot.protect(protection),
            None => self.shaped.protect(tag, protection),
        }
    }

    fn state_replaced(&self) {
        self.first_segments.state_replaced();
        let slots = self.slots.pin();
        let mut tags: Vec<&BizTag> = slots.keys().collect();
        // The callers that wait wake in this order, so it must not be that of a hash seeded for each
        // process: a simulated run comes out the same each time.
        tags.sort_unstable();
        tags.into_iter().for_each(|tag| self.remove_plain(tag.as_str()));
        self.shaped.drop_all();
        if let Some(ordered) = self.ordered.get() {
            ordered.drop_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::clock::SystemClock;
    use mintleaf_core::segment::Segment;

    #[test]
    fn a_snapshot_that_takes_the_place_of_the_state_has_the_node_drop_what_it_holds() {
        let table = SlotTable::default();
        let clock = Arc::new(SystemClock::default());
        for name in ["a", "b"] {
            let tag = BizTag::parse(name).unwrap();
            let slot = table.get_or_insert(&tag, || Slot::new(tag.clone(), 1_000, clock.clone()));
            slot.begin_grab(1_000);
            slot.install(Segment { start: 1, end: 1_001 }, 1_000);
        }
        assert!(table.holds_ids(0));
        table.state_replaced();
        assert!(!table.holds_ids(0));
        assert!(table.pin().is_empty());
    }
}
