//! Creates tags: as long as the cluster has a place for another name, and on first use no faster than a
//! node may.
//!
//! A name is kept for ever, because its tombstone keeps its watermark. So `--tags-max` bounds how many names clients
//! may add. Applying reads no setting of a node; hence the node that proposes a creation decides, before it proposes.
//! Where few places are left ([`PLENTY`]), it counts the names after a read barrier, which makes the count as fresh as
//! the leader's. Otherwise it does not wait: a copy that lacks that many names belongs to a node that is cut off, and
//! whose proposals reach no leader. The count does not include the creations that are under way, so they can exceed the
//! bound:
//!
//! - A node has at most [`AT_ONCE_MAX`] creations under way, the one that it decides on among them.
//! - Where fewer places are left than all members together may have under way, a node creates one tag at a
//!   time. So one node alone never exceeds the bound; `m` members exceed it by `m - 1` names when all of them
//!   take the last place at the same moment.
//! - When a member's creations are held up until the other members have used those places up, they come on
//!   top: [`AT_ONCE_MAX`] for each member but one.
//! - A creation whose outcome is unknown (503) is not under way any more, and may still happen.
//!
//! A name that the cluster knows needs no place: either the tag exists already, or it goes on above its tombstone. A
//! cluster that has more names than the bound, because the bound was lowered, hands out ids as before.
//!
//! Nothing is kept for a name that was refused.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::limits::{START_DEFAULT, STEP_DEFAULT, STEP_DEFAULT_READ, STEP_MAX};
use mintleaf_core::segment::Segment;
use mintleaf_core::shape::{Giver, Shape};
use mintleaf_core::state::{Actor, Change, Command, Protection, Response, State, TagRow};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::ProposeError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::audit;
use super::first_uses::FirstUses;
use super::shape_spec::{ShapeSpec, other_shape};
use crate::limits::TAG_CHANGE_MAX;
use crate::service::error::Error;
use crate::service::parts::ServiceParts;

/// Maximum number of creations that a node has under way: enough to fill the batches of the log, and few beside any
/// bound that is worth setting.
pub(in crate::service) const AT_ONCE_MAX: u32 = 64;

/// If this many places for names are left, beyond the names that members may be about to add, this node's own copy is
/// as good a count as the leader's. It is what the fastest import adds in some seconds.
const PLENTY: u64 = 100_000;

/// Pause before the next look whether the cluster has settled its level.
const SETTLED_INTERVAL: Duration = Duration::from_millis(20);

/// The fields of a new tag.
#[derive(Clone, Debug)]
pub struct TagSpec {
    /// Ids per grab; the default of its shape if absent.
    pub step: Option<u32>,
    /// Maximum number of ids per grab; as many as are wanted if absent.
    pub step_max: Option<u32>,
    /// The first id, unless the name was used before; then ids go on above all it ever had.
    pub start: u64,
    /// Free text.
    pub description: String,
    /// What keeps callers from taking ids.
    pub protection: Protection,
    /// The shape.
    pub shape: ShapeSpec,
}

impl Default for TagSpec {
    fn default() -> Self {
        let (description, protection) = (String::new(), Protection::default());
        let shape = ShapeSpec::default();
        let (step, step_max, start) = (None, None, START_DEFAULT);
        Self { step, step_max, start, description, protection, shape }
    }
}

impl TagSpec {
    fn creation_of(self, tag: BizTag, shape: &Shape) -> Change {
        let Self { step, step_max, start, description, protection, shape: _ } = self;
        let step = step.unwrap_or_else(|| step_default(shape).min(step_max.unwrap_or(STEP_MAX)));
        if let Some(step_max) = step_max {
            let shape = Box::new(shape.clone());
            return Change::CreateBoundedTag {
                tag,
                step,
                step_max,
                start,
                description,
                protection,
                shape,
            };
        }
        if shape.is_plain() {
            return Change::CreateTag { tag, step, start, description, protection };
        }
        let shape = Box::new(shape.clone());
        Change::CreateShapedTag { tag, step, start, description, protection, shape }
    }
}

/// Refuses the fields of grabs for a register, which no node reserves numbers of.
///
/// # Errors
/// [`Error::InvalidArgument`] names both fields.
pub(super) fn check_steps(shape: &Shape, step: bool, step_max: bool) -> Result<(), Error> {
    let given =
        [("step", step), ("step_max", step_max)].into_iter().find(|(_, is_given)| *is_given);
    match (shape.giver(), given) {
        (Giver::Log, Some((field, _))) => {
            let why = "a register reserves no number without its key";
            Err(Error::invalid("kind", format!("kind and {field} cannot be combined: {why}")))
        }
        (Giver::Log, None) | (Giver::AnyNode | Giver::Leader | Giver::LeaderByKey, _) => Ok(()),
    }
}

/// The step of a tag that was created without one.
fn step_default(shape: &Shape) -> u32 {
    let is_read_by_people = shape.period.is_some() || shape.format.is_some();
    match shape.giver() {
        Giver::AnyNode if is_read_by_people => STEP_DEFAULT_READ,
        Giver::AnyNode | Giver::Leader | Giver::LeaderByKey => STEP_DEFAULT,
        Giver::Log => 1,
    }
}

/// What came of the first use of a tag.
pub(in crate::service) struct FirstUse {
    /// The tag, if this use created it.
    pub(in crate::service) created: Option<TagRow>,
    /// Its first segment here.
    pub(in crate::service) first: Segment,
}

/// The places of several names.
enum Places {
    /// All are taken, or none is needed.
    Taken(Option<OwnedSemaphorePermit>),
    /// So few are left that tags are created one at a time.
    Few,
}

/// Creates tags.
pub(in crate::service) struct TagCreation {
    pub(in crate::service) parts: ServiceParts,
    /// One permit for each creation that may be under way; all of them for one that must be the only one.
    under_way: Arc<Semaphore>,
    first_uses: FirstUses,
}

impl TagCreation {
    pub(in crate::service) fn new(parts: ServiceParts) -> Self {
        let under_way = Arc::new(Semaphore::new(AT_ONCE_MAX as usize));
        Self { parts, under_way, first_uses: FirstUses::default() }
    }

    /// Creates a tag that an administrator asked for.
    ///
    /// # Errors
    /// [`Error::TagExists`], [`Error::TooManyTags`], [`Error::InvalidArgument`]; [`Error::Conflict`] when a deleted
    /// tag of this name had another shape; [`Error::Level`] when the cluster is of too low a level for the shape;
    /// [`Error::Overloaded`] or [`Error::Unavailable`] when it did not happen in time.
    pub(in crate::service) async fn create(
        &self,
        actor: &Actor,
        tag: BizTag,
        spec: TagSpec,
    ) -> Result<TagRow, Error> {
        let deadline = self.parts.replica.deadline(TAG_CHANGE_MAX);
        tag.check_new()?;
        let shape = spec.shape.shape(spec.start, self.parts.draw_key)?;
        check_steps(&shape, spec.step.is_some(), spec.step_max.is_some())?;
        let change = spec.creation_of(tag.clone(), &shape);
        let command = audit::command(actor, &change);
        command.check()?;
        self.await_level(command.level(), deadline).await;
        let place = self.place(&tag, deadline).await?;
        let replica = Arc::clone(&self.parts.replica);
        let proposal = async move { replica.propose(&command, deadline).await };
        match carry(place, proposal).await?.into_tag() {
            Ok(row) => {
                audit::log(actor, &change, &change.facts(Some(&row)));
                Ok(row)
            }
            Err(Response::OtherShape) => {
                Err(other_shape(&self.parts.replica, tag.as_str(), &shape))
            }
            Err(rejection) => Err(Error::rejected(&self.parts.replica, &rejection)),
        }
    }

    /// Has each of these commands import a tag, in one proposal as long as there are many places. There are at most
    /// [`AT_ONCE_MAX`] commands.
    ///
    /// The proposal may be applied twice. The second time changes nothing, unless the tag was deleted in between: then
    /// it comes back, above its former mark. The caller has no answer until then, so the import counts as later than
    /// that deletion. A client that repeats an import without an answer does the same.
    pub(in crate::service) async fn import(
        &self,
        tags: Vec<BizTag>,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Vec<Result<Response, Error>> {
        let places = match self.places(&tags, deadline).await {
            Ok(Places::Taken(places)) => places,
            Ok(Places::Few) => {
                let mut responses = Vec::with_capacity(tags.len());
                for (tag, command) in tags.iter().zip(commands) {
                    responses.push(self.import_one(tag, command, deadline).await);
                }
                return responses;
            }
            Err(error) => return vec![Err(error); tags.len()],
        };
        let replica = Arc::clone(&self.parts.replica);
        let proposal = async move { replica.propose_all(&commands, deadline).await };
        match carry(places, proposal).await {
            Ok(responses) => responses.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); tags.len()],
        }
    }

    async fn import_one(
        &self,
        tag: &BizTag,
        command: Command,
        deadline: Instant,
    ) -> Result<Response, Error> {
        let place = self.place(tag, deadline).await?;
        let replica = Arc::clone(&self.parts.replica);
        carry(place, async move { replica.propose(&command, deadline).await }).await
    }

    /// Creates a tag whose first id is `start` because it is used for the first time, and reserves its first segment with
    /// it, so that the caller waits for one commit. If another caller was first, here or on another node, the segment is
    /// one of the tag that there is. `None` without a segment.
    ///
    /// The proposal may be applied twice. If the tag was deleted in between, the second time creates it again, as a use
    /// after the deletion does.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::TooManyTags`], [`Error::RateLimited`]; [`Error::Overloaded`] or
    /// [`Error::Unavailable`] when it did not happen in time.
    pub(in crate::service) async fn create_on_first_use(
        &self,
        tag: &BizTag,
        start: u64,
        deadline: Instant,
    ) -> Result<Option<FirstUse>, Error> {
        self.could_create(tag)?;
        if !self.first_uses.admit(self.parts.clock.monotonic_ms()) {
            return Err(Error::RateLimited);
        }
        let place = self.place(tag, deadline).await?;
        let step = STEP_DEFAULT;
        let create = [
            Command::CreateTag { tag: tag.clone(), step, start, description: String::new() },
            // The log raises this to the tag's step, which is another one if the tag exists already.
            Command::Grab { tag: tag.clone(), size: 1 },
        ];
        let replica = Arc::clone(&self.parts.replica);
        let proposal = async move { replica.propose_all(&create, deadline).await };
        match &carry(place, proposal).await?[..] {
            [created, Response::Segment { start, end, .. }] => {
                let created =
                    if let Response::Tag(row) = created { Some(row.clone()) } else { None };
                Ok(Some(FirstUse { created, first: Segment { start: *start, end: *end } }))
            }
            // A deleted tag had a shape, which a first use says nothing of.
            [Response::OtherShape, _] => Err(Error::UnknownTag),
            _ => Ok(None),
        }
    }

    /// Waits until a cluster that is about to form has its level, which it settles before its first rules. An older
    /// cluster is not waited for.
    async fn await_level(&self, level: u32, deadline: Instant) {
        let is_settled =
            |state: &State| state.level() >= level || state.snowflake_rules().is_some();
        while !self.parts.replica.read(is_settled) && Instant::now() < deadline {
            sleep(SETTLED_INTERVAL).await;
        }
    }

    /// Whether a tag may have this name, and there is a place for it, as far as this node's copy shows. Creates
    /// nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::TooManyTags`].
    pub(in crate::service) fn could_create(&self, tag: &BizTag) -> Result<(), Error> {
        tag.check_new()?;
        if self.knows(tag) { Ok(()) } else { self.places_left().map(drop) }
    }

    /// A place for this name, which is the caller's until it drops the place; none when the name needs none.
    async fn place(
        &self,
        tag: &BizTag,
        deadline: Instant,
    ) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let mut alone = false;
        while !self.knows(tag) {
            // The copy may be behind, but a name that it shows is there for ever. So it refuses nothing wrongly, and if
            // it shows few places left, there are few.
            alone |= self.places_left()? <= self.crowd();
            let permits = if alone { AT_ONCE_MAX } else { 1 };
            let place = Arc::clone(&self.under_way).acquire_many_owned(permits);
            let Ok(Ok(place)) = timeout_at(deadline, place).await else {
                return Err(Error::Overloaded);
            };
            if alone || !self.has_plenty() {
                self.parts.replica.read_barrier(deadline).await?;
            }
            if self.knows(tag) {
                break;
            }
            let left = self.places_left()?;
            if alone || left > self.crowd() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// A place for each of these names that needs one, unless they are few.
    async fn places(&self, tags: &[BizTag], deadline: Instant) -> Result<Places, Error> {
        let new = tags.iter().filter(|tag| !self.knows(tag)).count();
        if new == 0 {
            return Ok(Places::Taken(None));
        }
        let are_few = || self.places_left().map_or(true, |left| left <= self.crowd());
        if are_few() {
            return Ok(Places::Few);
        }
        let permits = u32::try_from(new).unwrap_or(u32::MAX);
        let places = Arc::clone(&self.under_way).acquire_many_owned(permits.min(AT_ONCE_MAX));
        let Ok(Ok(places)) = timeout_at(deadline, places).await else {
            return Err(Error::Overloaded);
        };
        if !self.has_plenty() {
            self.parts.replica.read_barrier(deadline).await?;
        }
        Ok(if are_few() { Places::Few } else { Places::Taken(Some(places)) })
    }

    /// How many names may be added, as far as this node's copy shows: 1 or more.
    fn places_left(&self) -> Result<u64, Error> {
        let names = self.parts.replica.read(|state| state.names()) as u64;
        let left = self.parts.settings.tags_max.saturating_sub(names);
        if left > 0 {
            Ok(left)
        } else {
            Err(Error::TooManyTags { tags_max: self.parts.settings.tags_max })
        }
    }

    /// Whether places are left for many more names than may be under way.
    fn has_plenty(&self) -> bool {
        self.places_left().is_ok_and(|left| left > self.crowd() + PLENTY)
    }

    /// How many creations all members together may have under way.
    fn crowd(&self) -> u64 {
        let members = self.parts.replica.node().status().members.len().max(1);
        members as u64 * u64::from(AT_ONCE_MAX)
    }

    fn knows(&self, tag: &BizTag) -> bool {
        self.parts.replica.read(|state| state.knows(tag.as_str()))
    }
}

/// Carries a proposal through, even if the caller goes away first. The proposal keeps its place until its outcome is
/// known, and its deadline ends it.
async fn carry<T: Send + 'static>(
    place: Option<OwnedSemaphorePermit>,
    proposal: impl Future<Output = Result<T, ProposeError>> + Send + 'static,
) -> Result<T, Error> {
    let carried = tokio::spawn(async move {
        let outcome = proposal.await;
        drop(place);
        outcome
    });
    match carried.await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(Error::unavailable("this node is stopping")),
    }
}

#[cfg(test)]
mod tests;
