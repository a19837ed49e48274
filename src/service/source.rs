//! The source of one tag's ids on this node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mintleaf_core::segment::BufferView;
use mintleaf_core::shape::{Giver, Shape};
use mintleaf_core::state::{Protection, TagRow};
use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;

use super::error::Error;
use super::local::guard::Guard;
use super::local::lines::Lines;
use super::local::slot::{Slot, SlotStatus};
use crate::machine::clock::Clock;

/// The source of one tag's ids: one for each [`Giver`], and one for plain tags. Each variant has its own guard, which
/// keeps the tag's protection.
#[derive(Clone)]
pub(super) enum Source {
    /// A plain tag: the segments that this node holds.
    Plain(Arc<Slot>),
    /// A shaped tag whose ids any node may hold: a slot for each line in present use.
    Trend(Arc<Lines>),
    /// A strict tag: the leader hands out its ids.
    Strict(Arc<Lines>),
    /// A sequence: the leader hands out the numbers of its keys.
    Keys(Arc<Keys>),
    /// A register: the log gives each key its number.
    Register(Arc<Lines>),
}

/// A sequence on this node.
pub(super) struct Keys {
    tag: BizTag,
    shape: Arc<Shape>,
    guard: Mutex<Guard>,
    clock: Arc<dyn Clock>,
    taken: AtomicU64,
}

impl Source {
    /// The source of a tag that is not plain.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where this build does not know the tag's time zone.
    pub(super) fn shaped(
        row: &TagRow,
        shape: &Arc<Shape>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let lines = |clock| Lines::new(row, shape, clock).map(Arc::new);
        Ok(match shape.giver() {
            Giver::AnyNode => Self::Trend(lines(clock)?),
            Giver::Leader => Self::Strict(lines(clock)?),
            Giver::Log => Self::Register(lines(clock)?),
            Giver::LeaderByKey => {
                let (tag, shape) = (row.tag.clone(), Arc::clone(shape));
                let (guard, taken) = (Mutex::default(), AtomicU64::new(0));
                Self::Keys(Arc::new(Keys { tag, shape, guard, clock, taken }))
            }
        })
    }

    /// The shape; `None` for a plain tag.
    pub(super) fn shape(&self) -> Option<&Arc<Shape>> {
        match self {
            Self::Plain(_) => None,
            Self::Trend(lines) | Self::Strict(lines) | Self::Register(lines) => Some(lines.shape()),
            Self::Keys(keys) => Some(&keys.shape),
        }
    }

    /// Whether this node holds ids of the tag without the leader.
    pub(super) fn has_slots(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Trend(_) => true,
            Self::Strict(_) | Self::Keys(_) | Self::Register(_) => false,
        }
    }

    /// Applies the tag's protection.
    pub(super) fn protect(&self, protection: Protection) {
        match self {
            Self::Plain(slot) => slot.protect(protection),
            Self::Trend(lines) | Self::Strict(lines) | Self::Register(lines) => {
                lines.protect(protection);
            }
            Self::Keys(keys) => keys.guard.lock().protect(protection, keys.clock.monotonic_ms()),
        }
    }

    /// Ends the tag on this node: callers take nothing more from what it holds of the tag.
    pub(super) fn close(&self) {
        match self {
            Self::Plain(slot) => slot.close(),
            Self::Trend(lines) | Self::Strict(lines) | Self::Register(lines) => lines.close(),
            // Only the leader holds numbers of keys, and it knows that the tag is gone.
            Self::Keys(_) => {}
        }
    }

    /// Gives up the slot of a line whose grabs the log refuses.
    pub(super) fn drop_line(&self, slot: &Arc<Slot>) {
        match self {
            Self::Trend(lines) => lines.drop_slot(slot),
            Self::Plain(_) | Self::Strict(_) | Self::Keys(_) | Self::Register(_) => slot.close(),
        }
    }

    /// The slot that must give no id below a mark that an administrator has raised; `None` if this node holds no ids of
    /// the tag. No tag of several lines can be raised, and no shaped one that any node gives.
    pub(super) fn raised_slot(&self) -> Option<&Arc<Slot>> {
        match self {
            Self::Plain(slot) => Some(slot),
            Self::Trend(_) | Self::Strict(_) | Self::Keys(_) | Self::Register(_) => None,
        }
    }

    /// Whether the tag's ids come from this slot.
    pub(super) fn has(&self, slot: &Arc<Slot>) -> bool {
        match self {
            Self::Plain(its) => Arc::ptr_eq(its, slot),
            Self::Trend(lines) => lines.slots().iter().any(|its| Arc::ptr_eq(its, slot)),
            Self::Strict(_) | Self::Keys(_) | Self::Register(_) => false,
        }
    }

    /// Whether any id is held.
    pub(super) fn holds_ids(&self) -> bool {
        match self {
            Self::Plain(slot) => slot.remaining() > 0,
            Self::Trend(lines) => lines.slots().iter().any(|slot| slot.remaining() > 0),
            Self::Strict(_) | Self::Keys(_) | Self::Register(_) => false,
        }
    }

    /// How many ids were taken since the last call, and how many are held of the latest line.
    pub(super) fn taken_since_look(&self) -> (u64, u64) {
        match self {
            Self::Plain(slot) => slot.taken_since_look(),
            Self::Trend(lines) => {
                let looked = lines.slots().into_iter().map(|slot| slot.taken_since_look());
                looked.fold((0, 0), |(sum, _), (taken, remaining)| (sum + taken, remaining))
            }
            Self::Strict(_) | Self::Keys(_) | Self::Register(_) => (0, 0),
        }
    }

    /// What this node holds; for a tag with periods, of the line that is served at this moment of the cluster's time.
    /// `None` where it holds nothing by itself.
    pub(super) fn status(&self, now_ms: Option<u64>) -> Option<SlotStatus> {
        match self {
            Self::Plain(slot) => Some(slot.status()),
            Self::Trend(lines) => lines.status(now_ms),
            Self::Strict(_) | Self::Keys(_) | Self::Register(_) => None,
        }
    }

    /// How many ids this node's callers took that the leader handed out; `None` of other sources.
    pub(super) fn taken_here(&self) -> Option<u64> {
        match self {
            Self::Plain(_) | Self::Trend(_) => None,
            Self::Strict(lines) | Self::Register(lines) => Some(lines.taken()),
            Self::Keys(keys) => Some(keys.taken.load(Relaxed)),
        }
    }

    /// The buffer of the line that was opened last.
    pub(super) fn view(&self) -> Option<BufferView> {
        match self {
            Self::Plain(slot) => Some(slot.view()),
            Self::Trend(lines) => lines.view(),
            Self::Strict(_) | Self::Keys(_) | Self::Register(_) => None,
        }
    }
}

impl Keys {
    /// The tag.
    pub(super) fn tag(&self) -> &BizTag {
        &self.tag
    }

    /// Counts numbers that went to a caller.
    pub(super) fn count_taken(&self, count: u64) {
        self.taken.fetch_add(count, Relaxed);
    }

    /// Admits a call for `count` numbers, and deducts them from what the rate limit allows on this node.
    ///
    /// # Errors
    /// As for [`Guard::admit`].
    pub(super) fn admit(&self, count: u64) -> Result<(), Error> {
        let mut guard = self.guard.lock();
        guard.admit(count, || self.clock.monotonic_ms())?;
        guard.pay(count);
        Ok(())
    }

    /// Whether [`admit`](Self::admit) would admit a call for `count` numbers now. Deducts nothing from the limit.
    ///
    /// # Errors
    /// As for [`Guard::admit`].
    pub(super) fn would_admit(&self, count: u64) -> Result<(), Error> {
        self.guard.lock().admit(count, || self.clock.monotonic_ms())
    }
}
