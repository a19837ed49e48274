//! Ids that the node already holds, which callers take without waiting.

use std::cell::Cell;
use std::ops::Range;

use super::grabber::GrabQueue;
use super::local::slot::Slot;
use super::source::Source;
use super::tag_table::{PinnedTags, TagTable};
use crate::metrics::{Metrics, Mode};

/// Takes ids of any tags that this node holds. Never waits.
///
/// A value pins the table of tags once, and on drop counts all ids that it handed out. So do not keep it across a wait.
pub struct HeldIds<'a> {
    tags: PinnedTags<'a>,
    grabs: &'a GrabQueue,
    metrics: &'a Metrics,
    handed_out: Cell<u64>,
}

impl<'a> HeldIds<'a> {
    #[inline]
    pub(super) fn new(table: &'a TagTable, grabs: &'a GrabQueue, metrics: &'a Metrics) -> Self {
        Self { tags: table.pin(), grabs, metrics, handed_out: Cell::new(0) }
    }

    /// The next ids of a tag without a gap, if the node holds any: up to `count_max`, which is 1 or more. `None` says
    /// nothing about the tag.
    #[inline]
    pub fn take(&self, tag: &str, count_max: u64) -> Option<Range<u64>> {
        let ids = self.take_from(tag, |slot| slot.take_some(count_max))?;
        self.count(ids.end - ids.start);
        Some(ids)
    }

    /// The next `count` ids of a tag, in as many ranges as needed, if the node holds that many.
    pub fn take_exactly(&self, tag: &str, count: u64) -> Option<Vec<Range<u64>>> {
        let ids = self.take_from(tag, |slot| slot.take_exactly(count))?;
        self.count(count);
        Some(ids)
    }

    #[inline]
    fn take_from<T>(&self, tag: &str, take: impl FnOnce(&Slot) -> (Option<T>, bool)) -> Option<T> {
        let Some(Source::Plain(slot)) = self.tags.get(tag) else { return None };
        let (ids, wants_grab) = take(slot);
        if wants_grab {
            self.grabs.ask(slot);
        }
        ids
    }

    #[inline]
    fn count(&self, handed_out: u64) {
        self.handed_out.set(self.handed_out.get() + handed_out);
    }
}

impl Drop for HeldIds<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.handed_out.get() {
            0 => {}
            count => self.metrics.ids_handed_out(Mode::Segment, count),
        }
    }
}
