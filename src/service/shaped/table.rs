//! The shaped tags that this node was asked for since it started.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use foldhash::quality::RandomState;
use mintleaf_core::segment::BufferView;
use mintleaf_core::state::Protection;
use mintleaf_core::tag::BizTag;
use papaya::HashMap;

use super::tag::ShapedTag;
use crate::service::slot::Slot;

/// Shaped tags by name. Looking one up takes no lock.
#[derive(Default)]
pub(in crate::service) struct ShapedTable {
    tags: HashMap<BizTag, Arc<ShapedTag>, RandomState>,
    /// How many of them this node holds ids of without the leader.
    with_slots: AtomicUsize,
}

/// A tag that ids were taken of since the last look: how many, and how many are held.
pub(in crate::service) type TakenSinceLook = (BizTag, (u64, u64));

impl ShapedTable {
    pub(in crate::service) fn get(&self, tag: &str) -> Option<Arc<ShapedTag>> {
        self.tags.pin().get(tag).cloned()
    }

    /// Puts in a tag, unless another call was first; returns the one that is there now.
    pub(in crate::service) fn get_or_insert(&self, new: ShapedTag) -> Arc<ShapedTag> {
        let (tag, new) = (new.tag().clone(), Arc::new(new));
        match self.tags.pin().try_insert(tag, Arc::clone(&new)) {
            Ok(_) => {
                self.with_slots.fetch_add(usize::from(new.has_slots()), Relaxed);
                new
            }
            Err(occupied) => Arc::clone(occupied.current),
        }
    }

    /// Ends and removes a tag. It may get another place later, which starts empty.
    pub(in crate::service) fn remove(&self, tag: &str) {
        if let Some(shaped) = self.tags.pin().remove(tag) {
            self.end(shaped);
        }
    }

    fn end(&self, removed: &ShapedTag) {
        self.with_slots.fetch_sub(usize::from(removed.has_slots()), Relaxed);
        removed.close();
    }

    /// Ends this slot, and removes its tag if it is still a slot of it.
    pub(in crate::service) fn forget(&self, slot: &Arc<Slot>) {
        let is_its = |_: &BizTag, shaped: &Arc<ShapedTag>| {
            shaped.slots().iter().any(|its| Arc::ptr_eq(its, slot))
        };
        if let Ok(Some((_, shaped))) = self.tags.pin().remove_if(slot.tag(), is_its) {
            self.end(shaped);
        }
        slot.close();
    }

    /// Gives up the slot of one of a tag's lines.
    pub(in crate::service) fn drop_slot(&self, slot: &Arc<Slot>) {
        match self.get(slot.tag().as_str()) {
            Some(shaped) => shaped.drop_slot(slot),
            None => slot.close(),
        }
    }

    pub(in crate::service) fn protect(&self, tag: &str, protection: Protection) {
        if let Some(shaped) = self.tags.pin().get(tag) {
            shaped.protect(protection);
        }
    }

    /// Ends and removes all tags.
    pub(in crate::service) fn drop_all(&self) {
        let mut tags = self.names();
        // The callers that wait wake in this order, which no hash may decide: a simulated run comes out the same each
        // time.
        tags.sort_unstable();
        tags.iter().for_each(|tag| self.remove(tag.as_str()));
    }

    /// Whether any id of a shaped tag is held.
    pub(in crate::service) fn holds_ids(&self) -> bool {
        let holds =
            |shaped: &Arc<ShapedTag>| shaped.slots().iter().any(|slot| slot.remaining() > 0);
        self.tags.pin().values().any(holds)
    }

    /// How many tags there are that this node holds ids of without the leader.
    pub(in crate::service) fn with_slots(&self) -> usize {
        self.with_slots.load(Relaxed)
    }

    /// How many tags there are.
    pub(in crate::service) fn len(&self) -> usize {
        self.tags.pin().len()
    }

    /// All tags, in no order.
    pub(in crate::service) fn names(&self) -> Vec<BizTag> {
        self.tags.pin().keys().cloned().collect()
    }

    /// The tags that ids were taken of since the last call, how many, and how many are held of the latest line.
    pub(in crate::service) fn taken_since_look(&self) -> Vec<TakenSinceLook> {
        let look = |shaped: &ShapedTag| {
            let lines = shaped.slots().into_iter().map(|slot| slot.taken_since_look());
            lines.fold((0, 0), |(sum, _), (taken, remaining)| (sum + taken, remaining))
        };
        let shaped = self.tags.pin();
        let tags = shaped.iter().map(|(tag, shaped)| (tag.clone(), look(shaped)));
        tags.filter(|(_, (taken, _))| *taken > 0).collect()
    }

    /// For the tags that this node holds ids of: the buffers of the lines that are drawn from now.
    pub(in crate::service) fn views(&self) -> Vec<(BizTag, BufferView)> {
        let shaped = self.tags.pin();
        shaped.iter().filter_map(|(tag, shaped)| Some((tag.clone(), shaped.view()?))).collect()
    }
}
