//! Hands ids to callers: ids of tags, and snowflake ids.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::error::Error;
use super::grabber::GrabQueue;
use super::held_ids::HeldIds;
use super::slot::{Arrangement, Slot, TakeOutcome, TakenIds};
use super::slot_table::SlotTable;
use super::snowflakes::Snowflakes;
use super::tag_creation::TagCreation;
use crate::clock::Clock;
use crate::limits::{GRAB_MAX, HOT_TAGS_MAX, ID_END};
use crate::metrics::{Metrics, Mode};
use crate::replica::Replica;
use crate::snowflake::Format;
use crate::state::TagRow;
use crate::tag::BizTag;

/// Hands out ids.
pub struct IdService {
    pub(super) replica: Arc<Replica>,
    pub(super) table: Arc<SlotTable>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) grabs: GrabQueue,
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

    /// The next id of a tag. Waits for a segment when none is held.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn next(&self, tag: &str) -> Result<u64, Error> {
        let ranges = self.take(tag, 1).await?;
        ranges.first().map(|range| range.start).ok_or_else(|| Error::unavailable("no id came"))
    }

    /// The next `count` ids of a tag, ascending: exactly that many or none. Waits, in order of
    /// arrival, when fewer are held.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::Exhausted`], [`Error::Frozen`]; [`Error::OverRateLimit`] where the
    /// tag's rate limit is used up; [`Error::Unavailable`] when no segment could be
    /// had in time; [`Error::Overloaded`]; [`Error::InvalidArgument`] for an impossible tag;
    /// [`Error::TooManyTags`] and [`Error::RateLimited`] for one that would have to be created.
    pub async fn take(&self, tag: &str, count: u64) -> Result<Vec<Range<u64>>, Error> {
        self.take_arranged(tag, count, Arrangement::Ranges).await
    }

    /// The next `count` ids of a tag, 1 or more, without a gap. Ids held below such a run are skipped,
    /// and so wasted. Waits, in order of arrival, when no run is long enough.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn take_contiguous(&self, tag: &str, count: u64) -> Result<Range<u64>, Error> {
        let runs = self.take_arranged(tag, count, Arrangement::Contiguous).await?;
        runs.into_iter().next().ok_or_else(|| Error::unavailable("no id came"))
    }

    async fn take_arranged(
        &self,
        tag: &str,
        count: u64,
        arrangement: Arrangement,
    ) -> Result<Vec<Range<u64>>, Error> {
        let deadline = Instant::now() + GRAB_MAX;
        for attempt in 0..2 {
            // A slot closes when its tag is deleted, however long ago that was. After this barrier the
            // node knows every deletion before it, so a slot that closes again was deleted meanwhile.
            if attempt > 0 {
                self.replica.read_barrier(deadline).await?;
            }
            let slot = self.slot(tag, deadline).await?;
            let (outcome, wants_grab) = slot.take(count, arrangement);
            if wants_grab {
                self.grabs.ask(&slot);
            }
            let taken = match outcome {
                TakeOutcome::Ids(ranges) => Ok(ranges),
                TakeOutcome::Wait(answered) => match self.wait(answered, deadline).await {
                    Some(taken) => taken,
                    None => continue,
                },
                TakeOutcome::Closed => continue,
                TakeOutcome::Frozen => Err(Error::Frozen),
                TakeOutcome::OverRateLimit(after_s) => Err(Error::OverRateLimit { after_s }),
                TakeOutcome::Exhausted => Err(Error::Exhausted),
                TakeOutcome::Overloaded => Err(Error::Overloaded),
            };
            return taken.inspect(|_| self.metrics.ids_handed_out(Mode::Segment, count));
        }
        Err(Error::UnknownTag)
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

    /// The tags that ids were taken of since the last call, and how many; those with most ids, if they are many. It
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
        answered: oneshot::Receiver<TakenIds>,
        deadline: Instant,
    ) -> Option<TakenIds> {
        let began = Instant::now();
        let answer = timeout_at(deadline, answered).await;
        self.metrics.waited(began.elapsed().as_secs_f64());
        match answer {
            Ok(taken) => taken.ok(),
            Err(_) => Some(Err(Error::unavailable("no segment could be had in time"))),
        }
    }

    /// Finds or makes the slot of a tag that exists.
    pub(super) async fn slot(&self, tag: &str, deadline: Instant) -> Result<Arc<Slot>, Error> {
        if let Some(slot) = self.table.pin().get(tag).map(Arc::clone) {
            return Ok(slot);
        }
        let tag = BizTag::parse(tag)?;
        let row = match self.row(&tag) {
            Some(row) => row,
            None => self.find_or_create(&tag, deadline).await?,
        };
        if row.protection.frozen {
            return Err(Error::Frozen);
        }
        if row.max_id == ID_END {
            return Err(Error::Exhausted);
        }
        let new = || Slot::new(tag.clone(), row.step, Arc::clone(&self.clock));
        let slot = self.table.get_or_insert(&tag, new);
        // The row may be older than the last change that slots were told of. The change after this look is
        // told to the slot, which is in the table by now.
        self.replica.read(|state| {
            if let Some(protection) = state.protection(tag.as_str()) {
                slot.protect(protection);
            }
        });
        Ok(slot)
    }

    /// Finds the row of a tag that this node's copy does not show: another node may have created it a
    /// moment ago.
    async fn find_or_create(&self, tag: &BizTag, deadline: Instant) -> Result<TagRow, Error> {
        self.replica.read_barrier(deadline).await?;
        if let Some(row) = self.row(tag) {
            return Ok(row);
        }
        let creation = self.creation.as_ref().ok_or(Error::UnknownTag)?;
        match creation.create_on_first_use(tag, deadline).await? {
            Some(row) => Ok(row),
            // Another caller, here or on another node, was first.
            None => {
                self.replica.read_barrier(Instant::now() + GRAB_MAX).await?;
                self.row(tag).ok_or(Error::UnknownTag)
            }
        }
    }

    fn row(&self, tag: &BizTag) -> Option<TagRow> {
        self.replica.read(|state| state.tag(tag.as_str()))
    }
}
