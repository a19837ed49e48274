//! Ids that are at hand.

use std::cell::Cell;
use std::ops::Range;

use super::IdService;
use super::slot::Slot;
use super::table::Pinned;
use crate::metrics::Mode;

/// Takes ids, of whichever tags, that this node holds. Never waits.
///
/// It enters the table of tags once, and counts what it handed out once, when it is dropped: not to
/// be kept across a wait.
pub struct Taker<'a> {
    service: &'a IdService,
    slots: Pinned<'a>,
    handed_out: Cell<u64>,
}

impl<'a> Taker<'a> {
    #[inline]
    pub(super) fn new(service: &'a IdService) -> Self {
        Self { service, slots: service.table.pin(), handed_out: Cell::new(0) }
    }

    /// The next ids of a tag, if one is held: up to `count_max`, 1 or more, in one piece. `None`
    /// means nothing about the tag.
    #[inline]
    pub fn take(&self, tag: &str, count_max: u64) -> Option<Range<u64>> {
        let ids = self.take_from(tag, |slot| slot.take_some(count_max))?;
        self.count(ids.end - ids.start);
        Some(ids)
    }

    /// The next `count` ids of a tag, in as many pieces as it takes, if as many are held.
    pub fn take_exactly(&self, tag: &str, count: u64) -> Option<Vec<Range<u64>>> {
        let ids = self.take_from(tag, |slot| slot.take_exactly(count))?;
        self.count(count);
        Some(ids)
    }

    #[inline]
    fn take_from<T>(&self, tag: &str, take: impl FnOnce(&Slot) -> (Option<T>, bool)) -> Option<T> {
        let slot = self.slots.get(tag)?;
        let (ids, ask) = take(slot);
        if ask {
            self.service.ask_for_grab(slot);
        }
        ids
    }

    #[inline]
    fn count(&self, handed_out: u64) {
        self.handed_out.set(self.handed_out.get() + handed_out);
    }
}

impl Drop for Taker<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.handed_out.get() {
            0 => {}
            count => self.service.metrics.ids_handed_out(Mode::Segment, count),
        }
    }
}
