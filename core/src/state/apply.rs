//! Applies committed commands to the state, one after another.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::audit::Audit;
use super::command::Command;
use super::lease_pools::{LeasePool, LeasePools, LeaseRow, WantedLease};
use super::level::{Level, ROOT_KEY};
use super::periods_before::PeriodsBefore;
use super::pool_workers::PoolWorkers;
use super::protection::Protection;
use super::register_keys::RegisterEntry;
use super::registers::Registers;
use super::response::Response;
use super::shaped_entry::{LineGrab, ShapedEntry};
use super::shared_table::{Named, SharedTable};
use super::stamp::Stamp;
use super::step_bound::StepBound;
use super::tag_entry::{NamedTag, TagEntry, TagRow};
use super::tag_fields::TagFields;
use super::tag_leaf::TagTable;
use super::worker_entries::{ClockReport, WantedWindow, WorkerEntries, WorkerRow};
use crate::limits::ID_END;
use crate::shape::{Leadership, Line, PeriodNumber, RootKey, Shape};
use crate::snowflake::{Format, Rules};
use crate::steps::Steps;
use crate::tag::{BizTag, OutOfBounds};

/// Maximum number of entries that one page looks at. There may be many tombstones, which are never removed.
pub const VISITED_MAX: usize = 10_000;

/// One page of rows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TagPage {
    /// The rows, each of them once.
    pub rows: Vec<TagRow>,
    /// The next page begins after this name; `None` on the last page. A page may have no row and still have a next
    /// page.
    pub next: Option<BizTag>,
}

/// Everything the cluster agrees on, as of one entry of its log.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The highest stamp of any applied command: time as the log knows it, which never steps back.
    pub(super) clock_ms: u64,
    /// Every tag ever created, deleted ones included.
    pub(super) entries: TagTable,
    /// The shapes and lines of all tags that are, or were, shaped.
    pub(super) shaped: SharedTable<Vec<ShapedEntry>>,
    /// The bounds of grabs, of the existing tags that have one.
    pub(super) step_bounds: SharedTable<Vec<StepBound>>,
    /// How many tags are not deleted.
    pub(super) tags: usize,
    pub(super) workers: WorkerEntries,
    /// Pools of worker ids for programs outside of the cluster.
    pub(super) pools: LeasePools,
    /// The keys of registers.
    pub(super) registers: Registers,
    pub(super) level: Level,
    pub(super) audit: Audit,
    /// A line that this state does not know begins this much higher than usual: the sum of the advances of all
    /// restores, because the restored copies may have lacked lines that the old cluster had.
    pub(super) advance: u64,
    /// Until when the cluster before a restore may have begun periods that this state does not know. Such a period
    /// begins higher by `advance`.
    pub(super) periods_before: PeriodsBefore,
    /// The root key, which makes the keys of hidden ids from the third level on.
    pub(super) root: Option<RootKey>,
}

/// What a creation says about a tag besides its name.
pub(super) struct NewTag<'a> {
    pub(super) step: u32,
    pub(super) start: u64,
    pub(super) description: &'a str,
    pub(super) protection: Protection,
    /// `None` for a plain tag.
    pub(super) shape: Option<&'a Shape>,
    pub(super) step_max: Option<u32>,
}

impl<'a> NewTag<'a> {
    /// A plain tag without protection: callers may take its ids freely.
    pub(super) fn plain(step: u32, start: u64, description: &'a str) -> Self {
        Self {
            step,
            start,
            description,
            protection: Protection::default(),
            shape: None,
            step_max: None,
        }
    }
}

impl State {
    /// Applies one committed command of an entry with this stamp.
    ///
    /// Applying cannot fail: the response to a command that may not be carried out is a rejection, and only the state's
    /// clock changes. For tags, a stamp below an earlier one counts as the earlier one; worker ids and periods take
    /// every stamp as it is.
    pub fn apply(&mut self, stamp: impl Into<Stamp>, command: &Command) -> Response {
        let stamp = stamp.into();
        let now_ms = stamp.now_ms;
        self.clock_ms = self.clock_ms.max(now_ms);
        self.periods_before.take(now_ms);
        if let Err(what) = command.check() {
            return Response::Invalid { what };
        }
        match command {
            Command::CreateTag { tag, step, start, description } => {
                self.create(tag, &NewTag::plain(*step, *start, description))
            }
            Command::UpdateTag { tag, step, max_id, description } => {
                let (step, max_id, description) = (*step, *max_id, description.clone());
                let fields = TagFields { step, max_id, description, ..TagFields::default() };
                self.update(tag, &fields, None)
            }
            Command::DeleteTag { tag } => self.delete(tag),
            Command::Administer { actor, change } => self.administer(now_ms, actor, change),
            Command::Grab { tag, size } => self.grab(tag, *size),
            &Command::GrabLine { ref tag, size, line, by } => {
                self.grab_line(tag, (size, line, by), stamp)
            }
            Command::FixFormat { format } => self.workers.fix(*format),
            Command::ReportClock { node_id, clock_ms } => {
                self.workers.report(now_ms, *node_id, *clock_ms)
            }
            &Command::AcquireWorker { node_id, nonce, worker_id, window_ms } => {
                let wanted = WantedWindow { node_id, nonce, worker_id, window_ms };
                self.workers.acquire(now_ms, wanted, self.level.number())
            }
            Command::RenewWorker { worker_id, nonce, window_ms } => {
                self.workers.renew(now_ms, *worker_id, *nonce, *window_ms)
            }
            Command::ReleaseWorker { worker_id, nonce, unused_from_ms } => {
                self.workers.release(*worker_id, *nonce, *unused_from_ms)
            }
            Command::FixRules { rules } => self.workers.fix_rules(rules),
            Command::LiftWindow { worker_id, nonce, floor_ms } => {
                self.workers.lift(*worker_id, *nonce, *floor_ms)
            }
            Command::RaiseLevel { to, version } => {
                self.level.raise(*to, version);
                Response::Noted
            }
            Command::DrawRoot { root } => {
                self.root.get_or_insert_with(|| root.clone());
                Response::Noted
            }
            &Command::LeaseWorker { ref pool, nonce, ref holder, window_ms } => {
                self.pools.lease(now_ms, pool, WantedLease { nonce, holder, window_ms })
            }
            &Command::RenewLease { ref pool, worker_id, nonce, window_ms } => {
                self.pools.renew(now_ms, pool, (worker_id, nonce), window_ms)
            }
            &Command::GiveBackLease { ref pool, worker_id, nonce, unused_from_ms } => {
                self.pools.give_back(pool, (worker_id, nonce), unused_from_ms)
            }
            &Command::Register { ref tag, ref key, line, keys_max } => {
                self.register(tag, key, (line, keys_max), stamp)
            }
        }
    }

    /// The row of a tag that exists.
    pub fn tag(&self, tag: &str) -> Option<TagRow> {
        self.entries.get(tag).and_then(|tag| self.row_of(&tag))
    }

    /// The shape of a name that has or had a shaped tag; `None` for a plain tag, and for a name that no tag ever had.
    pub fn shape(&self, name: &str) -> Option<&Arc<Shape>> {
        self.shaped.get(name).map(ShapedEntry::shape)
    }

    /// The protection of a tag that exists: what keeps callers from taking its ids.
    pub fn protection(&self, tag: &str) -> Option<Protection> {
        self.live(tag).map(|entry| entry.protection())
    }

    /// The first number that is not reserved in a section of a sequence that exists.
    pub fn section_end(&self, tag: &str, section: u16) -> Option<u64> {
        self.live(tag)?;
        self.shaped.get(tag)?.section_end(section)
    }

    /// Up to `limit` rows in the order of their names, beginning after the name `after`, which need
    /// not exist.
    pub fn tags_after(&self, after: Option<&str>, limit: usize) -> Vec<TagRow> {
        self.entries.after(after).filter_map(|tag| self.row_of(&tag)).take(limit).collect()
    }

    /// One page of rows whose names begin with `prefix`, in the order of their names, beginning after the name `after`,
    /// which need not exist. It ends after `limit` rows, before the first row that `has_room` refuses, or after
    /// [`VISITED_MAX`] entries, even if all of them are tombstones.
    pub fn tags_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        mut has_room: impl FnMut(&TagRow) -> bool,
    ) -> TagPage {
        let mut page = TagPage::default();
        let mut last = None;
        for (visited, tag) in self.entries.beginning_with(prefix, after).enumerate() {
            let row = self.row_of(&tag);
            let is_next =
                row.as_ref().is_some_and(|row| page.rows.len() == limit || !has_room(row));
            if is_next || visited == VISITED_MAX {
                page.next = last.as_ref().map(NamedTag::tag);
                break;
            }
            page.rows.extend(row);
            last = Some(tag);
        }
        page
    }

    /// How many tags exist.
    pub fn len(&self) -> usize {
        self.tags
    }

    /// Whether no tag exists.
    pub fn is_empty(&self) -> bool {
        self.tags == 0
    }

    /// How many names the state keeps for ever: the names of the tags that exist, and of deleted ones.
    pub fn names(&self) -> usize {
        self.entries.len()
    }

    /// Whether the state keeps this name: a tag has it or had it.
    pub fn knows(&self, name: &str) -> bool {
        self.entries.get(name).is_some()
    }

    /// The state's time in Unix milliseconds: the highest stamp applied, 0 before the first.
    pub fn clock_ms(&self) -> u64 {
        self.clock_ms
    }

    /// A line that this state does not know begins this much higher than usual; 0 unless the cluster was restored.
    pub fn advance(&self) -> u64 {
        self.advance
    }

    /// Whether a root key, which every copy of this state has, makes the keys of new hidden ids.
    pub fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// The cluster's level: nothing above it is proposed, answered or written.
    pub fn level(&self) -> u32 {
        self.level.number()
    }

    /// The first version that supports this level.
    pub fn version_needed(&self) -> &str {
        self.level.version()
    }

    /// How the cluster makes snowflake ids; `None` until a command has settled it.
    pub fn format(&self) -> Option<Format> {
        self.workers.format()
    }

    /// What the cluster has settled about snowflake ids; `None` until a command has.
    pub fn snowflake_rules(&self) -> Option<Rules> {
        self.workers.rules()
    }

    /// How far a window may reach past the stamp of its entry, in milliseconds: an hour until a command has
    /// settled on less. So every id ever given shows a time below the last stamp plus this.
    pub fn snowflake_window_ms_max(&self) -> u64 {
        self.workers.bounds().window_ms_max()
    }

    /// The snowflake floor in Unix milliseconds, 0 before it is first raised: no window of any worker id that is given
    /// from now on begins below it.
    pub fn snowflake_floor_ms(&self) -> u64 {
        self.workers.bounds().floor_ms()
    }

    /// The worker ids whose holders have milliseconds below `floor_ms` and have not reported yet that they no longer
    /// stamp these.
    pub fn windows_below(&self, floor_ms: u64) -> Vec<WorkerRow> {
        let reaches_below =
            |row: &WorkerRow| row.nonce.is_some() && row.floor_ms < floor_ms.min(row.fence_ms);
        self.workers.rows().filter(reaches_below).collect()
    }

    /// The latest end of a window whose worker id was given to another process before its holder gave it back; 0 before
    /// the first such window, and below the third level.
    pub fn reassigned_until_ms(&self) -> u64 {
        self.workers.reassigned_until_ms()
    }

    /// Every worker id that was ever used, in order.
    pub fn workers(&self) -> Vec<WorkerRow> {
        self.workers.rows().collect()
    }

    /// The pools that exist, in the order of their names: the worker ids of each, how many leases of it last past this
    /// millisecond, and when the first of these ends.
    pub fn pools(&self, now_ms: u64) -> Vec<(BizTag, PoolWorkers, usize, Option<u64>)> {
        let shown = |(name, workers, pool): (&BizTag, &PoolWorkers, &LeasePool)| {
            let (leased, first_end_ms) = pool.leased(now_ms);
            (name.clone(), workers.clone(), leased, first_end_ms)
        };
        self.pools.live().map(shown).collect()
    }

    /// The worker ids of a pool that exists, and its leases that last past this millisecond: up to `limit`, from the
    /// worker id above `after` on.
    pub fn pool(
        &self,
        name: &str,
        now_ms: u64,
        after: Option<u16>,
        limit: usize,
    ) -> Option<(PoolWorkers, Vec<LeaseRow>)> {
        let (workers, pool) = self.pools.get(name)?;
        let lasting = pool.rows(after).filter(|lease| lease.lasts_at(now_ms));
        Some((workers.clone(), lasting.take(limit).collect()))
    }

    /// The number of a key of a register that exists.
    pub fn registered(&self, tag: &str, key: &str) -> Option<RegisterEntry> {
        self.register_shape(tag)?;
        self.registers.get(tag, key)
    }

    /// The keys of an existing register whose numbers are above `after`, in the order of their numbers. If the register
    /// has periods: the keys of one period, by default of the latest one that has a number.
    pub fn registered_after(
        &self,
        tag: &str,
        period: Option<PeriodNumber>,
        after: u64,
    ) -> Option<impl Iterator<Item = RegisterEntry>> {
        self.register_shape(tag)?;
        let latest = || self.registers.last(tag).and_then(|last| last.period);
        Some(self.registers.after(tag, period.or_else(latest), after))
    }

    /// How many keys all registers together have, including those of deleted registers.
    pub fn register_keys(&self) -> u64 {
        self.registers.keys()
    }

    /// How many keys a register has, even while it is deleted.
    pub fn register_keys_of(&self, tag: &str) -> u64 {
        self.registers.keys_of(tag)
    }

    /// The shape of a register that exists.
    fn register_shape(&self, tag: &str) -> Option<&Arc<Shape>> {
        self.live(tag)?;
        self.shape(tag).filter(|shape| shape.giver().records_keys())
    }

    /// The last report of every node's clock, by node.
    pub fn reports(&self) -> &BTreeMap<u64, ClockReport> {
        self.workers.reports()
    }

    pub(super) fn create(&mut self, tag: &BizTag, new: &NewTag<'_>) -> Response {
        let now_ms = self.clock_ms;
        let NewTag { step, start, description, protection, shape, step_max } = *new;
        let before = self.shaped.get(tag.as_str()).map(ShapedEntry::shape);
        let is_alike = match (before, shape) {
            (None, None) => true,
            (Some(before), Some(shape)) => before.is_like(shape),
            _ => false,
        };
        let start = self.first_mark(tag.as_str(), start);
        let create =
            |entry: &mut TagEntry| entry.create(step, start, description, protection, now_ms);
        match self.entries.get(tag.as_str()).map(|tag| tag.entry.is_live()) {
            Some(true) => return Response::TagExists,
            Some(false) if !is_alike => return Response::OtherShape,
            Some(false) => _ = self.entries.change(tag.as_str(), create),
            None => {
                if let Some(shape) = shape {
                    let Some(shape) = self.keyed(tag, shape) else { return Response::NoRootKey };
                    self.shaped.insert(ShapedEntry::new(tag.clone(), shape, self.advance));
                }
                let mut entry = TagEntry::unborn();
                create(&mut entry);
                self.entries.insert(NamedTag { name: tag.as_str(), entry: entry.borrowed() });
            }
        }
        self.tags += 1;
        self.bound_steps(tag, step_max);
        self.shown(tag)
    }

    /// The shape of a new name, with the key for its hidden ids: from the third level on the root key makes it; below
    /// that level it came with the command. `None` if the root key should make it and there is none.
    fn keyed(&self, tag: &BizTag, shape: &Shape) -> Option<Shape> {
        let mut shape = shape.clone();
        if let (Some(hidden), true) = (&mut shape.hidden, self.level.number() >= ROOT_KEY) {
            hidden.key = self.root.as_ref()?.key_of(tag.as_str(), hidden.digits);
        }
        Some(shape)
    }

    /// The response that shows a tag as it is now.
    fn shown(&self, tag: &BizTag) -> Response {
        let Some(row) = self.tag(tag.as_str()) else { return Response::UnknownTag };
        let shape = row.shape.as_ref().map(|shape| Box::new((**shape).clone()));
        let plain = |row| TagRow { shape: None, step_max: None, ..row };
        match (shape, row.step_max) {
            (shape, Some(step_max)) => Response::BoundedTag { row: plain(row), shape, step_max },
            (Some(shape), None) => Response::ShapedTag { row: plain(row), shape },
            (None, None) => Response::Tag(row),
        }
    }

    /// The row of a tag that exists; `None` for a tombstone.
    fn row_of(&self, tag: &NamedTag<&str, &str>) -> Option<TagRow> {
        let row = TagRow { step_max: self.step_max(tag.name()), ..tag.row()? };
        let Some(shaped) = self.shaped.get(tag.name()) else { return Some(row) };
        let max_id = shaped.max_id().unwrap_or(row.max_id);
        Some(TagRow { max_id, shape: Some(Arc::clone(shaped.shape())), ..row })
    }

    /// Changes the given fields. `step_max` sets the tag's bound of grabs, or removes it with `Some(None)`; with
    /// `None` the bound stays as it is.
    pub(super) fn update(
        &mut self,
        tag: &BizTag,
        fields: &TagFields,
        step_max: Option<Option<u32>>,
    ) -> Response {
        let now_ms = self.clock_ms;
        let bound = step_max.unwrap_or_else(|| self.step_max(tag.as_str()));
        let takes_max_id = self.shape(tag.as_str()).is_none_or(|shape| shape.takes_max_id());
        let Some(entry) = self.live(tag.as_str()) else { return Response::UnknownTag };
        if fields.max_id.is_some() && !takes_max_id {
            return Response::OtherShape;
        }
        if !(Steps { step: fields.step.unwrap_or(entry.step()), step_max: bound }).is_sound() {
            return Response::Invalid { what: OutOfBounds::StepMax };
        }
        match self.entries.change(tag.as_str(), |entry| entry.update(fields, now_ms)) {
            Some(Ok(())) => {
                self.bound_steps(tag, bound);
                self.shown(tag)
            }
            Some(Err(max_id)) => Response::MaxIdBehind { max_id },
            None => Response::UnknownTag,
        }
    }

    pub(super) fn delete(&mut self, tag: &BizTag) -> Response {
        let now_ms = self.clock_ms;
        if self.live(tag.as_str()).is_none() {
            return Response::UnknownTag;
        }
        self.entries.change(tag.as_str(), |entry| entry.delete(now_ms));
        self.tags -= 1;
        self.bound_steps(tag, None);
        Response::Deleted
    }

    fn grab(&mut self, tag: &BizTag, size: u32) -> Response {
        let now_ms = self.clock_ms;
        let is_shaped = self.shape(tag.as_str()).is_some();
        let step_max = self.step_max(tag.as_str());
        self.entries.change_live(tag.as_str(), |entry| {
            if is_shaped {
                return Response::OtherShape;
            }
            if entry.protection().frozen {
                return Response::Frozen;
            }
            let steps = Steps { step: entry.step(), step_max };
            let ids = entry.grab(steps.size(size), ID_END, now_ms);
            ids.map_or(Response::Exhausted, |ids| Response::of_segment(ids, steps))
        })
    }

    fn grab_line(
        &mut self,
        tag: &BizTag,
        (size, line, by): (u32, Line, Option<Leadership>),
        stamp: Stamp,
    ) -> Response {
        let step_max = self.step_max(tag.as_str());
        let times = self.line_times();
        let Self { entries, shaped, .. } = self;
        entries.change_live(tag.as_str(), |entry| {
            let Some(shaped) = shaped.get_mut(tag.as_str()) else { return Response::OtherShape };
            let steps = Steps { step: entry.step(), step_max };
            shaped.grab(entry, LineGrab { size, steps, line, by }, stamp, times)
        })
    }

    /// Finds the number of a key, or gives it the next one.
    fn register(
        &mut self,
        tag: &BizTag,
        key: &str,
        (line, keys_max): (Line, u64),
        stamp: Stamp,
    ) -> Response {
        let times = self.line_times();
        let Self { entries, shaped, registers, .. } = self;
        entries.change_live(tag.as_str(), |entry| {
            let Some(shaped) = shaped.get_mut(tag.as_str()) else { return Response::OtherShape };
            if let Some(found) = registers.get(tag.as_str(), key) {
                let RegisterEntry { number, period, .. } = found;
                return Response::Registered { number, period, is_new: false };
            }
            if registers.keys() >= keys_max {
                return Response::TooManyKeys;
            }
            let number = match shaped.next_number(entry, line, stamp, times) {
                Ok(number) => number,
                Err(rejection) => return rejection,
            };
            let period = line.period();
            let new = RegisterEntry { key: key.into(), number, period, time_ms: stamp.now_ms };
            registers.push(tag, &new);
            Response::Registered { number, period, is_new: true }
        })
    }

    /// The state's time, and the end of the time in which the cluster before a restore may have begun periods.
    fn line_times(&self) -> (u64, u64) {
        let restored_ms = self.periods_before.stamped_ms().max(self.snowflake_floor_ms());
        (self.clock_ms, restored_ms)
    }

    /// The most ids that a grab of an existing tag reserves, if there is such a bound.
    pub fn step_max(&self, tag: &str) -> Option<u32> {
        self.step_bounds.get(tag).map(|bound| bound.step_max)
    }

    /// Bounds how many ids a grab of a tag reserves; `None` removes the bound.
    fn bound_steps(&mut self, tag: &BizTag, step_max: Option<u32>) {
        match (step_max, self.step_bounds.get_mut(tag.as_str())) {
            (None, None) => {}
            (None, Some(_)) => self.step_bounds.remove(tag.as_str()),
            (Some(step_max), Some(bound)) => bound.step_max = step_max,
            (Some(step_max), None) => {
                self.step_bounds.insert(StepBound { tag: tag.clone(), step_max });
            }
        }
    }

    /// The entry of a tag that exists.
    fn live(&self, tag: &str) -> Option<TagEntry<&str>> {
        self.entries.get(tag).map(|tag| tag.entry).filter(TagEntry::is_live)
    }
}
