//! The cluster's worker ids: how ids are made here, the holders of their milliseconds, and the time that every node
//! last reported.
//!
//! `now_ms` is the stamp of the log entry as it is, not the highest so far. If a majority of clocks once ran far ahead,
//! the worker ids that were used then rest until that time has come, and all others go on with right times at once.
//! Uniqueness does not depend on it: whatever a stamp says, a fence rises, and falls only when its holder gives back
//! what it has not stamped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::level::ROOT_KEY;
use super::response::Response;
use super::window_bounds::WindowBounds;
use super::worker_entry::WorkerEntry;
use crate::snowflake::{Format, Rules};

/// The time of one node's clock, as the node last reported it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(Hash))]
pub struct ClockReport {
    /// What the clock showed, in Unix milliseconds.
    pub clock_ms: u64,
    /// The stamp of the report: the leader's time when the report came.
    pub stamped_ms: u64,
}

/// One worker id that was ever used, as it is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WorkerRow {
    /// The worker id.
    pub worker_id: u16,
    /// The node that holds it or was the last to.
    pub node_id: u64,
    /// Names the grant that holds it; `None` once it was released.
    pub nonce: Option<u128>,
    /// The first millisecond of the latest window, in Unix time.
    pub floor_ms: u64,
    /// The first millisecond that was given to no holder, or that its holder gave back unused.
    pub fence_ms: u64,
}

/// The window that a node asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedWindow {
    pub(super) node_id: u64,
    /// Names the grant.
    pub(super) nonce: u128,
    /// A certain worker id; `None` for any.
    pub(super) worker_id: Option<u16>,
    pub(super) window_ms: u64,
}

/// The worker ids of a cluster, its format of snowflake ids, and the reports of clocks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(Eq, Hash))]
pub(crate) struct WorkerEntries {
    /// Settled by the first command that names one.
    format: Option<Format>,
    /// The worker ids that were ever used.
    entries: BTreeMap<u16, WorkerEntry>,
    /// The last report of each node.
    reports: BTreeMap<u64, ClockReport>,
    /// The bounds of all windows. A snapshot has a separate section for them.
    #[serde(skip)]
    bounds: WindowBounds,
    /// The latest end of a window whose worker id was assigned to another process before its holder gave it back; 0 if
    /// there was none since the cluster has the third level. A snapshot has a separate section for it, too.
    #[serde(skip)]
    reassigned_until_ms: u64,
}

impl WorkerEntries {
    pub(super) fn format(&self) -> Option<Format> {
        self.format
    }

    /// What is settled about snowflake ids, once it is.
    pub(super) fn rules(&self) -> Option<Rules> {
        self.format.map(|format| self.bounds.rules(format))
    }

    pub(super) fn bounds(&self) -> &WindowBounds {
        &self.bounds
    }

    pub(super) fn bounds_mut(&mut self) -> &mut WindowBounds {
        &mut self.bounds
    }

    pub(super) fn reassigned_until_ms(&self) -> u64 {
        self.reassigned_until_ms
    }

    /// Records that a worker id was reassigned, and that its previous window ends at `fence_ms`.
    pub(super) fn note_reassigned(&mut self, fence_ms: u64) {
        self.reassigned_until_ms = self.reassigned_until_ms.max(fence_ms);
    }

    pub(super) fn reports(&self) -> &BTreeMap<u64, ClockReport> {
        &self.reports
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = WorkerRow> {
        self.entries.iter().map(|(&worker_id, worker)| WorkerRow {
            worker_id,
            node_id: worker.node_id(),
            nonce: worker.nonce(),
            floor_ms: worker.floor_ms(),
            fence_ms: worker.fence_ms(),
        })
    }

    /// Whether there is anything to write down.
    pub(super) fn is_empty(&self) -> bool {
        self.format.is_none() && self.reports.is_empty()
    }

    /// Whether a table that was read could have been written.
    pub(super) fn is_sound(&self) -> bool {
        let worker_ids = self.format.map_or(0, |format| format.layout().worker_ids());
        self.bounds.are_sound(self.format, self.entries.keys().copied())
            && self.entries.iter().all(|(&id, entry)| id < worker_ids && entry.is_sound())
    }

    /// Settles how ids are made, by all worker ids and in windows of an hour at most, unless that was settled before;
    /// returns the settled format.
    pub(super) fn fix(&mut self, format: Format) -> Response {
        Response::Format { format: *self.format.get_or_insert(format) }
    }

    /// Settles all rules, unless rules or a format were settled before; returns the settled ones.
    pub(super) fn fix_rules(&mut self, rules: &Rules) -> Response {
        if self.format.is_none() {
            self.format = Some(rules.format());
            self.bounds.settle(rules);
        }
        Response::Rules { rules: self.rules().unwrap_or_else(|| rules.clone()) }
    }

    /// Notes what a node's clock shows.
    pub(super) fn report(&mut self, now_ms: u64, node_id: u64, clock_ms: u64) -> Response {
        self.reports.insert(node_id, ClockReport { clock_ms, stamped_ms: now_ms });
        Response::Noted
    }

    /// Gives a window of the worker id asked for, or of the one that has rested longest, in a cluster of this level.
    pub(super) fn acquire(&mut self, now_ms: u64, wanted: WantedWindow, level: u32) -> Response {
        let WantedWindow { node_id, nonce, worker_id, window_ms } = wanted;
        let Some(rules) = self.rules() else { return Response::NoFormat };
        let room = match self.bounds.room(rules.format(), now_ms, window_ms) {
            Ok(room) => room,
            Err(rejection) => return rejection,
        };
        let worker_id = match worker_id {
            Some(worker_id) if !rules.pool().contains(worker_id) => return Response::NoSuchWorker,
            Some(worker_id) => worker_id,
            None => self.longest_rested(&rules),
        };
        let entry = self.entries.entry(worker_id).or_default();
        if entry.fence_ms() > room.start_ms {
            return Response::NoWorkerFree { free_from_ms: entry.fence_ms() };
        }
        let held_until_ms = entry.nonce().map(|_| entry.fence_ms());
        entry.grant(node_id, nonce, room.start_ms, room.end_ms);
        let window = entry.window(worker_id);
        if let (Some(fence_ms), true) = (held_until_ms, level >= ROOT_KEY) {
            self.note_reassigned(fence_ms);
        }
        window
    }

    /// Extends a window that the grant still holds, and whose holder stamps nothing below the floor.
    pub(super) fn renew(
        &mut self,
        now_ms: u64,
        worker_id: u16,
        nonce: u128,
        window_ms: u64,
    ) -> Response {
        let Some(format) = self.format else { return Response::NoFormat };
        let Some(entry) = self.entries.get_mut(&worker_id) else { return Response::NotHolder };
        let room = match self.bounds.room(format, now_ms, window_ms) {
            Ok(room) => room,
            Err(rejection) => return rejection,
        };
        let floor_ms = self.bounds.floor_ms();
        if entry.nonce() == Some(nonce) && entry.floor_ms() < floor_ms {
            return Response::BelowFloor { floor_ms };
        }
        if !entry.extend(nonce, now_ms, room.end_ms) {
            return Response::NotHolder;
        }
        entry.window(worker_id)
    }

    /// Takes back the beginning of a window.
    pub(super) fn lift(&mut self, worker_id: u16, nonce: u128, floor_ms: u64) -> Response {
        let Some(entry) = self.entries.get_mut(&worker_id) else { return Response::NotHolder };
        if entry.lift(nonce, floor_ms) { entry.window(worker_id) } else { Response::NotHolder }
    }

    /// Ends the hold of a grant.
    pub(super) fn release(&mut self, worker_id: u16, nonce: u128, unused_from_ms: u64) -> Response {
        let entry = self.entries.get_mut(&worker_id);
        let released = entry.is_some_and(|entry| entry.release(nonce, unused_from_ms));
        if released { Response::Noted } else { Response::NotHolder }
    }

    /// Raises what windows begin at: the floor, which binds the worker ids that were never used too.
    pub(super) fn rise(&mut self, floor_ms: u64) {
        let Self {
            format: _,
            // No window begins below the floor, so the fences below it do not matter any more.
            entries: _,
            reports: _,
            bounds,
            // Windows of the old cluster; all of them lie below the floor.
            reassigned_until_ms: _,
        } = self;
        bounds.rise(floor_ms);
    }

    /// The first worker id of the pool that was never used, or else the one with the lowest fence.
    fn longest_rested(&self, rules: &Rules) -> u16 {
        let fence_ms = |id: &u16| self.entries.get(id).map_or(0, WorkerEntry::fence_ms);
        let unused = rules.pool().worker_ids().find(|id| !self.entries.contains_key(id));
        let rested = || rules.pool().worker_ids().min_by_key(fence_ms);
        unused.or_else(rested).unwrap_or_else(|| rules.pool().highest())
    }
}
