//! The source of one tag's ids on this node.

use std::sync::Arc;

use mintleaf_core::segment::BufferView;
use mintleaf_core::shape::Shape;
use mintleaf_core::state::Protection;

use super::local::lines::Lines;
use super::local::slot::{Slot, SlotStatus};

/// The source of one tag's ids. Each variant has its own guard, which keeps the tag's protection.
#[derive(Clone)]
pub(super) enum Source {
    /// A plain tag: the segments that this node holds.
    Plain(Arc<Slot>),
    /// A shaped tag. If any node may hold its ids, it has a slot for each line in present use; otherwise the leader
    /// hands out its ids, or the log gives each key its number.
    Shaped(Arc<Lines>),
}

impl Source {
    /// The shape; `None` for a plain tag.
    pub(super) fn shape(&self) -> Option<&Arc<Shape>> {
        match self {
            Self::Plain(_) => None,
            Self::Shaped(lines) => Some(lines.shape()),
        }
    }

    /// Whether this node holds ids of the tag without the leader.
    pub(super) fn has_slots(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Shaped(lines) => lines.has_slots(),
        }
    }

    /// Applies the tag's protection.
    pub(super) fn protect(&self, protection: Protection) {
        match self {
            Self::Plain(slot) => slot.protect(protection),
            Self::Shaped(lines) => lines.protect(protection),
        }
    }

    /// Ends the tag on this node: callers take nothing more from what it holds of the tag.
    pub(super) fn close(&self) {
        match self {
            Self::Plain(slot) => slot.close(),
            Self::Shaped(lines) => lines.close(),
        }
    }

    /// Gives up the slot of a line whose grabs the log refuses.
    pub(super) fn drop_line(&self, slot: &Arc<Slot>) {
        match self {
            Self::Plain(_) => slot.close(),
            Self::Shaped(lines) => lines.drop_slot(slot),
        }
    }

    /// The slot that must give no id below a mark that an administrator has raised; `None` if this node holds no ids of
    /// the tag. No tag of several lines can be raised, and no shaped one that any node gives.
    pub(super) fn raised_slot(&self) -> Option<&Arc<Slot>> {
        match self {
            Self::Plain(slot) => Some(slot),
            Self::Shaped(_) => None,
        }
    }

    /// Whether the tag's ids come from this slot.
    pub(super) fn has(&self, slot: &Arc<Slot>) -> bool {
        match self {
            Self::Plain(its) => Arc::ptr_eq(its, slot),
            Self::Shaped(lines) => lines.slots().iter().any(|its| Arc::ptr_eq(its, slot)),
        }
    }

    /// Whether any id is held.
    pub(super) fn holds_ids(&self) -> bool {
        match self {
            Self::Plain(slot) => slot.remaining() > 0,
            Self::Shaped(lines) => lines.slots().iter().any(|slot| slot.remaining() > 0),
        }
    }

    /// How many ids were taken since the last call, and how many are held of the latest line.
    pub(super) fn taken_since_look(&self) -> (u64, u64) {
        match self {
            Self::Plain(slot) => slot.taken_since_look(),
            Self::Shaped(lines) => {
                let looked = lines.slots().into_iter().map(|slot| slot.taken_since_look());
                looked.fold((0, 0), |(sum, _), (taken, remaining)| (sum + taken, remaining))
            }
        }
    }

    /// What this node holds; for a tag with periods, of the line that is served at this moment of the cluster's time.
    /// `None` where it holds nothing by itself.
    pub(super) fn status(&self, now_ms: Option<u64>) -> Option<SlotStatus> {
        match self {
            Self::Plain(slot) => Some(slot.status()),
            Self::Shaped(lines) => lines.status(now_ms),
        }
    }

    /// How many ids this node's callers took of a tag whose ids it does not hold without the leader; `None` of others.
    pub(super) fn taken_here(&self) -> Option<u64> {
        match self {
            Self::Plain(_) => None,
            Self::Shaped(lines) => (!lines.has_slots()).then(|| lines.taken()),
        }
    }

    /// The buffer of the line that was opened last.
    pub(super) fn view(&self) -> Option<BufferView> {
        match self {
            Self::Plain(slot) => Some(slot.view()),
            Self::Shaped(lines) => lines.view(),
        }
    }
}
