//! The outcomes of commands.
//!
//! Responses cross between nodes of different releases: `level.rs` says how a variant is added.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::level::{REGISTERS, ROOT_KEY, SHAPES, STEP_BOUNDS, level_of};
use super::pool_workers::PoolWorkers;
use super::tag_entry::TagRow;
use crate::shape::{PeriodNumber, Shape};
use crate::snowflake::{Format, Rules};
use crate::steps::Steps;
use crate::tag::OutOfBounds;

/// The outcome of a command. The responses from [`UnknownTag`](Self::UnknownTag) to
/// [`Invalid`](Self::Invalid), from [`NoFormat`](Self::NoFormat) to [`Frozen`](Self::Frozen),
/// [`BelowFloor`](Self::BelowFloor), from [`OtherShape`](Self::OtherShape) to [`NoRootKey`](Self::NoRootKey), from
/// [`UnknownPool`](Self::UnknownPool) to [`TooManyPools`](Self::TooManyPools), and
/// [`TooManyKeys`](Self::TooManyKeys) are rejections: the command changed nothing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// The tag as it is now, created or changed.
    Tag(TagRow),
    /// The tag is gone.
    Deleted,
    /// The ids `[start, end)` are reserved for the proposer of the grab.
    Segment {
        /// First id of the segment.
        start: u64,
        /// First id past it, at most [`ID_END`](crate::limits::ID_END): what was really reserved.
        end: u64,
        /// The tag's own step at this moment.
        step: u32,
    },
    /// There is no such tag, or it was deleted.
    UnknownTag,
    /// A tag of this name exists.
    TagExists,
    /// The watermark asked for lies below the tag's own.
    MaxIdBehind {
        /// The watermark of the tag.
        max_id: u64,
    },
    /// Every id up to [`ID_MAX`](crate::limits::ID_MAX) is reserved.
    Exhausted,
    /// A value is out of its bounds.
    Invalid {
        /// Which bound it breaks.
        what: OutOfBounds,
    },
    /// The format of the cluster's snowflake ids.
    Format {
        /// The cluster's format: the proposed one, or an earlier one.
        format: Format,
    },
    /// The milliseconds `[floor_ms, fence_ms)` of a worker id are reserved for the grant that asked.
    Window {
        /// Which worker id.
        worker_id: u16,
        /// First millisecond of the window. An extended window still begins where it began.
        floor_ms: u64,
        /// First millisecond past it.
        fence_ms: u64,
    },
    /// The command was carried out, and there is nothing to say about it.
    Noted,
    /// No command has settled yet how snowflake ids are made.
    NoFormat,
    /// Every worker id, or the one asked for, is reserved past this moment.
    NoWorkerFree {
        /// When the first of them is free, in Unix milliseconds.
        free_from_ms: u64,
    },
    /// The format has no such worker id.
    NoSuchWorker,
    /// The grant does not hold the worker id, or no longer.
    NotHolder,
    /// Ids cannot show the time that the window would have: it lies before the epoch, or past the
    /// last bit.
    OutOfTime,
    /// The tag is frozen: nothing of it is reserved.
    Frozen,
    /// What the cluster has settled about snowflake ids.
    Rules {
        /// The cluster's rules: the proposed ones, or earlier ones.
        rules: Rules,
    },
    /// The snowflake floor, raised or as high as was asked already.
    Floor {
        /// The floor before.
        before_ms: u64,
        /// The first millisecond that a window may have.
        floor_ms: u64,
    },
    /// The window would lie below the snowflake floor; or it is not extended, because its holder has not yet reported
    /// that it stamps nothing below the floor.
    BelowFloor {
        /// The first millisecond that a window may have.
        floor_ms: u64,
    },
    /// The tag as it is after the import of its mark.
    Imported {
        /// The mark before; absent when the import has created the tag.
        before: Option<u64>,
        /// The tag as it is now.
        row: TagRow,
    },
    /// The tag with its own shape as it is now, created or changed.
    ShapedTag {
        /// The tag.
        row: TagRow,
        /// Its shape, which the record of a row does not hold.
        shape: Box<Shape>,
    },
    /// The tag has, or the name had, another shape than this command is for.
    OtherShape,
    /// The entry was appended under another leadership than the one that the grab names.
    OtherTerm,
    /// The period is older than those with marks that are kept, or earlier than the latest one of a strict tag: nothing
    /// of it will ever be given again.
    PeriodOver {
        /// Which period.
        number: PeriodNumber,
    },
    /// The period is not now, as this entry is stamped.
    PeriodClosed,
    /// The cluster has no root key yet, which the tag's key would be made from.
    NoRootKey,
    /// The tag with a `step_max` as it is now, created or changed.
    BoundedTag {
        /// The tag.
        row: TagRow,
        /// Its shape, if it is not plain.
        shape: Option<Box<Shape>>,
        /// Its `step_max`. The record of a row holds neither.
        step_max: u32,
    },
    /// As [`Segment`](Self::Segment), for a tag with a `step_max`.
    BoundedSegment {
        /// First id of the segment.
        start: u64,
        /// First id past it.
        end: u64,
        /// What the tag says of grabs at this moment.
        steps: Steps,
    },
    /// The pool was made, given more worker ids, or deleted.
    Pool {
        /// Its worker ids before; absent where there was none.
        before: Option<PoolWorkers>,
        /// Its worker ids now; absent where it was deleted.
        after: Option<PoolWorkers>,
    },
    /// There is no such pool, or it was deleted.
    UnknownPool,
    /// A worker id of the pool would be missing.
    PoolShrinks,
    /// A lease lasts, of the pool that should be deleted or of a worker id that should be taken.
    PoolHeld {
        /// When the last of them ends, in Unix milliseconds.
        until_ms: u64,
    },
    /// There are as many names of pools as the state keeps.
    TooManyPools,
    /// The number of a key of a register.
    Registered {
        /// The number.
        number: u64,
        /// The period that it belongs to, where the register has periods.
        period: Option<PeriodNumber>,
        /// Whether this command gave it to the key.
        is_new: bool,
    },
    /// All registers together have as many keys as the command allows.
    TooManyKeys,
}

impl Response {
    /// The tag that was created or changed, with its shape.
    ///
    /// # Errors
    /// The response, when it shows no such tag.
    pub fn into_tag(self) -> Result<TagRow, Self> {
        match self {
            Self::Tag(row) => Ok(row),
            Self::ShapedTag { row, shape } => Ok(TagRow { shape: Some(Arc::from(shape)), ..row }),
            Self::BoundedTag { row, shape, step_max } => {
                let (shape, step_max) = (shape.map(Arc::from), Some(step_max));
                Ok(TagRow { shape, step_max, ..row })
            }
            other => Err(other),
        }
    }

    /// The tag that was created or changed, without its shape.
    pub fn row(&self) -> Option<&TagRow> {
        match self {
            Self::Tag(row) | Self::ShapedTag { row, .. } | Self::BoundedTag { row, .. } => {
                Some(row)
            }
            _ => None,
        }
    }

    /// The ids that a grab has reserved, and what the tag says of grabs at that moment.
    pub fn segment(&self) -> Option<(Range<u64>, Steps)> {
        match *self {
            Self::Segment { start, end, step } => Some((start..end, Steps::from(step))),
            Self::BoundedSegment { start, end, steps } => Some((start..end, steps)),
            _ => None,
        }
    }

    pub(super) fn of_segment(ids: Range<u64>, steps: Steps) -> Self {
        let Range { start, end } = ids;
        match steps.step_max {
            None => Self::Segment { start, end, step: steps.step },
            Some(_) => Self::BoundedSegment { start, end, steps },
        }
    }

    /// The lowest level of a cluster that gives this response.
    pub(crate) fn level(&self) -> u32 {
        match self {
            Self::NoRootKey
            | Self::Pool { .. }
            | Self::UnknownPool
            | Self::PoolShrinks
            | Self::PoolHeld { .. }
            | Self::TooManyPools => ROOT_KEY,
            Self::Registered { .. }
            | Self::TooManyKeys
            | Self::Invalid { what: OutOfBounds::Key } => REGISTERS,
            Self::BoundedSegment { .. } | Self::Invalid { what: OutOfBounds::StepMax } => {
                STEP_BOUNDS
            }
            Self::BoundedTag { shape, .. } => STEP_BOUNDS.max(shape.as_deref().map_or(1, level_of)),
            Self::ShapedTag { shape, .. } => level_of(shape),
            Self::OtherShape | Self::OtherTerm | Self::PeriodOver { .. } | Self::PeriodClosed => {
                SHAPES
            }
            _ => 1,
        }
    }
}
