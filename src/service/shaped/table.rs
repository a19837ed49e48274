//! The shaped tags that this node was asked for since it started.

use std::sync::Arc;

use foldhash::quality::RandomState;
use papaya::HashMap;

use super::tag::ShapedTag;
use crate::segment::BufferView;
use crate::service::slot::Slot;
use crate::state::Protection;
use crate::tag::BizTag;

/// Shaped tags by name. Looking one up takes no lock.
#[derive(Default)]
pub(in crate::service) struct ShapedTable(HashMap<BizTag, Arc<ShapedTag>, RandomState>);

impl ShapedTable {
    pub(in crate::service) fn get(&self, tag: &str) -> Option<Arc<ShapedTag>> {
        self.0.pin().get(tag).cloned()
    }

    /// Puts in a tag, unless another call was first; answers which one is there now.
    pub(in crate::service) fn get_or_insert(&self, new: ShapedTag) -> Arc<ShapedTag> {
        let tag = new.tag().clone();
        Arc::clone(self.0.pin().get_or_insert(tag, Arc::new(new)))
    }

    /// Ends and removes a tag. It may get another place later, which starts empty.
    pub(in crate::service) fn remove(&self, tag: &str) {
        if let Some(shaped) = self.0.pin().remove(tag) {
            shaped.close();
        }
    }

    /// Ends this slot, and removes its tag if it is still a slot of it.
    pub(in crate::service) fn forget(&self, slot: &Arc<Slot>) {
        let is_its = |_: &BizTag, shaped: &Arc<ShapedTag>| {
            shaped.slots().iter().any(|its| Arc::ptr_eq(its, slot))
        };
        if let Ok(Some((_, shaped))) = self.0.pin().remove_if(slot.tag(), is_its) {
            shaped.close();
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
        if let Some(shaped) = self.0.pin().get(tag) {
            shaped.protect(protection);
        }
    }

    /// Ends and removes all tags.
    pub(in crate::service) fn drop_all(&self) {
        let mut tags: Vec<BizTag> = self.0.pin().keys().cloned().collect();
        // The callers that wait wake in this order, which no hash may decide: a simulated run comes out the same each
        // time.
        tags.sort_unstable();
        tags.iter().for_each(|tag| self.remove(tag.as_str()));
    }

    /// Whether any id of a shaped tag is held.
    pub(in crate::service) fn holds_ids(&self) -> bool {
        let holds =
            |shaped: &Arc<ShapedTag>| shaped.slots().iter().any(|slot| slot.remaining() > 0);
        self.0.pin().values().any(holds)
    }

    /// The tags that ids were taken of since the last call, and how many.
    pub(in crate::service) fn taken_since_look(&self) -> Vec<(BizTag, u64)> {
        let taken = |shaped: &ShapedTag| {
            shaped.slots().iter().map(|slot| slot.taken_since_look().0).sum::<u64>()
        };
        let shaped = self.0.pin();
        let tags = shaped.iter().map(|(tag, shaped)| (tag.clone(), taken(shaped)));
        tags.filter(|(_, taken)| *taken > 0).collect()
    }

    /// The buffers of the lines that are drawn from now, of the tags of which this node holds any.
    pub(in crate::service) fn views(&self) -> Vec<(BizTag, BufferView)> {
        let shaped = self.0.pin();
        shaped.iter().filter_map(|(tag, shaped)| Some((tag.clone(), shaped.view()?))).collect()
    }
}
