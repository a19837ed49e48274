//! Tags as their administrators see them: created, read, changed, deleted.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::limits::{DOUBLE_EXACT_MAX, UNFORCED_RISE_MAX};
use mintleaf_core::segment::BufferView;
use mintleaf_core::shape::Shape;
use mintleaf_core::state::{Actor, Change, Response, TagFields, TagPage, TagRow};
use mintleaf_core::tag::BizTag;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::audit;
use super::notes::{all_take_note, take_note};
use super::tag_creation::{TagCreation, TagSpec, check_steps};
use crate::limits::HTML_ROWS_MAX;
use crate::service::error::Error;
use crate::service::log_access::{self, Consistency, refresh};
use crate::service::parts::ServiceParts;

/// Buffers that are shown at most: one more than a page has rows, so that the page knows whether there are more.
const BUFFERS_SHOWN_MAX: usize = HTML_ROWS_MAX + 1;
/// If the buffers were looked through this recently, the same result is shown again.
const RECENT: Duration = Duration::from_secs(1);

/// The tags of the cluster, and what this node holds of them.
pub struct TagService {
    pub(in crate::service) parts: ServiceParts,
    pub(in crate::service) creation: Arc<TagCreation>,
    /// The buffers as they were shown last, and when.
    pub(in crate::service) recent: Mutex<Option<(Instant, Arc<BufferViews>)>>,
}

/// The error of a mark for a tag with this shape.
fn takes_no_max_id(shape: &Shape) -> Error {
    let why = format!("max_id cannot be set of a tag with {}", shape.named());
    Error::invalid("max_id", why)
}

/// The buffers of some tags, by name.
type BufferViews = Vec<(BizTag, BufferView)>;

/// The fields of a tag that shall change; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TagChange {
    /// Ids per grab, from the next grab on.
    pub step: Option<u32>,
    /// Maximum number of ids per grab; as many as are wanted for `Some(None)`.
    pub step_max: Option<Option<u32>>,
    /// The new watermark, which moves forward only.
    pub max_id: Option<u64>,
    /// Free text.
    pub description: Option<String>,
    /// Ids that each node hands out in a second; any number for `Some(None)`.
    pub rate_limit: Option<Option<u32>>,
    /// Whether no node hands out an id.
    pub frozen: Option<bool>,
    /// Whether the watermark may rise by more than [`UNFORCED_RISE_MAX`].
    pub force: bool,
}

impl TagService {
    /// Creates a tag. A tag that was deleted goes on above every id it ever had.
    ///
    /// # Errors
    /// [`Error::TagExists`], [`Error::TooManyTags`], [`Error::InvalidArgument`]; [`Error::Overloaded`] behind
    /// too many other creations; [`Error::Unavailable`] without a quorum.
    pub async fn create(&self, actor: &Actor, tag: BizTag, spec: TagSpec) -> Result<TagRow, Error> {
        let row = self.creation.create(actor, tag, spec).await?;
        warn_of_doubles(&row);
        Ok(row)
    }

    /// Changes the given fields of a tag: all of them, or none on an error.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::Conflict`], [`Error::InvalidArgument`];
    /// [`Error::Unavailable`] without a quorum.
    pub async fn update(
        &self,
        actor: &Actor,
        tag: BizTag,
        change: TagChange,
    ) -> Result<TagRow, Error> {
        let TagChange { step, step_max, max_id, description, rate_limit, frozen, force } = change;
        let binds_held = max_id.is_some() || rate_limit.is_some() || frozen.is_some();
        let fields = TagFields { step, max_id, description, rate_limit, frozen };
        let change = match step_max {
            None => Change::UpdateTag { tag: tag.clone(), fields },
            Some(step_max) => Change::UpdateBoundedTag { tag: tag.clone(), fields, step_max },
        };
        let command = audit::command(actor, &change);
        command.check()?;
        if let Some(shape) = self.shape(tag.as_str()) {
            check_steps(&shape, step.is_some(), step_max.flatten().is_some())?;
        }
        if let Some(shape) = self.shape(tag.as_str())
            && max_id.is_some()
            && !shape.takes_max_id()
        {
            return Err(takes_no_max_id(&shape));
        }
        if let (Some(max_id), false) = (max_id, force) {
            self.check_rise(&tag, max_id).await?;
        }
        match log_access::change(&self.parts.replica, command).await?.into_tag() {
            Ok(row) => {
                match binds_held {
                    true => all_take_note(&self.parts.replica).await,
                    false => take_note(&self.parts.replica).await,
                }
                audit::log(actor, &change, &change.facts(Some(&row)));
                if max_id.is_some() {
                    warn_of_doubles(&row);
                }
                Ok(row)
            }
            Err(Response::OtherShape) => {
                Err(takes_no_max_id(&self.shape(tag.as_str()).unwrap_or_default()))
            }
            Err(rejection) => Err(Error::rejected(&self.parts.replica, &rejection)),
        }
    }

    /// The shape of a tag that this node's copy shows; `None` of a plain one.
    fn shape(&self, tag: &str) -> Option<Arc<Shape>> {
        self.parts.replica.read(|state| state.tag(tag)).and_then(|row| row.shape)
    }

    /// Deletes a tag. Every node that hears the leader stops handing its ids out, as a rule before this returns.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Unavailable`] without a quorum.
    pub async fn delete(&self, actor: &Actor, tag: BizTag) -> Result<(), Error> {
        let change = Change::DeleteTag { tag };
        match log_access::change(&self.parts.replica, audit::command(actor, &change)).await? {
            Response::Deleted => {
                all_take_note(&self.parts.replica).await;
                audit::log(actor, &change, &change.facts(None));
                Ok(())
            }
            rejection => Err(Error::rejected(&self.parts.replica, &rejection)),
        }
    }

    /// A tag's row.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn get(&self, tag: &str, consistency: Consistency) -> Result<TagRow, Error> {
        refresh(&self.parts.replica, consistency).await?;
        self.parts.replica.read(|state| state.tag(tag)).ok_or(Error::UnknownTag)
    }

    /// One page of the rows whose names begin with `prefix`, in the order of their names, beginning after the name
    /// `after`: up to `limit`, and none that `has_room` refuses.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        has_room: impl FnMut(&TagRow) -> bool,
        consistency: Consistency,
    ) -> Result<TagPage, Error> {
        refresh(&self.parts.replica, consistency).await?;
        Ok(self.parts.replica.read(|state| state.tags_page(prefix, after, limit, has_room)))
    }

    /// A tag's `max_id` in this node's copy; `None` for a tag that this node does not know.
    pub fn max_id(&self, tag: &str) -> Option<u64> {
        self.parts.replica.read(|state| state.tag(tag)).map(|row| row.max_id)
    }

    /// The buffers of this node's first 1,001 tags in the order of their names, as they were at most a second ago. A
    /// node may have many more, so a separate thread looks through them, once for all callers of about the same time.
    pub async fn buffers(&self) -> Arc<BufferViews> {
        let mut recent = self.recent.lock().await;
        if let Some((at, views)) = &*recent
            && at.elapsed() < RECENT
        {
            return Arc::clone(views);
        }
        let table = Arc::clone(&self.parts.table);
        let views = spawn_blocking(move || table.views(BUFFERS_SHOWN_MAX)).await;
        // The task fails only where the process ends.
        let views = Arc::new(views.unwrap_or_default());
        *recent = Some((Instant::now(), Arc::clone(&views)));
        views
    }

    /// Refuses a rise of the watermark that would use up most of a tag by a slip of a digit.
    ///
    /// A watermark never falls. So even an old copy never shows too small a rise: a small one passes without asking the
    /// quorum, and a raise that comes between this check and the change makes the rise smaller.
    async fn check_rise(&self, tag: &BizTag, max_id: u64) -> Result<(), Error> {
        let rise = |known: Option<u64>| known.map(|known| max_id.saturating_sub(known));
        if rise(self.max_id(tag.as_str())).is_some_and(|rise| rise <= UNFORCED_RISE_MAX) {
            return Ok(());
        }
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        match rise(self.max_id(tag.as_str())) {
            None => Err(Error::UnknownTag),
            Some(..=UNFORCED_RISE_MAX) => Ok(()),
            Some(rise) => Err(Error::Conflict(format!(
                "max_id would rise by {rise}, which is more than 2^40 and cannot be undone: send \
                 \"force\": true (--force) if that is meant"
            ))),
        }
    }
}

/// Warns the operator of a tag whose ids do not fit a double.
fn warn_of_doubles(row: &TagRow) {
    let hidden = row.shape.as_ref().and_then(|shape| shape.hidden.as_ref());
    let is_wide = hidden.is_some_and(|hidden| 10_u64.pow(hidden.digits.into()) > DOUBLE_EXACT_MAX);
    if is_wide || row.max_id > DOUBLE_EXACT_MAX {
        tracing::warn!(
            tag = row.tag.as_str(),
            max_id = row.max_id,
            "ids of this tag exceed 2^53 - 1: JavaScript rounds them where they come as numbers, and repeats ids"
        );
    }
}
