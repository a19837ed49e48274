//! A frozen state as a run of sections, and back.
//!
//! The run is a header, the level if it is above the first, the entries of tags in ascending order in chunks, their
//! shapes and lines as far as they are not plain, the worker ids if there are any, the bounds of windows unless they
//! are those of a new state, how far the state was raised if it was, what the third level has beside, the bounds of grabs, the
//! audit in chunks, and the end. A later release can append kinds of sections, each from a level of the cluster on. The level
//! stands right behind the header: a build that does not support it reads no further, and can say which version does.
//! Neither the writer nor the reader holds more than one section beside the state itself.
//!
//! Equal states have equal sections, whatever their history, so that replicas can be compared. Reading trusts nothing:
//! a section out of place, an odd count or a name out of order makes it refuse the whole run.

use std::{iter, mem};

use serde::{Deserialize, Serialize};

use super::apply::State;
use super::audit::AuditEntry;
use super::lease_pools::{Lease, PoolHead};
use super::level::{Level, ROOT_KEY, STEP_BOUNDS, level_of};
use super::line_names::LineName;
use super::periods_before::PeriodsBefore;
use super::register_keys::KeyChunk;
use super::shaped_entry::ShapedEntry;
use super::shared_table::Named;
use super::step_bound::StepBound;
use super::tag_entry::NamedTag;
use super::window_bounds::WindowBounds;
use super::worker_entries::WorkerEntries;
use crate::shape::RootKey;
use crate::steps::Steps;
use crate::tag::BizTag;

/// Entries in one section at most.
pub(super) const SECTION_ENTRIES_MAX: usize = 256;
/// Shaped tags, and lines of them, in one section at most, unless one tag alone has more: lines take twelve bytes
/// each, and tags less than two KiB, so a section takes less than half of what it may have.
const SECTION_LINES_MAX: usize = 256;
/// Entries of the audit in one section at most: the longest of them take less than half of what a section may
/// have.
const SECTION_AUDIT_MAX: usize = 128;

/// Leases in one section at most: the longest of them take less than half of what a section may have.
const SECTION_LEASES_MAX: usize = 256;

/// One section; `L` is the entry of a tag, `W` the worker ids, `A` an entry of the audit, `S` one of a shaped tag, `B`
/// the bound of a grab, `P` a lease of a pool, and `K` keys of a register, owned or borrowed. `level.rs` says how a kind
/// is added.
#[derive(Serialize, Deserialize)]
pub(crate) enum Section<L, W, A, S, B, P, K> {
    Header {
        clock_ms: u64,
        /// How many entries of tags there are, tombstones included.
        entries: u64,
    },
    Entries(Vec<L>),
    End,
    Workers(W),
    Level(Level),
    Audit(Vec<A>),
    Bounds(WindowBounds),
    /// How much higher lines begin that the state does not know.
    Advance(u64),
    /// The shapes and lines of tags that are, or were, shaped.
    Shaped(Vec<S>),
    /// What the keys of hidden ids are made of.
    Root(RootKey),
    /// How late a period may begin that begins higher than usual.
    PeriodsBefore(PeriodsBefore),
    /// The latest end of a window whose worker id was reassigned before its holder gave it back.
    ReassignedUntil(u64),
    /// How many ids a grab reserves at most, of the tags that have such a bound.
    StepBounds(Vec<B>),
    /// Below which no lease of a pool begins.
    PoolsFloor(u64),
    /// A pool of worker ids, before its leases.
    Pool(PoolHead),
    /// Leases of the last pool, by worker id.
    Leases(Vec<(u16, P)>),
    /// A register, before its keys.
    Register(BizTag),
    /// Keys of the last register, in the order of their numbers.
    Keys(K),
}

/// A section of a state that is written.
pub(crate) type SectionWritten<'a> = Section<
    NamedTag<&'a str, &'a str>,
    &'a WorkerEntries,
    &'a AuditEntry,
    &'a ShapedEntry,
    &'a StepBound,
    &'a Lease,
    &'a KeyChunk,
>;
/// A section that was read.
pub(crate) type SectionRead =
    Section<NamedTag, WorkerEntries, AuditEntry, ShapedEntry, StepBound, Lease, KeyChunk>;

/// The state at one moment, shared with the state it was taken from. Cheap to take and to keep; may
/// be written on any thread.
#[derive(Clone, Debug)]
pub struct FrozenState(State);

impl State {
    /// The state as it is now, for writing out while this one goes on.
    ///
    /// Costs one reference per leaf, which is some hundreds of tags. Afterwards the first change among
    /// each such group of tags copies that group, once.
    pub fn freeze(&self) -> FrozenState {
        FrozenState(self.clone())
    }
}

impl State {
    /// Whether the keys of the last register have numbers that were given: each of a period if the tag has periods, and
    /// the last one below the mark of its line.
    fn last_register_is_sound(&self) -> bool {
        let Some((tag, first, last)) = self.registers.last_ends() else { return false };
        let line = last.period.map_or(LineName::Whole, LineName::Period);
        let (Some(NamedTag { entry, .. }), Some(shaped)) =
            (self.entries.get(tag), self.shaped.get(tag))
        else {
            return false;
        };
        let mark = match shaped.lines() {
            None => Some(entry.max_id()),
            Some(lines) => lines.into_iter().find(|(its, _)| *its == line).map(|(_, mark)| mark),
        };
        let has_periods = shaped.shape().period.is_some();
        first.period.is_some() == has_periods
            && last.period.is_some() == has_periods
            // The marks of the oldest periods are not kept, and nothing of those is given any more.
            && mark.is_none_or(|mark| last.number < mark)
    }
}

impl FrozenState {
    /// Every section in its order.
    pub(crate) fn sections(&self) -> impl Iterator<Item = SectionWritten<'_>> {
        let State {
            clock_ms,
            entries,
            shaped,
            step_bounds,
            tags: _,
            workers,
            pools,
            registers,
            level,
            audit,
            advance,
            periods_before,
            root,
        } = &self.0;
        let header = Section::Header { clock_ms: *clock_ms, entries: entries.len() as u64 };
        let level = (!level.is_first()).then(|| Section::Level(level.clone()));
        let mut rest = entries.after(None).peekable();
        let chunks = iter::from_fn(move || {
            rest.peek()?;
            Some(Section::Entries(rest.by_ref().take(SECTION_ENTRIES_MAX).collect()))
        });
        let mut shapes = shaped.after(None).peekable();
        let shapes = iter::from_fn(move || {
            let lines_of = |shaped: &ShapedEntry| 1 + shaped.kept_lines();
            let first = shapes.next()?;
            let (mut chunk, mut lines) = (vec![first], lines_of(first));
            let has_room =
                |lines| move |next: &&ShapedEntry| lines + lines_of(next) <= SECTION_LINES_MAX;
            while let Some(next) = shapes.next_if(has_room(lines)) {
                lines += lines_of(next);
                chunk.push(next);
            }
            Some(Section::Shaped(chunk))
        });
        let bounds = workers.bounds();
        let bounds = (*bounds != WindowBounds::default()).then(|| Section::Bounds(bounds.clone()));
        let reassigned = Some(workers.reassigned_until_ms()).filter(|until_ms| *until_ms > 0);
        let workers = (!workers.is_empty()).then_some(Section::Workers(workers));
        let advance = (*advance > 0).then_some(Section::Advance(*advance));
        let root = root.clone().map(Section::Root);
        let before = Some(*periods_before).filter(|before| *before != PeriodsBefore::default());
        let third = root.into_iter().chain(before.map(Section::PeriodsBefore));
        let third = third.chain(reassigned.map(Section::ReassignedUntil));
        let mut bounded = step_bounds.after(None).peekable();
        let bounded = iter::from_fn(move || {
            bounded.peek()?;
            Some(Section::StepBounds(bounded.by_ref().take(SECTION_ENTRIES_MAX).collect()))
        });
        let third = third.chain(bounded);
        let floor_ms = Some(pools.floor_ms()).filter(|floor_ms| *floor_ms > 0);
        let pools = pools.written().flat_map(|(head, leases)| {
            let chunks = leases.chunks(SECTION_LEASES_MAX);
            let chunks: Vec<_> = chunks.map(|chunk| Section::Leases(owned(chunk))).collect();
            iter::once(Section::Pool(head)).chain(chunks)
        });
        let registers = registers.written().flat_map(|(tag, chunks)| {
            iter::once(Section::Register(tag.clone())).chain(chunks.map(Section::Keys))
        });
        let third = third.chain(floor_ms.map(Section::PoolsFloor)).chain(pools).chain(registers);
        let mut recorded = audit.after(0).peekable();
        let audit = iter::from_fn(move || {
            recorded.peek()?;
            Some(Section::Audit(recorded.by_ref().take(SECTION_AUDIT_MAX).collect()))
        });
        let sections = iter::once(header).chain(level).chain(chunks).chain(shapes);
        let sections = sections.chain(workers).chain(bounds).chain(advance);
        sections.chain(third).chain(audit).chain(iter::once(Section::End))
    }
}

fn owned<'a>(leases: &[(&'a u16, &'a Lease)]) -> Vec<(u16, &'a Lease)> {
    leases.iter().map(|(id, lease)| (**id, *lease)).collect()
}

/// Why sections do not make a state.
#[derive(Debug, PartialEq)]
pub(crate) enum UnfitSnapshot {
    /// The state is of a level that this build does not support.
    Newer {
        /// The cluster's level when the state was frozen.
        level: u32,
        /// The first version that supports it.
        version: String,
    },
    /// No state has these sections.
    Malformed(&'static str),
}

/// A state that is put together from its sections.
pub(crate) struct Restorer {
    state: State,
    /// How many entries the header promises.
    entries: u64,
    level_max: u32,
}

impl Restorer {
    /// Begins with the first section, in a build that supports levels up to `level_max`.
    ///
    /// # Errors
    /// When the section is not a header.
    pub(crate) fn begin(level_max: u32, first: SectionRead) -> Result<Self, UnfitSnapshot> {
        let Section::Header { clock_ms, entries } = first else {
            return Err(UnfitSnapshot::Malformed("it does not begin with a header"));
        };
        let state = State { clock_ms, ..State::default() };
        Ok(Self { state, entries, level_max })
    }

    /// Takes in the next section; false when that is the end.
    ///
    /// # Errors
    /// When the section does not fit those before it.
    pub(crate) fn take(&mut self, section: SectionRead) -> Result<bool, UnfitSnapshot> {
        let may_follow_audit = matches!(section, Section::Audit(_) | Section::End);
        if !may_follow_audit && !self.state.audit.is_empty() {
            return Err(UnfitSnapshot::Malformed("its audit stands in the wrong place"));
        }
        match section {
            Section::Entries(chunk) => {
                chunk.iter().try_for_each(|tag| self.push(tag))?;
            }
            Section::Shaped(chunk) => {
                chunk.into_iter().try_for_each(|shaped| self.push_shaped(shaped))?;
            }
            Section::Workers(workers) => self.take_workers(workers)?,
            Section::Bounds(bounds) => self.take_bounds(bounds)?,
            Section::Advance(advance) => self.take_advance(advance)?,
            Section::Root(root) => self.take_third(|state| state.root.replace(root).is_none())?,
            Section::PeriodsBefore(before) => self.take_third(|state| {
                let was = mem::replace(&mut state.periods_before, before);
                was == PeriodsBefore::default() && before != was
            })?,
            Section::ReassignedUntil(until_ms) => self.take_third(|state| {
                let was_ms = state.workers.reassigned_until_ms();
                state.workers.note_reassigned(until_ms);
                was_ms == 0 && until_ms > 0
            })?,
            Section::StepBounds(chunk) => {
                chunk.into_iter().try_for_each(|bound| self.push_step_bound(bound))?;
            }
            Section::PoolsFloor(floor_ms) => {
                self.take_third(|state| state.pools.take_floor(floor_ms))?;
            }
            Section::Pool(head) => self.take_third(|state| state.pools.take_pool(head))?,
            Section::Leases(leases) => self.take_third(|state| state.pools.take_leases(leases))?,
            Section::Register(tag) => self.take_register(tag)?,
            Section::Keys(keys) => self.take_keys(keys)?,
            Section::Audit(entries) => {
                self.state.audit.extend(entries).map_err(UnfitSnapshot::Malformed)?;
            }
            Section::Level(level) => self.take_level(level)?,
            Section::End => return Ok(false),
            Section::Header { .. } => {
                return Err(UnfitSnapshot::Malformed("it has two headers"));
            }
        }
        Ok(true)
    }

    /// The state, after its last section.
    ///
    /// # Errors
    /// When entries are missing, or there are too many.
    pub(crate) fn finish(self) -> Result<State, UnfitSnapshot> {
        if self.state.entries.len() as u64 != self.entries {
            return Err(UnfitSnapshot::Malformed("it has another number of entries than it says"));
        }
        Ok(self.state)
    }

    /// Takes in the level, which stands before everything that may depend on it.
    fn take_level(&mut self, level: Level) -> Result<(), UnfitSnapshot> {
        if level.number() > self.level_max {
            let (level, version) = (level.number(), level.version().to_owned());
            return Err(UnfitSnapshot::Newer { level, version });
        }
        let State { entries, workers, level: before, .. } = &self.state;
        let is_at_its_place = before.is_first() && entries.len() == 0 && workers.is_empty();
        if level.is_first() || !is_at_its_place {
            return Err(UnfitSnapshot::Malformed("its level stands in the wrong place"));
        }
        self.state.level = level;
        Ok(())
    }

    /// Takes in the worker ids. There is at most one section of them.
    fn take_workers(&mut self, workers: WorkerEntries) -> Result<(), UnfitSnapshot> {
        if !self.state.workers.is_empty() || workers.is_empty() {
            return Err(UnfitSnapshot::Malformed("its worker ids come twice or not at all"));
        }
        if *self.state.workers.bounds() != WindowBounds::default() {
            return Err(UnfitSnapshot::Malformed(
                "its bounds of windows stand before its worker ids",
            ));
        }
        if !workers.is_sound() {
            return Err(UnfitSnapshot::Malformed("a worker id is out of bounds"));
        }
        self.state.workers = workers;
        Ok(())
    }

    /// Takes in how far the state was raised. There is one such section, and only in a state that was raised.
    fn take_advance(&mut self, advance: u64) -> Result<(), UnfitSnapshot> {
        if self.state.advance > 0 || advance == 0 {
            return Err(UnfitSnapshot::Malformed("its advance comes twice or not at all"));
        }
        self.state.advance = advance;
        Ok(())
    }

    /// Takes in what the third level has, by a function that returns whether it was new and is not nothing.
    fn take_third(&mut self, take: impl FnOnce(&mut State) -> bool) -> Result<(), UnfitSnapshot> {
        if self.state.level.number() >= ROOT_KEY && take(&mut self.state) {
            return Ok(());
        }
        let why = "a section of the third level comes twice, empty, or below that level";
        Err(UnfitSnapshot::Malformed(why))
    }

    /// Takes in the name of a register, before its keys.
    fn take_register(&mut self, tag: BizTag) -> Result<(), UnfitSnapshot> {
        self.take_third(|state| {
            let shape = state.shape(tag.as_str());
            shape.is_some_and(|shape| shape.giver().records_keys())
                && state.registers.take_register(tag)
        })
    }

    /// Takes in keys of the last register. Their numbers lie below its mark, or they would be given again.
    fn take_keys(&mut self, keys: KeyChunk) -> Result<(), UnfitSnapshot> {
        self.take_third(|state| state.registers.take_keys(keys) && state.last_register_is_sound())
    }

    /// Takes in the bounds of windows, which stand behind the worker ids that they bind.
    fn take_bounds(&mut self, bounds: WindowBounds) -> Result<(), UnfitSnapshot> {
        let (workers, none) = (&mut self.state.workers, WindowBounds::default());
        if *workers.bounds() != none || bounds == none {
            return Err(UnfitSnapshot::Malformed("its bounds of windows come twice or not at all"));
        }
        *workers.bounds_mut() = bounds;
        if !workers.is_sound() {
            return Err(UnfitSnapshot::Malformed("its bounds of windows bind others than its own"));
        }
        Ok(())
    }

    /// Adds an entry above all others.
    fn push(&mut self, tag: &NamedTag) -> Result<(), UnfitSnapshot> {
        if !tag.entry.is_sound() {
            return Err(UnfitSnapshot::Malformed("a step is out of bounds"));
        }
        let last = self.state.entries.last();
        if last.is_some_and(|last| last.name() >= tag.name()) {
            return Err(UnfitSnapshot::Malformed("its names do not ascend"));
        }
        self.state.tags += usize::from(tag.entry.is_live());
        self.state.entries.insert(tag.borrowed());
        Ok(())
    }

    /// Adds the bound of a tag's grabs, above all others.
    fn push_step_bound(&mut self, bound: StepBound) -> Result<(), UnfitSnapshot> {
        let State { entries, step_bounds: before, level, .. } = &mut self.state;
        let tag = entries.get(bound.name()).filter(|tag| tag.entry.is_live());
        let step_max = Some(bound.step_max);
        let is_sound = tag.is_some_and(|tag| Steps { step: tag.entry.step(), step_max }.is_sound());
        let ascends = before.last().is_none_or(|last| last.name() < bound.name());
        if level.number() < STEP_BOUNDS || !is_sound || !ascends {
            let why = "the bound of a grab is out of bounds, out of order, or below its level";
            return Err(UnfitSnapshot::Malformed(why));
        }
        before.insert(bound);
        Ok(())
    }

    /// Adds the shape and the lines of an entry, above all others.
    fn push_shaped(&mut self, shaped: ShapedEntry) -> Result<(), UnfitSnapshot> {
        let State { entries, shaped: before, level, workers, .. } = &mut self.state;
        let is_at_its_place = workers.is_empty() && level.number() >= level_of(shaped.shape());
        if !is_at_its_place || entries.len() as u64 != self.entries {
            return Err(UnfitSnapshot::Malformed("its shapes stand in the wrong place"));
        }
        if before.last().is_some_and(|last| last.name() >= shaped.name()) {
            return Err(UnfitSnapshot::Malformed("the names of its shapes do not ascend"));
        }
        if !shaped.is_sound() || entries.get(shaped.name()).is_none() {
            return Err(UnfitSnapshot::Malformed("a shape is out of bounds or belongs to no tag"));
        }
        before.insert(shaped);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
