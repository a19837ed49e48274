//! One tag: the watermark of its ids, and what is said about it.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::protection::{Condition, Protection};
use super::shared_table::Named;
use super::tag_fields::TagFields;
use super::watermark::Watermark;
use crate::limits::STEP_MAX;
use crate::shape::{Giver, Shape};
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
    /// Maximum number of ids in one grab; as many as are wanted when absent. The record leaves it out, too.
    #[serde(skip)]
    pub step_max: Option<u32>,
}

impl TagRow {
    /// How many ids a grab may reserve.
    pub fn steps(&self) -> Steps {
        Steps { step: self.step, step_max: self.step_max }
    }

    /// Its shape, that of a plain tag included.
    pub fn shape(&self) -> &Shape {
        self.shape.as_deref().unwrap_or(Shape::plain())
    }

    /// Who gives its ids.
    pub fn giver(&self) -> Giver {
        self.shape().giver()
    }
}

/// A tag that exists, or the tombstone of one that did, besides its name. An entry is never removed: its watermark
/// keeps a later tag of the same name from giving an id again.
///
/// `D` is the description, owned or borrowed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct TagEntry<D = Box<str>> {
    pub(super) max_id: Watermark,
    pub(super) step: u32,
    pub(super) condition: Condition,
    pub(super) created_at_ms: u64,
    pub(super) updated_at_ms: u64,
    pub(super) description: D,
}

/// An entry with its name; `N` and `D` are texts, owned or borrowed. A snapshot holds this record.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct NamedTag<N = BizTag, D = Box<str>> {
    pub(super) name: N,
    pub(super) entry: TagEntry<D>,
}

impl<N: AsRef<str>, D> Named for NamedTag<N, D> {
    fn name(&self) -> &str {
        self.name.as_ref()
    }
}

impl NamedTag {
    pub(super) fn borrowed(&self) -> NamedTag<&str, &str> {
        NamedTag { name: self.name.as_str(), entry: self.entry.borrowed() }
    }
}

impl TagEntry<&str> {
    /// The entry with a description of its own.
    pub(super) fn owned(&self) -> TagEntry {
        self.with(self.description.into())
    }
}

impl<D> TagEntry<D> {
    fn with<E>(&self, description: E) -> TagEntry<E> {
        let Self { max_id, step, condition, created_at_ms, updated_at_ms, description: _ } = *self;
        TagEntry { max_id, step, condition, created_at_ms, updated_at_ms, description }
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

    /// The watermark, of a deleted tag too.
    pub(super) fn max_id(&self) -> u64 {
        self.max_id.get()
    }

    /// Whether an entry that was read could have been written. Its types have checked the rest.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_live() || (1..=STEP_MAX).contains(&self.step)
    }
}

impl TagEntry {
    /// The entry of a name that was never used, as yet without a tag.
    pub(super) fn unborn() -> Self {
        Self {
            max_id: Watermark::LOWEST,
            step: 0,
            condition: Condition::GONE,
            created_at_ms: 0,
            updated_at_ms: 0,
            description: Box::default(),
        }
    }

    pub(super) fn borrowed(&self) -> TagEntry<&str> {
        self.with(&self.description)
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
            max_id,
            step: _,
            condition: _,
            created_at_ms: _,
            updated_at_ms: _,
            description: _,
        } = self;
        max_id.rise_behind(last, by);
    }
}

impl NamedTag<&str, &str> {
    pub(super) fn tag(&self) -> BizTag {
        BizTag::parse(self.name).expect("a name in the table is that of a tag")
    }

    /// The row of a tag that exists, as a plain one; `None` for a tombstone.
    pub(super) fn row(&self) -> Option<TagRow> {
        let Self { name: _, entry } = self;
        entry.is_live().then(|| TagRow {
            tag: self.tag(),
            max_id: entry.max_id(),
            step: entry.step,
            description: entry.description.to_owned(),
            created_at_ms: entry.created_at_ms,
            updated_at_ms: entry.updated_at_ms,
            protection: entry.protection(),
            shape: None,
            step_max: None,
        })
    }
}
