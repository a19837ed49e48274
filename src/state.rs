//! The replicated state: every tag's row, every worker id's window, and the one function that
//! changes them.
//!
//! Pure. The same commands with the same stamps give the same state and the same responses on every
//! replica: there is no clock here (the leader's stamp comes in), no I/O, no randomness and no
//! order that hangs on a hash.
//!
//! **Apply is the only writer of a watermark, and only ever raises it.** [`State::apply`] is the
//! only way to change a state, and `watermark.rs` holds the only code that can write a mark. A grab
//! answers the interval between the old mark and the new one, so no two intervals of a tag overlap.
//!
//! A deleted tag leaves a tombstone that keeps its watermark for ever. Created again, the name goes
//! on above it; ids of its earlier life are never given a second time.
//!
//! What the cluster may use at all is a matter of its level; `level.rs` says why.
//!
//! Worker ids have lines of milliseconds in the same way, whose marks are called fences; `worker.rs`
//! holds the only code that can write one, and says who may take part of a grant back.

mod command;
mod level;
mod line;
mod snapshot;
mod table;
mod watermark;
mod worker;
mod workers;

pub use command::{Command, DecodeError, Response};
pub use level::{LEVEL_MAX, first_version_of};
pub use line::TagRow;
pub use snapshot::{FrozenState, SnapshotError};
pub use worker::AHEAD_MS_MAX;
pub use workers::{Report, WorkerRow};

use std::collections::BTreeMap;

use crate::snowflake::Format;
use crate::tag::BizTag;
use level::Level;
use line::Line;
use table::Table;
use workers::Workers;

/// Everything the cluster agrees on, as of one entry of its log.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The highest stamp of any applied command: time as the log knows it, which never steps back.
    clock_ms: u64,
    /// Every tag ever created, deleted ones included.
    lines: Table,
    /// How many of them are not deleted.
    tags: usize,
    workers: Workers,
    level: Level,
    #[cfg(feature = "next-level")]
    note: String,
}

impl State {
    /// Applies one committed command that the leader stamped `now_ms` (Unix milliseconds).
    ///
    /// It cannot fail: a command that may not be carried out is answered with a rejection and
    /// changes nothing but the state's clock. To tags, a stamp below an earlier one counts as that
    /// one; worker ids take it as it is.
    pub fn apply(&mut self, now_ms: u64, command: &Command) -> Response {
        self.clock_ms = self.clock_ms.max(now_ms);
        if let Err(what) = command.check() {
            return Response::Invalid { what };
        }
        match command {
            Command::CreateTag { tag, step, start, description } => {
                self.create(tag, *step, *start, description)
            }
            Command::UpdateTag { tag, step, max_id, description } => {
                self.update(tag, *step, *max_id, description.as_deref())
            }
            Command::DeleteTag { tag } => self.delete(tag),
            Command::Grab { tag, size } => self.grab(tag, *size),
            Command::FixFormat { format } => self.workers.fix(*format),
            Command::ReportClock { node_id, clock_ms } => {
                self.workers.report(now_ms, *node_id, *clock_ms)
            }
            Command::AcquireWorker { node_id, nonce, worker_id, window_ms } => {
                self.workers.acquire(now_ms, *node_id, *nonce, *worker_id, *window_ms)
            }
            Command::RenewWorker { worker_id, nonce, window_ms } => {
                self.workers.renew(now_ms, *worker_id, *nonce, *window_ms)
            }
            Command::ReleaseWorker { worker_id, nonce, unused_from_ms } => {
                self.workers.release(*worker_id, *nonce, *unused_from_ms)
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
        self.lines.get(tag).and_then(Line::row)
    }

    /// Up to `limit` rows in the order of their names, beginning after `after`, which need not
    /// exist.
    pub fn tags_after(&self, after: Option<&str>, limit: usize) -> Vec<TagRow> {
        self.lines.after(after).filter_map(Line::row).take(limit).collect()
    }

    /// How many tags exist.
    pub fn len(&self) -> usize {
        self.tags
    }

    /// Whether no tag exists.
    pub fn is_empty(&self) -> bool {
        self.tags == 0
    }

    /// The state's time in Unix milliseconds: the highest stamp applied, 0 before the first.
    pub fn clock_ms(&self) -> u64 {
        self.clock_ms
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

    /// How the cluster makes snowflake ids; `None` until that was settled.
    pub fn format(&self) -> Option<Format> {
        self.workers.format()
    }

    /// Every worker id that was ever used, in order.
    pub fn workers(&self) -> Vec<WorkerRow> {
        self.workers.rows().collect()
    }

    /// What every node's clock last showed, by node.
    pub fn reports(&self) -> &BTreeMap<u64, Report> {
        self.workers.reports()
    }

    /// The state as it is now, for writing out while this one goes on.
    ///
    /// Costs one reference per 128 to 256 tags. Afterwards the first change among each such group
    /// of tags copies that group, once.
    pub fn freeze(&self) -> FrozenState {
        FrozenState::new(self.clone())
    }

    fn create(&mut self, tag: &BizTag, step: u32, start: u64, description: &str) -> Response {
        let now_ms = self.clock_ms;
        let line = match self.lines.get_mut(tag.as_str()) {
            Some(line) if line.is_live() => return Response::TagExists,
            Some(line) => line,
            None => self.lines.insert(Line::unborn(tag.clone())),
        };
        let row = line.create(step, start, description, now_ms);
        self.tags += 1;
        Response::Tag(row)
    }

    fn update(
        &mut self,
        tag: &BizTag,
        step: Option<u32>,
        max_id: Option<u64>,
        description: Option<&str>,
    ) -> Response {
        let now_ms = self.clock_ms;
        let Some(line) = self.live(tag) else { return Response::UnknownTag };
        line.update(step, max_id, description, now_ms)
            .map_or_else(|max_id| Response::MaxIdBehind { max_id }, Response::Tag)
    }

    fn delete(&mut self, tag: &BizTag) -> Response {
        let now_ms = self.clock_ms;
        let Some(line) = self.live(tag) else { return Response::UnknownTag };
        line.delete(now_ms);
        self.tags -= 1;
        Response::Deleted
    }

    fn grab(&mut self, tag: &BizTag, size: u32) -> Response {
        let now_ms = self.clock_ms;
        let Some(line) = self.live(tag) else { return Response::UnknownTag };
        let step = line.step();
        line.grab(size, now_ms).map_or(Response::Exhausted, |ids| Response::Segment {
            start: ids.start,
            end: ids.end,
            step,
        })
    }

    fn live(&mut self, tag: &BizTag) -> Option<&mut Line> {
        self.lines.get_mut(tag.as_str()).filter(|line| line.is_live())
    }
}

#[cfg(test)]
mod tests;
