//! Hands ids to callers: ids of tags, and snowflake ids.

use std::ops::Range;
use std::sync::Arc;

use mintleaf_core::limits::ID_END;
use mintleaf_core::segment::Segment;
use mintleaf_core::shape::{Kind, Shape};
use mintleaf_core::snowflake::Format;
use mintleaf_core::state::TagRow;
use mintleaf_core::tag::BizTag;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::cluster_time::ClusterTime;
use super::error::Error;
use super::first_segments::Heard;
use super::grabber::GrabQueue;
use super::held_ids::HeldIds;
use super::ordered::Ordered;
use super::sequence_limits::SequenceLimits;
use super::shaped::ShapedTag;
use super::slot::{Arrangement, Slot, TakeOutcome, TakenNumbers};
use super::slot_table::SlotTable;
use super::snowflakes::Snowflakes;
use super::tag_creation::TagCreation;
use super::taken::TakenIds;
use crate::limits::{GRAB_MAX, HOT_TAGS_MAX};
use crate::machine::clock::Clock;
use crate::metrics::{Metrics, Mode};
use crate::replica::Replica;

/// What ids of a tag are taken from.
pub(super) enum Source {
    /// The slot of a plain tag.
    Plain(Arc<Slot>),
    /// The lines of a shaped one.
    Shaped(Arc<ShapedTag>),
}

/// Hands out ids.
pub struct IdService {
    pub(super) replica: Arc<Replica>,
    pub(super) table: Arc<SlotTable>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cluster_time: ClusterTime,
    pub(super) metrics: Arc<Metrics>,
    pub(super) grabs: GrabQueue,
    pub(super) ordered: Ordered,
    pub(super) sequence_limits: SequenceLimits,
    pub(super) snowflakes: Arc<Snowflakes>,
    /// Creates tags on first use; `None` where that is off.
    pub(super) creation: Option<Arc<TagCreation>>,
}

impl IdService {
    /// The next id of a tag, if one is held. Never waits; `None` says nothing about the tag.
    #[inline]
    pub fn next_now(&self, tag: &str) -> Option<u64> {
        self.held_ids().take(tag, 1).map(|ids| ids.start)
    }

    /// The ids that are held, for callers that take again and again without a wait between.
    #[inline]
    pub fn held_ids(&self) -> HeldIds<'_> {
        HeldIds::new(&self.table, &self.grabs, &self.metrics)
    }

    /// The next `count` ids of a tag, ascending: exactly that many or none. Waits, in order of
    /// arrival, when fewer are held.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::Exhausted`], [`Error::Frozen`]; [`Error::OverRateLimit`] where the tag's rate
    /// limit is used up, and [`Error::CountOverRateLimit`]; [`Error::Unavailable`] when no segment could be had in
    /// time; [`Error::Overloaded`]; [`Error::InvalidArgument`] for an impossible tag; [`Error::TooManyTags`] and
    /// [`Error::RateLimited`] for one that would have to be created; [`Error::NotFound`] for a sequence, whose numbers
    /// belong to its keys.
    pub async fn take(&self, tag: &str, count: u64) -> Result<TakenIds, Error> {
        self.take_arranged(tag, count, Arrangement::Ranges).await
    }

    /// The next `count` ids of a tag, 1 or more, without a gap. Ids held below such a run are skipped,
    /// and so wasted. Waits, in order of arrival, when no run is long enough.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn take_contiguous(&self, tag: &str, count: u64) -> Result<TakenIds, Error> {
        self.take_arranged(tag, count, Arrangement::Contiguous).await
    }

    /// The shape of a tag, as far as this node knows without asking another; `None` of a plain tag, and of one that it
    /// does not know.
    pub fn shape(&self, tag: &str) -> Option<Arc<Shape>> {
        if self.table.pin().get(tag).is_some() {
            return None;
        }
        match self.table.shaped().get(tag) {
            Some(shaped) => Some(Arc::clone(shaped.shape())),
            None => self.replica.read(|state| state.tag(tag)?.shape),
        }
    }

    /// Whether ids of a tag are handed out by the leader alone, as far as this node knows.
    pub fn is_in_strict_order(&self, tag: &str) -> bool {
        self.shape(tag).is_some_and(|shape| shape.needs_leadership())
    }

    async fn take_arranged(
        &self,
        tag: &str,
        count: u64,
        arrangement: Arrangement,
    ) -> Result<TakenIds, Error> {
        let deadline = self.replica.deadline(GRAB_MAX);
        for attempt in 0..2 {
            // A slot closes when its tag is deleted, even if that was long ago. After this barrier the node knows every
            // deletion before it. So a slot that closes again was deleted during this call.
            if attempt > 0 {
                self.replica.read_barrier(deadline).await?;
            }
            let taken = match self.source(tag, deadline).await? {
                Source::Plain(slot) => {
                    let numbers = self.take_from(&slot, count, arrangement, deadline).await?;
                    numbers.map(TakenIds::plain)
                }
                Source::Shaped(shaped) => {
                    self.take_shaped(&shaped, count, arrangement, deadline).await?
                }
            };
            if let Some(taken) = taken {
                self.metrics.ids_handed_out(Mode::Segment, count);
                return Ok(taken);
            }
        }
        Err(Error::UnknownTag)
    }

    /// Takes numbers from a slot; `None` when it is closed.
    pub(super) async fn take_from(
        &self,
        slot: &Arc<Slot>,
        count: u64,
        arrangement: Arrangement,
        deadline: Instant,
    ) -> Result<Option<Vec<Range<u64>>>, Error> {
        let (outcome, wants_grab) = slot.take(count, arrangement);
        if wants_grab {
            self.grabs.ask(slot);
        }
        match outcome {
            TakeOutcome::Ids(ranges) => Ok(Some(ranges)),
            TakeOutcome::Wait(answered) => self.wait(answered, deadline).await.transpose(),
            TakeOutcome::Closed => Ok(None),
            TakeOutcome::Refused(error) => Err(error),
        }
    }

    /// The next snowflake id, if one can be had at once. Never waits.
    #[inline]
    pub fn next_snowflake_now(&self) -> Option<u64> {
        self.take_snowflakes_now(1).map(|ids| ids.start)
    }

    /// The next snowflake ids without a gap, if they can be had at once: up to `count_max`, which is 1
    /// or more. Never waits.
    #[inline]
    pub fn take_snowflakes_now(&self, count_max: u64) -> Option<Range<u64>> {
        let ids = self.snowflakes.take_now(count_max)?;
        self.metrics.ids_handed_out(Mode::Snowflake, ids.end - ids.start);
        Some(ids)
    }

    /// The next snowflake id. Waits a little for a time window that is on its way.
    ///
    /// # Errors
    /// As [`take_snowflakes`](Self::take_snowflakes).
    pub async fn next_snowflake(&self) -> Result<u64, Error> {
        let ranges = self.take_snowflakes(1).await?;
        ranges.first().map(|range| range.start).ok_or_else(|| Error::unavailable("no id came"))
    }

    /// The next `count` snowflake ids, ascending: exactly that many or none. Waits a little for a
    /// time window that is on its way.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while no worker id is held or the time window has ended;
    /// [`Error::ClockBehind`] when the clock went back too far; [`Error::Overloaded`] when callers have
    /// taken ids faster than the worker ids can make them, for as long as a window.
    pub async fn take_snowflakes(&self, count: u64) -> Result<Vec<Range<u64>>, Error> {
        let taken = self.snowflakes.take(count).await?;
        self.metrics.ids_handed_out(Mode::Snowflake, count);
        Ok(taken)
    }

    /// The tags that ids were taken of since the last call, and how many; those with most ids, if there are many. It
    /// looks at every tag, which takes a while with a million.
    pub fn take_note_of_use(&self) -> Vec<(BizTag, u64)> {
        self.table.taken_since_look(HOT_TAGS_MAX)
    }

    /// How the snowflake ids of this cluster are made.
    pub fn snowflake_format(&self) -> Format {
        self.snowflakes.format()
    }

    /// The wall clock, in Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// This node's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The slot's answer, if it comes in time; `None` when the slot was closed.
    async fn wait(
        &self,
        answered: oneshot::Receiver<TakenNumbers>,
        deadline: Instant,
    ) -> Option<TakenNumbers> {
        let began = Instant::now();
        let answer = timeout_at(deadline, answered).await;
        self.metrics.waited(began.elapsed().as_secs_f64());
        match answer {
            Ok(taken) => taken.ok(),
            Err(_) => Some(Err(Error::unavailable("no segment could be had in time"))),
        }
    }

    /// Finds or makes what ids of a tag are taken from, if the tag exists.
    pub(super) async fn source(&self, tag: &str, deadline: Instant) -> Result<Source, Error> {
        if let Some(slot) = self.table.pin().get(tag).map(Arc::clone) {
            return Ok(Source::Plain(slot));
        }
        if let Some(shaped) = self.table.shaped().get(tag) {
            return Ok(Source::Shaped(shaped));
        }
        let tag = BizTag::parse(tag)?;
        let expected = self.table.first_segments().expect(&tag);
        let (row, first) = match self.row(&tag) {
            Some(row) => (row, None),
            None => self.find_or_create(&tag, deadline).await?,
        };
        if row.protection.frozen {
            return Err(Error::Frozen);
        }
        if let Some(shape) = &row.shape {
            return self.shaped(&row, shape).map(Source::Shaped);
        }
        if row.max_id == ID_END {
            return Err(Error::Exhausted);
        }
        let new = |heard: Heard| {
            let slot = Slot::new(tag.clone(), row.step, Arc::clone(&self.clock));
            let Some(first) = first.filter(|_| !heard.is_gone) else { return slot };
            let slot = slot.with_segment(first, row.step);
            slot.rise_to(heard.floor);
            slot
        };
        let slot = expected.put(|heard| self.table.get_or_insert(&tag, || new(heard)));
        // The row may be older than the last change that the slots received. The slot is in the table by now, so it
        // receives every change after this look.
        self.replica.read(|state| {
            if let Some(protection) = state.protection(tag.as_str()) {
                slot.protect(protection);
            }
        });
        Ok(Source::Plain(slot))
    }

    /// Puts a shaped tag into the table.
    fn shaped(&self, row: &TagRow, shape: &Arc<Shape>) -> Result<Arc<ShapedTag>, Error> {
        let tag = row.tag.as_str();
        if shape.kind == Kind::Sequence {
            let detail = format!(
                "the tag {tag} is a sequence: its numbers are taken by key, at /v1/sequence/"
            );
            return Err(Error::NotFound { detail });
        }
        let shaped = ShapedTag::new(row, shape, Arc::clone(&self.clock))?;
        let shaped = self.table.shaped().get_or_insert(shaped);
        // The row may be older than the last change that the shaped tags received, as in `source`.
        self.replica.read(|state| {
            if let Some(protection) = state.protection(tag) {
                shaped.protect(protection);
            }
        });
        Ok(shaped)
    }

    /// Finds the row of a tag that this node's copy does not show: another node may have created it a
    /// moment ago.
    ///
    /// Where tags are created on first use, it is created at once, with its first segment, which costs one commit. If
    /// another node was first, the log refuses that, and this node waits until it knows the tag.
    async fn find_or_create(
        &self,
        tag: &BizTag,
        deadline: Instant,
    ) -> Result<(TagRow, Option<Segment>), Error> {
        let created = match &self.creation {
            Some(creation) => creation.create_on_first_use(tag, deadline).await,
            None => Err(Error::UnknownTag),
        };
        if let Ok(Some((row, first))) = created {
            // Like the grabber's, this line is written before any id of the segment is handed out.
            let Segment { start, end } = first;
            tracing::debug!(target: "mintleaf::grants", tag = tag.as_str(), start, end, "segment granted");
            return Ok((row, Some(first)));
        }
        self.replica.read_barrier(deadline).await?;
        match self.row(tag) {
            Some(row) => Ok((row, None)),
            None => Err(created.err().unwrap_or(Error::UnknownTag)),
        }
    }

    fn row(&self, tag: &BizTag) -> Option<TagRow> {
        self.replica.read(|state| state.tag(tag.as_str()))
    }
}
