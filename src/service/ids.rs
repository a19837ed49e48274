//! Hands out ids: ids of tags, numbers of keys, and snowflake ids.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::limits::{ID_END, PERIOD_SKEW_MS, START_DEFAULT, STEP_DEFAULT};
use mintleaf_core::segment::{Segment, used_before_fetch};
use mintleaf_core::shape::{Giver, Kind, Line, Shape};
use mintleaf_core::snowflake::Format;
use mintleaf_core::state::TagRow;
use mintleaf_core::tag::BizTag;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::admin::tag_creation::TagCreation;
use super::error::Error;
use super::grabber::GrabQueue;
use super::grabs::{Refused, record_grant};
use super::held_ids::HeldIds;
use super::leader::keys::{KeyName, KeyRequest, LastNumber};
use super::leader::{Given, LeaderQueue, Request, Wanted};
use super::local::cluster_time::ClusterTime;
use super::local::first_segments::{FirstSegment, Heard};
use super::local::lines::{Lines, TagLine};
use super::local::slot::{Arrangement, Slot, TakeOutcome, TakenNumbers};
use super::parts::ServiceParts;
use super::readiness::QuorumLoss;
use super::source::Source;
use super::taken::{SingleIds, TakenIds};
use crate::limits::{GRAB_MAX, HOT_TAGS_MAX};
use crate::metrics::{Metrics, Mode};

/// Attempts of one call to take ids of a period: the period may end during the first attempt, and operators may set the
/// clocks during the second.
const PERIOD_LOOKS_MAX: usize = 3;

/// Time between two looks at whether the ids of hot tags have arrived, or may be asked for.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A call for ids of a tag.
#[derive(Clone, Copy)]
struct Call {
    count: u64,
    arrangement: Arrangement,
    deadline: Instant,
}

/// Hands out ids.
pub struct IdService {
    pub(super) parts: ServiceParts,
    pub(super) cluster_time: ClusterTime,
    pub(super) grabs: GrabQueue,
    pub(super) leader: LeaderQueue,
    /// Creates tags on first use; `None` where that is off.
    pub(super) creation: Option<Arc<TagCreation>>,
}

/// Ids of tags.
impl IdService {
    /// The next id of a tag, if one is held. Never waits; `None` says nothing about the tag.
    #[inline]
    pub fn next_now(&self, tag: &str) -> Option<u64> {
        self.held_ids().take(tag, 1).map(|ids| ids.start)
    }

    /// The held ids, for callers that take again and again without waiting in between.
    #[inline]
    pub fn held_ids(&self) -> HeldIds<'_> {
        HeldIds::new(&self.parts.table, &self.grabs, &self.parts.metrics)
    }

    /// The next `count` ids of a tag, ascending: exactly that many or none. Waits, in order of
    /// arrival, when fewer are held.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::Exhausted`], [`Error::Frozen`]; [`Error::OverRateLimit`] where the tag's rate
    /// limit is used up, and [`Error::CountOverRateLimit`]; [`Error::Unavailable`] when no segment arrived in time;
    /// [`Error::Overloaded`]; [`Error::InvalidArgument`] for an impossible tag; [`Error::TooManyTags`] and
    /// [`Error::RateLimited`] for a tag that the call would have to create; [`Error::OfKeys`] for a sequence, whose
    /// numbers belong to its keys, and for a register.
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

    /// Consecutive ids for a caller that hands them out itself. Takes as many ids as the tag's step, so the step
    /// determines how often such callers come back, but no more than `count_max`, or than the tag's rate limit allows
    /// in a second. Creates an unknown tag wherever its first use would create it.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn take_step(&self, tag: &str, count_max: u64) -> Result<TakenIds, Error> {
        self.source(tag, self.parts.replica.deadline(GRAB_MAX)).await?;
        // This node's copy may not show the tag yet if the call above has just created it.
        let row = self.row(&BizTag::parse(tag)?);
        let step = row.as_ref().map_or(STEP_DEFAULT, |row| row.step);
        let rate = row.and_then(|row| row.protection.rate_limit).unwrap_or(u32::MAX);
        self.take_contiguous(tag, u64::from(step.min(rate)).min(count_max)).await
    }

    /// An id of a strict tag for each of `count` requests, 1 or more, that arrived together. They share one round with
    /// the quorum. If fewer ids are left, or the tag's rate limit admits fewer requests, only the first ones get ids;
    /// the others get the error that the next of them would get on its own.
    pub async fn take_singles(&self, tag: &str, count: u64) -> SingleIds {
        let (mut singles, mut run) = (SingleIds::default(), count);
        loop {
            let missing = count - singles.count();
            if missing == 0 {
                return singles;
            }
            let together = self.admitted_now(tag, run.min(missing));
            match self.take(tag, together).await {
                Ok(taken) => singles.taken.push(taken),
                // Fewer ids are left, or other callers have used up the limit since.
                Err(
                    Error::Exhausted
                    | Error::OverRateLimit { .. }
                    | Error::CountOverRateLimit { .. },
                ) if together > 1 => run = together / 2,
                Err(error) => {
                    singles.refused = Some(error);
                    return singles;
                }
            }
        }
    }

    /// How many of `count` requests for one id each the tag's guard admits now; at least 1, which the guard may still
    /// refuse. A tag has no guard on this node before its first request.
    fn admitted_now(&self, tag: &str, count: u64) -> u64 {
        match self.parts.table.get(tag) {
            Some(Source::Shaped(lines)) if lines.shape().giver() == Giver::Leader => {
                lines.available(count).max(1)
            }
            _ => 1,
        }
    }

    async fn take_arranged(
        &self,
        tag: &str,
        count: u64,
        arrangement: Arrangement,
    ) -> Result<TakenIds, Error> {
        let taken = self.take_from_source(tag, count, arrangement).await;
        if let (Err(error @ (Error::Exhausted | Error::Frozen)), Ok(tag)) =
            (&taken, BizTag::parse(tag))
        {
            self.note_refusal(&tag, error);
        }
        taken
    }

    fn note_refusal(&self, tag: &BizTag, error: &Error) {
        self.parts.table.refusals().note(tag, error, || self.parts.clock.monotonic_ms());
    }

    async fn take_from_source(
        &self,
        tag: &str,
        count: u64,
        arrangement: Arrangement,
    ) -> Result<TakenIds, Error> {
        self.check_run(tag, count, arrangement)?;
        let deadline = self.parts.replica.deadline(GRAB_MAX);
        let call = Call { count, arrangement, deadline };
        for attempt in 0..2 {
            // A source closes when its tag is deleted, even if that was long ago. After this barrier the node knows
            // every earlier deletion. So if the source closes again, its tag was deleted during this call.
            if attempt > 0 {
                self.parts.replica.read_barrier(deadline).await?;
            }
            let taken = match self.source(tag, deadline).await? {
                Source::Plain(slot) => self.take_of_slot(&slot, call).await?.map(TakenIds::plain),
                Source::Shaped(lines) => match lines.shape().giver() {
                    Giver::AnyNode => self.take_of_line(&lines, call).await?,
                    Giver::Leader => {
                        let taken = self.take_of_leader(&lines, call).await?;
                        taken.inspect(|_| lines.count_taken(count))
                    }
                    Giver::LeaderByKey => return Err(Error::of_keys(tag, Kind::Sequence)),
                    Giver::Log => return Err(Error::of_keys(tag, Kind::Register)),
                },
            };
            if let Some(taken) = taken {
                self.parts.metrics.ids_handed_out(Mode::Segment, count);
                return Ok(taken);
            }
        }
        Err(Error::UnknownTag)
    }

    /// Refuses a run without a gap that is longer than any grab may reserve. The segments of one node need not be
    /// adjacent, so the caller would wait in vain. In strict order only the leader grabs, so its segments are adjacent.
    fn check_run(&self, tag: &str, count: u64, arrangement: Arrangement) -> Result<(), Error> {
        if arrangement == Arrangement::Ranges || count <= 1 {
            return Ok(());
        }
        match self.parts.replica.read(|state| state.step_max(tag)) {
            Some(step_max) if count > u64::from(step_max) && !self.is_in_strict_order(tag) => {
                let detail = format!(
                    "{count} ids without a gap are more than the tag's step_max of {step_max}"
                );
                Err(Error::InvalidArgument { field: "count", detail })
            }
            _ => Ok(()),
        }
    }

    /// Takes numbers from a slot; `None` when it is closed.
    async fn take_of_slot(
        &self,
        slot: &Arc<Slot>,
        call: Call,
    ) -> Result<Option<Vec<Range<u64>>>, Error> {
        let (outcome, wants_grab) = slot.take(call.count, call.arrangement);
        if wants_grab {
            self.grabs.ask(slot);
        }
        match outcome {
            TakeOutcome::Ids(ranges) => Ok(Some(ranges)),
            TakeOutcome::Wait(answered) => self.wait(answered, call.deadline).await.transpose(),
            TakeOutcome::Closed => Ok(None),
            TakeOutcome::Refused(error) => Err(error),
        }
    }

    /// The slot's answer, if it comes in time; `None` when the slot was closed.
    async fn wait(
        &self,
        answered: oneshot::Receiver<TakenNumbers>,
        deadline: Instant,
    ) -> Option<TakenNumbers> {
        let began = Instant::now();
        let answer = timeout_at(deadline, answered).await;
        self.parts.metrics.waited(began.elapsed().as_secs_f64());
        match answer {
            Ok(taken) => taken.ok(),
            Err(_) => Some(Err(Error::unavailable("no segment arrived in time"))),
        }
    }

    /// Takes ids from what this node holds of the tag's present line; `None` when the tag is gone.
    async fn take_of_line(&self, lines: &Lines, call: Call) -> Result<Option<TakenIds>, Error> {
        for _ in 0..PERIOD_LOOKS_MAX {
            let Some(line) = lines.line_at(self.line_time_ms(lines)?)? else { return Ok(None) };
            let Some(slot) = line.slot() else { return Ok(None) };
            let Some(numbers) = self.take_of_slot(slot, call).await? else {
                continue;
            };
            // The call may have waited until the period was over. In that case what it took is wasted.
            if line.is_served_at(self.line_time_ms(lines)?) {
                return Ok(Some(TakenIds::of_line(&line, numbers)));
            }
        }
        Err(Error::unavailable("the clocks of the cluster do not agree on the present period"))
    }

    /// Takes ids of the tag's present line from the leader; `None` when the tag is gone, or when this node knew another
    /// tag of that name.
    async fn take_of_leader(&self, lines: &Lines, call: Call) -> Result<Option<TakenIds>, Error> {
        let Call { count, arrangement, deadline } = call;
        lines.admit(count)?;
        let began = Instant::now();
        // The tag may have left the period that the cluster's clock shows here, because that clock is behind. So the
        // second attempt asks for the period that begins within the skew of clocks.
        for ahead_ms in [0, PERIOD_SKEW_MS] {
            let at_ms = self.line_time_ms(lines)?.saturating_add(ahead_ms);
            let Some(line) = lines.line_at(at_ms)? else { return Ok(None) };
            let contiguous = arrangement == Arrangement::Contiguous;
            let wanted = Wanted::Ids { line: line.line(), count, contiguous };
            let request = Request { tag: lines.tag().clone(), wanted };
            let outcome = self.leader.ask(vec![request], deadline).await?.pop();
            self.parts.metrics.waited(began.elapsed().as_secs_f64());
            match outcome.unwrap_or(Err(Refused::Unavailable)) {
                Ok(Given::Ids { period, ranges }) if period == line.period() => {
                    return self.if_served(lines, &line, ranges).map(Some);
                }
                Ok(Given::Ids { period, ranges }) => {
                    let ahead_ms = self.line_time_ms(lines)?.saturating_add(PERIOD_SKEW_MS);
                    let later = lines.line_at(ahead_ms)?.filter(|line| line.period() == period);
                    let later = later.ok_or_else(|| Error::from(Refused::PeriodOver))?;
                    return self.if_served(lines, &later, ranges).map(Some);
                }
                Ok(_) => return Err(Refused::Unavailable.into()),
                Err(Refused::PeriodOver) if line.line() != Line::Whole => {}
                Err(Refused::UnknownTag | Refused::OtherShape) => return Ok(None),
                Err(why) => return Err(why.into()),
            }
        }
        Err(Refused::PeriodOver.into())
    }

    /// The ids, if their line is still served. Otherwise they are wasted.
    fn if_served(
        &self,
        lines: &Lines,
        line: &TagLine,
        numbers: Vec<Range<u64>>,
    ) -> Result<TakenIds, Error> {
        if !line.is_served_at(self.line_time_ms(lines)?) {
            return Err(Refused::PeriodClosed.into());
        }
        Ok(TakenIds::of_line(line, numbers))
    }

    /// The cluster's time, which selects a tag's line.
    pub(super) fn line_time_ms(&self, lines: &Lines) -> Result<u64, Error> {
        if !lines.has_periods() {
            return Ok(0);
        }
        let now_ms = self.cluster_time.now_ms(|| self.parts.replica.node().median_now_ms());
        now_ms.ok_or_else(|| Error::unavailable("this node does not know the cluster's time yet"))
    }
}

/// Where ids of a tag come from.
impl IdService {
    /// The shape of a tag, as far as this node knows without asking another; `None` for a plain tag, and for one that
    /// it does not know.
    pub fn shape(&self, tag: &str) -> Option<Arc<Shape>> {
        match self.parts.table.pin().get(tag) {
            Some(source) => source.shape().cloned(),
            None => self.parts.replica.read(|state| state.tag(tag)?.shape),
        }
    }

    /// Whether only the leader hands out ids of a tag, as far as this node knows.
    pub fn is_in_strict_order(&self, tag: &str) -> bool {
        self.shape(tag).is_some_and(|shape| shape.giver().is_leader())
    }

    /// Finds or makes the source of a tag's ids, if the tag exists and has ids left.
    async fn source(&self, tag: &str, deadline: Instant) -> Result<Source, Error> {
        if let Some(source) = self.parts.table.get(tag) {
            return Ok(source);
        }
        let tag = BizTag::parse(tag)?;
        let expected = self.parts.table.first_segments().expect(&tag);
        let Found { row, first, .. } = match self.row(&tag) {
            Some(row) => Found { row, first: None, is_new: false },
            None => self.find_or_create(&tag, START_DEFAULT, deadline).await?,
        };
        if row.protection.frozen {
            return Err(Error::Frozen);
        }
        if row.shape.is_none() && row.max_id == ID_END {
            return Err(Error::Exhausted);
        }
        self.put(&row, first.map(|first| (first, &expected)))
    }

    /// Creates a tag whose first id is `start`, unless there is one of this name already, in the same way and within
    /// the same bounds as its first use. Returns whether this call created it. A tag that reuses the name of a deleted
    /// one continues above every earlier id.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an impossible tag, and where tags are not created on first use;
    /// [`Error::TooManyTags`], [`Error::RateLimited`]; [`Error::UnknownTag`] if a deleted tag of this name had a shape;
    /// [`Error::Overloaded`] or [`Error::Unavailable`] when it did not happen in time.
    pub async fn create_if_new(&self, tag: &str, start: u64) -> Result<bool, Error> {
        let tag = BizTag::parse(tag)?;
        if self.row(&tag).is_some() {
            return Ok(false);
        }
        let expected = self.parts.table.first_segments().expect(&tag);
        let deadline = self.parts.replica.deadline(GRAB_MAX);
        match self.find_or_create(&tag, start, deadline).await {
            Ok(Found { row, first: Some(first), is_new }) => {
                self.put(&row, Some((first, &expected))).map(|_| is_new)
            }
            Ok(found) => Ok(found.is_new),
            Err(Error::UnknownTag) if self.creation.is_none() => Err(Error::invalid(
                "tag",
                "there is no such tag, and tags are not created on first use",
            )),
            Err(error) => Err(error),
        }
    }

    /// Puts a tag into the table, unless another call was first. A plain tag begins with the segment that came with its
    /// first use.
    pub(super) fn put(
        &self,
        row: &TagRow,
        first: Option<(Segment, &FirstSegment<'_>)>,
    ) -> Result<Source, Error> {
        let tag = &row.tag;
        let slot = || Slot::new(tag.clone(), row.steps(), Arc::clone(&self.parts.clock));
        let source = match (&row.shape, first) {
            (Some(shape), _) => {
                let lines = Arc::new(Lines::new(row, shape, Arc::clone(&self.parts.clock))?);
                self.parts.table.get_or_insert(tag, || Source::Shaped(lines))
            }
            (None, None) => self.parts.table.get_or_insert(tag, || Source::Plain(Arc::new(slot()))),
            (None, Some((first, expected))) => {
                let begun = |heard: Heard| {
                    let slot = if heard.is_gone {
                        slot()
                    } else {
                        slot().with_segment(first, row.steps())
                    };
                    slot.rise_to(heard.floor);
                    Source::Plain(Arc::new(slot))
                };
                expected.put(|heard| self.parts.table.get_or_insert(tag, || begun(heard)))
            }
        };
        // The row may be older than the last change that the table received. The tag is in the table by now, so it
        // receives every change after this look.
        self.parts.replica.read(|state| {
            if let Some(protection) = state.protection(tag.as_str()) {
                source.protect(protection);
            }
        });
        Ok(source)
    }

    /// Finds the row of a tag that this node's copy does not show: another node may have created it a
    /// moment ago.
    ///
    /// On a node that creates tags on first use, this creates the tag at once, with its first segment, which costs one
    /// commit. If another node was first, the log refuses the creation and grants the segment, and this node waits until
    /// it knows the tag.
    async fn find_or_create(
        &self,
        tag: &BizTag,
        start: u64,
        deadline: Instant,
    ) -> Result<Found, Error> {
        let used = match &self.creation {
            Some(creation) => creation.create_on_first_use(tag, start, deadline).await,
            None => Err(Error::UnknownTag),
        };
        let (used, refused) = match used {
            Ok(used) => (used, Error::UnknownTag),
            Err(refused) => (None, refused),
        };
        let first = used.as_ref().map(|used| used.first);
        if let Some(first) = first {
            // As for every grant, this line is written before any id of the segment is handed out.
            record_grant(tag, Line::Whole, first);
        }
        if let Some(row) = used.and_then(|used| used.created) {
            return Ok(Found { row, first, is_new: true });
        }
        self.parts.replica.read_barrier(deadline).await?;
        let row = self.row(tag).ok_or(refused)?;
        Ok(Found { row, first, is_new: false })
    }

    pub(super) fn row(&self, tag: &BizTag) -> Option<TagRow> {
        self.parts.replica.read(|state| state.tag(tag.as_str()))
    }
}

/// A tag that a node did not know before.
struct Found {
    row: TagRow,
    /// A segment of it, if one was reserved on the way.
    first: Option<Segment>,
    /// Whether this call created it.
    is_new: bool,
}

/// Numbers of keys. The node that gets a request checks what it can see in its own copy: that the tag is a sequence,
/// and that the tag's guard admits the call on this node. The leader does the rest, for many requests at a time.
impl IdService {
    /// The next numbers of a key: exactly `count` of them, without a gap.
    ///
    /// # Errors
    /// As [`take_of_keys`](Self::take_of_keys).
    pub async fn take_of_key(&self, request: KeyRequest) -> Result<Range<u64>, Error> {
        let taken = self.take_of_keys(vec![request]).await.pop();
        taken.unwrap_or_else(|| Err(Error::unavailable("no number came")))
    }

    /// The next numbers of some keys, or the reason why there are none, in the order of the requests.
    ///
    /// # Errors
    /// For each request: [`Error::UnknownTag`], [`Error::NotFound`] if the tag is not a sequence, [`Error::Frozen`],
    /// [`Error::OverRateLimit`], [`Error::CountOverRateLimit`], [`Error::Exhausted`]; [`Error::Unavailable`] where no
    /// leader with a quorum gave numbers in time; [`Error::Overloaded`].
    pub async fn take_of_keys(&self, requests: Vec<KeyRequest>) -> Vec<Result<Range<u64>, Error>> {
        let deadline = self.parts.replica.deadline(GRAB_MAX);
        let keys = self.keys(requests.iter().map(|request| &request.of.tag), deadline).await;
        let admit = |(request, keys): (&KeyRequest, &Result<Arc<Lines>, Error>)| match keys {
            Ok(keys) => keys.admit(request.count).err(),
            Err(error) => Some(error.clone()),
        };
        let refused: Vec<Option<Error>> = requests.iter().zip(&keys).map(admit).collect();
        let admitted = requests.into_iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let asked = admitted.map(|(KeyRequest { of, count }, _)| Request {
            tag: of.tag,
            wanted: Wanted::Numbers { key: of.key, count },
        });
        let mut outcomes = self.ask_leader(asked.collect(), deadline).await.into_iter();
        let mut handed_out = 0;
        let taken = refused.into_iter().zip(keys).map(|(refused, keys)| {
            let taken = match refused {
                Some(error) => Err(error),
                None => outcomes.next().unwrap_or_else(|| Err(not_understood())).and_then(numbers),
            };
            match (&taken, keys) {
                (Ok(numbers), keys) => {
                    let count = numbers.end - numbers.start;
                    handed_out += count;
                    keys.iter().for_each(|keys| keys.count_taken(count));
                }
                (Err(error), Ok(keys)) => self.note_refusal(keys.tag(), error),
                (Err(_), Err(_)) => {}
            }
            taken
        });
        let taken = taken.collect();
        self.parts.metrics.ids_handed_out(Mode::Sequence, handed_out);
        taken
    }

    /// What the cluster knows about the last number of a key. The call needs the quorum.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::NotFound`] if the tag is not a sequence; [`Error::Unavailable`].
    pub async fn last_of_key(&self, of: KeyName) -> Result<LastNumber, Error> {
        let deadline = self.parts.replica.deadline(GRAB_MAX);
        self.keys_of(&of.tag, deadline).await?;
        let wanted = Wanted::Last { key: of.key };
        let asked = vec![Request { tag: of.tag.clone(), wanted }];
        let outcome = self.ask_leader(asked, deadline).await.pop();
        match outcome.unwrap_or_else(|| Err(not_understood()))? {
            Given::LastIs(number) => Ok(LastNumber { number: Some(number), is_exact: true }),
            Given::LastBelow(end) => Ok(LastNumber::below(end)),
            Given::NothingHeld { section } => {
                // The leader was confirmed after this request arrived. So after the barrier this node has applied every
                // entry that reserved a number which any caller got before this request.
                self.parts.replica.read_barrier(deadline).await?;
                let end =
                    |tag: &str| self.parts.replica.read(|state| state.section_end(tag, section));
                end(of.tag.as_str()).map(LastNumber::below).ok_or(Error::UnknownTag)
            }
            Given::Ids { .. } => Err(not_understood()),
        }
    }

    /// The outcome of each request.
    async fn ask_leader(
        &self,
        requests: Vec<Request>,
        deadline: Instant,
    ) -> Vec<Result<Given, Error>> {
        let count = requests.len();
        match self.leader.ask(requests, deadline).await {
            Ok(outcomes) => outcomes.into_iter().map(|outcome| Ok(outcome?)).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    async fn keys_of(&self, tag: &BizTag, deadline: Instant) -> Result<Arc<Lines>, Error> {
        let keys = self.keys([tag].into_iter(), deadline).await.pop();
        keys.unwrap_or(Err(Error::UnknownTag))
    }

    /// The sequences with these names, once this node's copy is fresh enough to know them.
    async fn keys<'t>(
        &self,
        tags: impl Iterator<Item = &'t BizTag> + Clone,
        deadline: Instant,
    ) -> Vec<Result<Arc<Lines>, Error>> {
        let known_now = |tag: &BizTag| self.known(tag, Giver::LeaderByKey, not_a_sequence);
        let known: Vec<_> = tags.clone().map(known_now).collect();
        if known.iter().all(Option::is_some) {
            return known.into_iter().flatten().collect();
        }
        // Another node may have created the others a moment ago.
        let fresh = self.parts.replica.read_barrier(deadline).await.map_err(Error::from);
        let look = |(tag, known): (&BizTag, Option<_>)| match (known, &fresh) {
            (Some(known), _) => known,
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(())) => known_now(tag).unwrap_or(Err(Error::UnknownTag)),
        };
        tags.zip(known).map(look).collect()
    }

    /// The tag with this name, if it numbers keys by this giver; `None` if this node's copy does not show the tag.
    ///
    /// # Errors
    /// What `why_not` makes of the name, for a tag that does not; as [`put`](Self::put).
    pub(super) fn known(
        &self,
        tag: &BizTag,
        giver: Giver,
        why_not: fn(&BizTag) -> Error,
    ) -> Option<Result<Arc<Lines>, Error>> {
        let source = match self.parts.table.get(tag.as_str()) {
            Some(source) => Ok(source),
            None => match self.row(tag)? {
                row if row.giver() == giver => self.put(&row, None),
                _ => Err(why_not(tag)),
            },
        };
        Some(source.and_then(|source| match source {
            Source::Shaped(lines) if lines.shape().giver() == giver => Ok(lines),
            Source::Plain(_) | Source::Shaped(_) => Err(why_not(tag)),
        }))
    }
}

/// Snowflake ids.
impl IdService {
    /// The next snowflake id, if one is available at once. Never waits.
    #[inline]
    pub fn next_snowflake_now(&self) -> Option<u64> {
        self.take_snowflakes_now(1).map(|ids| ids.start)
    }

    /// The next snowflake ids without a gap, if they are available at once: up to `count_max`, which is 1
    /// or more. Never waits.
    #[inline]
    pub fn take_snowflakes_now(&self, count_max: u64) -> Option<Range<u64>> {
        let ids = self.parts.snowflakes.take_now(count_max)?;
        self.parts.metrics.ids_handed_out(Mode::Snowflake, ids.end - ids.start);
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
        let taken = self.parts.snowflakes.take(count).await?;
        self.parts.metrics.ids_handed_out(Mode::Snowflake, count);
        Ok(taken)
    }

    /// How the snowflake ids of this cluster are made.
    pub fn snowflake_format(&self) -> Format {
        self.parts.snowflakes.format()
    }
}

/// Whether a request for ids would succeed. These calls take no id and create no tag.
impl IdService {
    /// Whether [`take`](Self::take) would return `count` ids of a tag now. Takes nothing, reserves nothing and creates
    /// no tag. Held ids need no quorum; all others need one, as when a caller takes them.
    ///
    /// # Errors
    /// The same as [`take`](Self::take), except overload, which has passed by the next request.
    pub async fn could_take(&self, tag: &str, count: u64) -> Result<(), Error> {
        let (tag, deadline) = (BizTag::parse(tag)?, self.parts.replica.deadline(GRAB_MAX));
        let known = self.parts.table.get(tag.as_str());
        let mut held = match &known {
            Some(source) => self.could_give(source, &tag, count)?,
            None => 0,
        };
        if held >= count {
            return Ok(());
        }
        self.parts.replica.read_barrier(deadline).await?;
        let row = match (self.row(&tag), &self.creation) {
            (Some(row), _) => row,
            (None, Some(creation)) => return creation.could_create(&tag),
            (None, None) => return Err(Error::UnknownTag),
        };
        if row.protection.frozen {
            return Err(Error::Frozen);
        }
        if known.is_none() && row.shape.is_some() {
            held = self.could_give(&self.put(&row, None)?, &tag, count)?;
        }
        let left = match row.shape() {
            // The row does not show the mark of a period that no caller has taken ids of yet.
            shape if shape.period.is_some() => ID_END,
            shape => shape.left(row.max_id),
        };
        if held.saturating_add(left) < count { Err(Error::Exhausted) } else { Ok(()) }
    }

    /// How many of its held ids a source could give now to a call for `count`.
    fn could_give(&self, source: &Source, tag: &BizTag, count: u64) -> Result<u64, Error> {
        let slot = match source {
            Source::Plain(slot) => Arc::clone(slot),
            Source::Shaped(lines) => match lines.shape().giver() {
                Giver::AnyNode => {
                    let line =
                        lines.line_at(self.line_time_ms(lines)?)?.ok_or(Error::UnknownTag)?;
                    let Some(slot) = line.slot() else { return Ok(0) };
                    Arc::clone(slot)
                }
                Giver::Leader => {
                    lines.would_admit(count)?;
                    lines.line_at(self.line_time_ms(lines)?)?.ok_or(Error::UnknownTag)?;
                    let loss = QuorumLoss::without_leader(&self.parts.replica.node().status());
                    return loss.map_or(Ok(0), |loss| Err(Error::unavailable(loss.to_string())));
                }
                Giver::LeaderByKey => return Err(Error::of_keys(tag.as_str(), Kind::Sequence)),
                Giver::Log => return Err(Error::of_keys(tag.as_str(), Kind::Register)),
            },
        };
        slot.would_admit(count)?;
        Ok(slot.remaining())
    }

    /// Whether a call for `count` numbers of a key would succeed, as far as this node's copy and the tag's guard show.
    ///
    /// # Errors
    /// As [`take_of_keys`](Self::take_of_keys).
    pub async fn could_take_of_key(
        &self,
        KeyRequest { of, count }: &KeyRequest,
    ) -> Result<(), Error> {
        let deadline = self.parts.replica.deadline(GRAB_MAX);
        self.keys_of(&of.tag, deadline).await?.would_admit(*count)
    }

    /// Whether [`take_snowflakes`](Self::take_snowflakes) would return an id. Takes none, but waits in the same way
    /// for a window that is on its way.
    ///
    /// # Errors
    /// The same as [`take_snowflakes`](Self::take_snowflakes), except overload.
    pub async fn could_take_snowflakes(&self) -> Result<(), Error> {
        self.parts.snowflakes.could_take().await
    }
}

/// What the rest of the node needs from this service.
impl IdService {
    /// Grabs ids for those of the tags that exist, and waits until this node holds ids of every tag of which it can
    /// hold any. Returns how many tags it waited for.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no quorum answers in time.
    pub(super) async fn hold_again(&self, tags: Vec<BizTag>) -> Result<usize, Error> {
        let deadline = Instant::now() + GRAB_MAX;
        // After this the node knows which tags were created or deleted while it was away.
        self.parts.replica.read_barrier(deadline).await?;
        let mut waiting: Vec<Arc<Slot>> = Vec::new();
        for tag in tags {
            let Some(row) = self.row(&tag) else { continue };
            // With so small a `step_max`, ids are reserved only when a caller asks for them. A restart changes nothing.
            if row.step_max.is_some_and(|step_max| used_before_fetch(step_max.into()).is_none()) {
                continue;
            }
            let slot = match self.source(tag.as_str(), deadline).await {
                Ok(Source::Plain(slot)) => slot,
                Ok(Source::Shaped(lines)) if lines.has_slots() => match self.slot_now(&lines) {
                    Some(slot) => slot,
                    None => continue,
                },
                // A tag that is frozen or has no ids left has no slot; of strict tags and sequences only the leader
                // holds ids, and of registers no node.
                Ok(Source::Shaped(_)) | Err(_) => continue,
            };
            if slot.wants_first_grab() {
                self.grabs.ask(&slot);
            }
            waiting.push(slot);
        }
        let wanted = waiting.len();
        loop {
            waiting.retain(|slot| slot.remaining() == 0 && slot.lets_grab());
            if waiting.is_empty() {
                return Ok(wanted);
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// The slot of the tag's present line, if it has one.
    fn slot_now(&self, lines: &Lines) -> Option<Arc<Slot>> {
        let line = lines.line_at(self.line_time_ms(lines).ok()?).ok()??;
        line.slot().cloned()
    }

    /// The tags from which callers took ids since the last call, and how many ids; if there are many such tags, only
    /// those with the most ids. It looks at every tag, which takes a while with a million.
    pub fn take_note_of_use(&self) -> Vec<(BizTag, u64)> {
        self.parts.table.taken_since_look(HOT_TAGS_MAX)
    }

    /// The node that leads as far as this node knows.
    pub fn leader_id(&self) -> Option<u64> {
        self.parts.replica.node().leader_id()
    }

    /// The wall clock, in Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.parts.clock.now_ms()
    }

    /// This node's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.parts.metrics
    }
}

/// The numbers that the leader gave.
fn numbers(given: Given) -> Result<Range<u64>, Error> {
    match given {
        Given::Ids { ranges, .. } => ranges.into_iter().next().ok_or_else(not_understood),
        _ => Err(not_understood()),
    }
}

fn not_a_sequence(tag: &BizTag) -> Error {
    Error::NotFound(format!("the tag {tag} is not a sequence"))
}

fn not_understood() -> Error {
    Error::unavailable("the leader answered something other than what was asked")
}
