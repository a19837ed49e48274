//! First segments on their way to a slot.
//!
//! What the log says of a tag reaches the tag's slot. A tag that is created on first use has a segment before it has a
//! slot: one task applies the entry, and another, which asked for it, makes the slot a moment later. Changes that
//! arrive in that moment, from any node, are kept here for the slot.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use mintleaf_core::tag::BizTag;

/// The tags that this node has requested a first segment for, and what it has heard of each since.
#[derive(Debug, Default)]
pub(in crate::service) struct FirstSegments(Mutex<BTreeMap<BizTag, Expected>>);

#[derive(Debug, Default)]
struct Expected {
    /// How many callers ask for one. All but one of them get none.
    callers: usize,
    heard: Heard,
}

/// The changes of a tag that this node has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::service) struct Heard {
    /// No id below it is to be given.
    pub(in crate::service) floor: u64,
    /// The tag was deleted, or its fate is unknown: nothing is to be given.
    pub(in crate::service) is_gone: bool,
}

impl FirstSegments {
    /// Keeps what this node sees of a tag until the returned value is dropped.
    pub(in crate::service) fn expect(&self, tag: &BizTag) -> FirstSegment<'_> {
        self.0.lock().entry(tag.clone()).or_default().callers += 1;
        FirstSegment { all: self, tag: tag.clone() }
    }

    /// Notes a mark that was named of a tag.
    pub(in crate::service) fn tag_raised(&self, tag: &str, mark: u64) {
        if let Some(expected) = self.0.lock().get_mut(tag) {
            expected.heard.floor = expected.heard.floor.max(mark);
        }
    }

    /// Notes that a tag was deleted.
    pub(in crate::service) fn tag_deleted(&self, tag: &str) {
        if let Some(expected) = self.0.lock().get_mut(tag) {
            expected.heard.is_gone = true;
        }
    }

    /// Notes that the whole state was replaced: any tag may have been deleted or raised.
    pub(in crate::service) fn state_replaced(&self) {
        self.0.lock().values_mut().for_each(|expected| expected.heard.is_gone = true);
    }
}

/// A first segment that is on its way.
#[derive(Debug)]
pub(in crate::service) struct FirstSegment<'a> {
    all: &'a FirstSegments,
    tag: BizTag,
}

impl FirstSegment<'_> {
    /// Has `put` make the slot from what was heard. The lock is held until `put` is done, so a later change finds the
    /// slot.
    pub(in crate::service) fn put<T>(&self, put: impl FnOnce(Heard) -> T) -> T {
        let all = self.all.0.lock();
        put(all.get(&self.tag).map(|expected| expected.heard).unwrap_or_default())
    }
}

impl Drop for FirstSegment<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if let Some(expected) = all.get_mut(&self.tag) {
            expected.callers -= 1;
            if expected.callers == 0 {
                all.remove(&self.tag);
            }
        }
    }
}
