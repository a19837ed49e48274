//! One committed command after another makes the state.

use std::collections::BTreeMap;

use super::audit::Audit;
use super::command::Command;
use super::level::Level;
use super::protection::Protection;
use super::response::Response;
use super::tag_entries::TagEntries;
use super::tag_entry::{TagEntry, TagRow};
use super::tag_fields::TagFields;
use super::worker_entries::{ClockReport, WantedWindow, WorkerEntries, WorkerRow};
use crate::limits::ID_END;
use crate::snowflake::{Format, Rules};
use crate::tag::BizTag;

/// Entries that one page looks at, at most: tombstones, which are never removed, may be many.
pub const VISITED_MAX: usize = 10_000;

/// Entries of which the headroom is read at once, while applying waits: some 20 microseconds.
const HEADROOM_VISITED: usize = 2_000;

/// The headroom of some tags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadroomPage {
    /// The tag that is nearest to its end, and the share of its ids that is left.
    pub lowest: Option<(f64, BizTag)>,
    /// The name behind which the next look begins; `None` behind the last tag.
    pub next: Option<BizTag>,
}

/// One page of rows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TagPage {
    /// The rows, none of them twice.
    pub rows: Vec<TagRow>,
    /// The name after which the next page begins; `None` on the last page. A page may have no row and yet
    /// have a next one.
    pub next: Option<BizTag>,
}

/// Everything the cluster agrees on, as of one entry of its log.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The highest stamp of any applied command: time as the log knows it, which never steps back.
    pub(super) clock_ms: u64,
    /// Every tag ever created, deleted ones included.
    pub(super) entries: TagEntries,
    /// How many tags are not deleted.
    pub(super) tags: usize,
    pub(super) workers: WorkerEntries,
    pub(super) level: Level,
    pub(super) audit: Audit,
    /// How much higher than it would each line begins of which this state knows nothing: the sum of what the
    /// state was raised by, when clusters were restored from copies that lacked such lines.
    pub(super) advance: u64,
    #[cfg(feature = "next-level")]
    pub(super) note: String,
}

impl State {
    /// Applies one committed command that the leader stamped `now_ms` (Unix milliseconds).
    ///
    /// Applying cannot fail: a command that may not be carried out is answered with a rejection and
    /// changes nothing but the state's clock. For tags, a stamp below an earlier one counts as the
    /// earlier one; worker ids take every stamp as it is.
    pub fn apply(&mut self, now_ms: u64, command: &Command) -> Response {
        self.clock_ms = self.clock_ms.max(now_ms);
        if let Err(what) = command.check() {
            return Response::Invalid { what };
        }
        match command {
            Command::CreateTag { tag, step, start, description } => {
                self.create(tag, *step, *start, description, Protection::default())
            }
            Command::UpdateTag { tag, step, max_id, description } => {
                let (step, max_id, description) = (*step, *max_id, description.clone());
                self.update(tag, &TagFields { step, max_id, description, ..TagFields::default() })
            }
            Command::DeleteTag { tag } => self.delete(tag),
            Command::Administer { actor, change } => self.administer(actor, change),
            Command::Grab { tag, size } => self.grab(tag, *size),
            Command::FixFormat { format } => self.workers.fix(*format),
            Command::ReportClock { node_id, clock_ms } => {
                self.workers.report(now_ms, *node_id, *clock_ms)
            }
            &Command::AcquireWorker { node_id, nonce, worker_id, window_ms } => {
                let wanted = WantedWindow { node_id, nonce, worker_id, window_ms };
                self.workers.acquire(now_ms, wanted)
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
            #[cfg(feature = "next-level")]
            Command::Note { text } => {
                self.note.clone_from(text);
                Response::NoteTaken { characters: text.chars().count() as u64 }
            }
        }
    }

    /// The row of a tag that exists.
    pub fn tag(&self, tag: &str) -> Option<TagRow> {
        self.entries.get(tag).and_then(TagEntry::row)
    }

    /// What keeps callers from taking ids of a tag that exists.
    pub fn protection(&self, tag: &str) -> Option<Protection> {
        self.entries.get(tag).filter(|entry| entry.is_live()).map(TagEntry::protection)
    }

    /// Up to `limit` rows in the order of their names, beginning after the name `after`, which need
    /// not exist.
    pub fn tags_after(&self, after: Option<&str>, limit: usize) -> Vec<TagRow> {
        self.entries.after(after).filter_map(TagEntry::row).take(limit).collect()
    }

    /// One page of rows in the order of their names, beginning after the name `after`, which need not exist.
    /// It ends after `limit` rows, before the first row that `has_room` refuses, or after [`VISITED_MAX`]
    /// entries, however many of them are tombstones.
    pub fn tags_page(
        &self,
        after: Option<&str>,
        limit: usize,
        mut has_room: impl FnMut(&TagRow) -> bool,
    ) -> TagPage {
        let mut page = TagPage::default();
        let mut last = None;
        for (visited, entry) in self.entries.after(after).enumerate() {
            let row = entry.row();
            let is_next =
                row.as_ref().is_some_and(|row| page.rows.len() == limit || !has_room(row));
            if is_next || visited == VISITED_MAX {
                page.next = last.map(TagEntry::tag).cloned();
                break;
            }
            page.rows.extend(row);
            last = Some(entry);
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

    /// The tag that is nearest to its end among [`HEADROOM_VISITED`] entries behind the name `after`.
    pub fn headroom_after(&self, after: Option<&str>) -> HeadroomPage {
        let mut page = HeadroomPage::default();
        for (at, entry) in self.entries.after(after).enumerate() {
            if at == HEADROOM_VISITED {
                break;
            }
            page.next = (at + 1 == HEADROOM_VISITED).then(|| entry.tag().clone());
            let left = entry.headroom();
            let is_lowest = page.lowest.as_ref().is_none_or(|(lowest, _)| left < *lowest);
            if entry.is_live() && is_lowest {
                page.lowest = Some((left, entry.tag().clone()));
            }
        }
        page
    }

    /// How many names the state keeps for ever: those of the tags that exist, and of those that were deleted.
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

    /// How much higher than it would each line begins of which this state knows nothing; 0 unless the cluster
    /// was restored.
    pub fn advance(&self) -> u64 {
        self.advance
    }

    /// The cluster's level: nothing above it is proposed, answered or written.
    pub fn level(&self) -> u32 {
        self.level.number()
    }

    /// The first version that supports this level.
    pub fn version_needed(&self) -> &str {
        self.level.version()
    }

    /// The note that was left last.
    #[cfg(feature = "next-level")]
    pub fn note(&self) -> &str {
        &self.note
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
    /// settled less. So every id ever given shows a time below the last stamp plus this.
    pub fn snowflake_window_ms_max(&self) -> u64 {
        self.workers.bounds().window_ms_max()
    }

    /// The snowflake floor in Unix milliseconds, 0 when there is none: no window that is given from now on
    /// begins below it, of whichever worker id.
    pub fn snowflake_floor_ms(&self) -> u64 {
        self.workers.bounds().floor_ms()
    }

    /// The worker ids whose holders have milliseconds below `floor_ms` and have not said that they stamp none
    /// of them any more.
    pub fn windows_below(&self, floor_ms: u64) -> Vec<WorkerRow> {
        let reaches_below =
            |row: &WorkerRow| row.nonce.is_some() && row.floor_ms < floor_ms.min(row.fence_ms);
        self.workers.rows().filter(reaches_below).collect()
    }

    /// Every worker id that was ever used, in order.
    pub fn workers(&self) -> Vec<WorkerRow> {
        self.workers.rows().collect()
    }

    /// The last report of every node's clock, by node.
    pub fn reports(&self) -> &BTreeMap<u64, ClockReport> {
        self.workers.reports()
    }

    pub(super) fn create(
        &mut self,
        tag: &BizTag,
        step: u32,
        start: u64,
        description: &str,
        protection: Protection,
    ) -> Response {
        let now_ms = self.clock_ms;
        let (entry, start) = match self.entries.get_mut(tag.as_str()) {
            Some(entry) if entry.is_live() => return Response::TagExists,
            Some(entry) => (entry, start),
            None => {
                let start = start.saturating_add(self.advance).min(ID_END);
                (self.entries.insert(TagEntry::unborn(tag.clone())), start)
            }
        };
        let row = entry.create(step, start, description, protection, now_ms);
        self.tags += 1;
        Response::Tag(row)
    }

    pub(super) fn update(&mut self, tag: &BizTag, fields: &TagFields) -> Response {
        let now_ms = self.clock_ms;
        let Some(entry) = self.live(tag) else { return Response::UnknownTag };
        entry
            .update(fields, now_ms)
            .map_or_else(|max_id| Response::MaxIdBehind { max_id }, Response::Tag)
    }

    pub(super) fn delete(&mut self, tag: &BizTag) -> Response {
        let now_ms = self.clock_ms;
        let Some(entry) = self.live(tag) else { return Response::UnknownTag };
        entry.delete(now_ms);
        self.tags -= 1;
        Response::Deleted
    }

    fn grab(&mut self, tag: &BizTag, size: u32) -> Response {
        let now_ms = self.clock_ms;
        let Some(entry) = self.live(tag) else { return Response::UnknownTag };
        if entry.protection().frozen {
            return Response::Frozen;
        }
        let step = entry.step();
        entry.grab(size, now_ms).map_or(Response::Exhausted, |ids| Response::Segment {
            start: ids.start,
            end: ids.end,
            step,
        })
    }

    fn live(&mut self, tag: &BizTag) -> Option<&mut TagEntry> {
        self.entries.get_mut(tag.as_str()).filter(|entry| entry.is_live())
    }
}
