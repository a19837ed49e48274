//! One tag: the watermark of its ids, and what is said about it.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::protection::{Condition, Protection};
use super::shared_table::Named;
use super::tag_fields::TagFields;
use super::watermark::Watermark;
use crate::limits::STEP_MAX;
use crate::shape::Shape;
use crate::steps::Steps;
use crate::tag::BizTag;

/// One existing tag, as it is shown.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct TagRow {
    /// Its name.
    pub tag: BizTag,
    /// First number not yet reserved: 1 to [`ID_END`](crate::limits::ID_END); at that the tag is exhausted. For a tag
    /// with periods, the mark of the latest period used; for a sequence, the mark of its highest section.
    pub max_id: u64,
    /// Fewest ids in one grab, 1 to [`STEP_MAX`].
    pub step: u32,
    /// Free text, possibly empty.
    pub description: String,
    /// When it was created (again), in Unix milliseconds of the log's time.
    pub created_at_ms: u64,
    /// When it last changed, grabs included, in Unix milliseconds of the log's time.
    pub updated_at_ms: u64,
    /// What keeps callers from taking its ids.
    pub protection: Protection,
    /// Its shape; `None` of a plain tag. The record of a row, which is older than shapes, leaves it out.
    #[serde(skip)]
    pub shape: Option<Arc<Shape>>,
    /// Most ids in one grab; as many as are wanted when absent. The record leaves it out, too.
    #[serde(skip)]
    pub step_max: Option<u32>,
}

impl TagRow {
    /// How many ids a grab may reserve.
    pub fn steps(&self) -> Steps {
        Steps { step: self.step, step_max: self.step_max }
    }
}

/// A tag that exists, or the tombstone of one that did. An entry is never removed: its watermark
/// keeps a later tag of the same name from giving an id again.
///
/// A state may hold millions of entries, so each takes 64 bytes besides its texts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct TagEntry {
    tag: BizTag,
    max_id: Watermark,
    step: u32,
    condition: Condition,
    created_at_ms: u64,
    updated_at_ms: u64,
    description: Box<str>,
}

impl Named for TagEntry {
    fn name(&self) -> &str {
        self.tag.as_str()
    }
}

impl TagEntry {
    /// The entry of a name that was never used, as yet without a tag.
    pub(super) fn unborn(tag: BizTag) -> Self {
        Self {
            tag,
            max_id: Watermark::LOWEST,
            step: 0,
            condition: Condition::GONE,
            created_at_ms: 0,
            updated_at_ms: 0,
            description: Box::default(),
        }
    }

    pub(super) fn tag(&self) -> &BizTag {
        &self.tag
    }

    pub(super) fn is_live(&self) -> bool {
        self.condition.is_live()
    }

    pub(super) fn protection(&self) -> Protection {
        self.condition.protection()
    }

    pub(super) fn step(&self) -> u32 {
        self.step
    }

    /// Whether an entry that was read could have been written. Its types have checked the rest.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_live() || (1..=STEP_MAX).contains(&self.step)
    }

    /// The row of a tag that exists; `None` for a tombstone.
    pub(super) fn row(&self) -> Option<TagRow> {
        self.is_live().then(|| self.shown())
    }

    /// Makes the tag exist. Its ids begin at `start`, or above every id of an earlier life.
    pub(super) fn create(
        &mut self,
        step: u32,
        start: u64,
        description: &str,
        protection: Protection,
        now_ms: u64,
    ) {
        self.max_id.raise(start.max(self.max_id.get()));
        self.condition = Condition::live(protection);
        self.step = step;
        self.description = description.into();
        self.created_at_ms = now_ms;
        self.updated_at_ms = now_ms;
    }

    /// Changes the given fields.
    ///
    /// # Errors
    /// The watermark, when the new one lies below it; nothing is changed then.
    pub(super) fn update(&mut self, fields: &TagFields, now_ms: u64) -> Result<(), u64> {
        let reserved = self.max_id.get();
        if fields.max_id.is_some_and(|max_id| max_id < reserved) {
            return Err(reserved);
        }
        self.max_id.raise(fields.max_id.unwrap_or(reserved));
        self.step = fields.step.unwrap_or(self.step);
        if let Some(description) = &fields.description {
            self.description = description.as_str().into();
        }
        let Protection { rate_limit, frozen } = self.condition.protection();
        self.condition = Condition::live(Protection {
            rate_limit: fields.rate_limit.unwrap_or(rate_limit),
            frozen: fields.frozen.unwrap_or(frozen),
        });
        self.updated_at_ms = now_ms;
        Ok(())
    }

    /// Makes the tag a tombstone, which keeps the watermark.
    pub(super) fn delete(&mut self, now_ms: u64) {
        self.condition = Condition::GONE;
        self.description = Box::default();
        self.updated_at_ms = now_ms;
    }

    /// Reserves `size` ids, or all ids below `line_end` that are left when these are fewer; `None` when no id is left.
    pub(super) fn grab(&mut self, size: u32, line_end: u64, now_ms: u64) -> Option<Range<u64>> {
        let ids = self.max_id.grab(size, line_end)?;
        self.touch(now_ms);
        Some(ids)
    }

    /// Notes that the tag changed.
    pub(super) fn touch(&mut self, now_ms: u64) {
        self.updated_at_ms = now_ms;
    }

    /// Raises the mark to behind the last number that is known, or else by this many ids, or to the end.
    pub(super) fn rise(&mut self, by: u64, last: Option<u64>) {
        let Self {
            tag: _,
            max_id,
            step: _,
            condition: _,
            created_at_ms: _,
            updated_at_ms: _,
            description: _,
        } = self;
        max_id.rise_behind(last, by);
    }

    /// The watermark, of a deleted tag too.
    pub(super) fn max_id(&self) -> u64 {
        self.max_id.get()
    }

    fn shown(&self) -> TagRow {
        TagRow {
            tag: self.tag.clone(),
            max_id: self.max_id.get(),
            step: self.step,
            description: self.description.as_ref().to_owned(),
            created_at_ms: self.created_at_ms,
            updated_at_ms: self.updated_at_ms,
            protection: self.condition.protection(),
            shape: None,
            step_max: None,
        }
    }
}

/// A million entries fit 64 MB besides their texts.
const _: () = assert!(size_of::<TagEntry>() == 64);
