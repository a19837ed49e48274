//! The judge's knowledge of time windows and of the snowflake floor, and its rules for snowflake ids and for leases.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use mintleaf::service::LeaseName;
use mintleaf_core::tag::BizTag;

use super::{Incarnation, Known, Oracle, Worker};

/// A committed time window of one grant of a worker id, or of one lease.
pub(super) struct Window {
    /// Where it began when it was given.
    pub(super) first_ms: u64,
    /// Its present start, after its holder has lifted it.
    pub(super) floor_ms: u64,
    pub(super) fence_ms: u64,
    /// Pairs of an event and a floor: a call that begins after the event may be given nothing below the floor.
    pub(super) floors: Vec<(u64, u64)>,
    /// One past the latest time in an id of this window that a client was given, or that its program stamped.
    pub(super) shown_ms: u64,
}

/// The constraints on the snowflake ids of a call, from when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeSnowflakes {
    /// The end of the highest ids that the incarnation had given.
    highest: u64,
    /// The last event that bound a window to a floor.
    floor_event: u64,
}

impl Oracle {
    /// A worker id is given for the time of a window, or leased.
    pub(super) fn granted(
        &self,
        known: &mut Known,
        (worker, nonce): (Worker, u128),
        floor_ms: u64,
        fence_ms: u64,
    ) {
        // A command that comes twice gives the same window again.
        let same = known.windows.get(&worker).and_then(|all| all.get(&nonce));
        if same.is_some_and(|same| same.floor_ms == floor_ms && same.fence_ms == fence_ms) {
            return;
        }
        let fence = known.fences.insert(worker.clone(), fence_ms).unwrap_or(0);
        if floor_ms < fence.max(floor_of(known, &worker)) {
            self.broken(format_args!("{worker:?}: {floor_ms} below {fence}"));
        }
        let (first_ms, floors) = (floor_ms, Vec::new());
        let window = Window { first_ms, floor_ms, fence_ms, floors, shown_ms: 0 };
        known.windows.entry(worker).or_default().insert(nonce, window);
    }

    /// A window or a lease is extended.
    pub(super) fn renewed(
        &self,
        known: &mut Known,
        (worker, nonce): (Worker, u128),
        floor_ms: u64,
        fence_ms: u64,
    ) {
        let fence = known.fences.insert(worker.clone(), fence_ms).unwrap_or(0);
        if floor_ms < floor_of(known, &worker) {
            self.broken(format_args!("{worker:?}: extended below the floor"));
        }
        let window = known.windows.get_mut(&worker).and_then(|all| all.get_mut(&nonce));
        match window {
            Some(held) if held.floor_ms == floor_ms && held.fence_ms == fence => {
                held.fence_ms = fence_ms.max(fence);
            }
            _ => self.broken(format_args!("{worker:?}: renewed by a stranger")),
        }
    }

    /// A holder reports that it stamps nothing below `floor_ms` any more.
    pub(super) fn lifted(
        &self,
        known: &mut Known,
        (worker, nonce): (Worker, u128),
        floor_ms: u64,
        fence_ms: u64,
    ) {
        known.floor_events += 1;
        let windows = known.windows.get_mut(&worker);
        match windows.and_then(|all| all.get_mut(&nonce)) {
            Some(held) if held.floor_ms <= floor_ms && held.fence_ms == fence_ms => {
                held.floor_ms = floor_ms;
                held.floors.push((known.floor_events, floor_ms));
            }
            _ => self.broken(format_args!("{worker:?}: lifted by a stranger")),
        }
    }

    /// A client was promised that nothing is given below `floor_ms` any more, when the cluster's clock showed
    /// `now_ms`. From now on the floor binds every window that is its worker id's latest and had not ended by
    /// then.
    pub(crate) fn floor_acknowledged(&self, floor_ms: u64, now_ms: u64, skew_ms_max: u64) {
        let known = &mut *self.known.lock();
        if known.floor_ms < floor_ms {
            self.broken(format_args!("the floor {floor_ms} was acknowledged and not committed"));
        }
        known.floor_events += 1;
        let own = known.windows.iter_mut().filter(|(worker, _)| worker.pool.is_none());
        for (worker, windows) in own {
            let fence_ms = known.fences[worker];
            let latest = windows.values_mut().max_by_key(|window| window.first_ms);
            if let Some(window) = latest.filter(|_| fence_ms + skew_ms_max > now_ms) {
                window.floors.push((known.floor_events, floor_ms));
            }
        }
    }

    pub(super) fn released(
        &self,
        known: &mut Known,
        (worker, nonce): (Worker, u128),
        unused_from_ms: u64,
    ) {
        let windows = known.windows.get_mut(&worker);
        let Some(window) = windows.and_then(|all| all.get_mut(&nonce)) else {
            return self.broken(format_args!("{worker:?}: released by a stranger"));
        };
        window.fence_ms = unused_from_ms.clamp(window.floor_ms, window.fence_ms);
        if window.shown_ms > window.fence_ms {
            self.broken(format_args!("{worker:?}: times were shown past the release"));
        }
        known.fences.insert(worker, window.fence_ms);
    }

    /// Judges milliseconds that a program has stamped with a worker id of a pool.
    pub(crate) fn stamped(&self, pool: &BizTag, lease: LeaseName, stamps: &Range<u64>) {
        let worker = Worker::of(pool, lease.worker_id);
        let is_new = self.snowflakes.stamp(&worker, stamps);
        self.check_once(format_args!("{worker:?}"), stamps, is_new);
        let windows = &mut self.known.lock().windows;
        let window = windows.get_mut(&worker).and_then(|all| all.get_mut(&lease.nonce));
        match window {
            Some(held) if held.first_ms <= stamps.start && stamps.end <= held.fence_ms => {
                held.shown_ms = held.shown_ms.max(stamps.end);
            }
            _ => self.broken(format_args!("{worker:?}: {stamps:?} lies outside of {lease:?}")),
        }
    }

    /// The constraints on the snowflake ids of a call that begins now.
    pub(crate) fn before_snowflakes(&self, incarnation: Incarnation) -> BeforeSnowflakes {
        let known = self.known.lock();
        let highest = known.snowflake_highest.get(&incarnation).copied().unwrap_or(0);
        BeforeSnowflakes { highest, floor_event: known.floor_events }
    }

    /// Judges snowflake ids that a call gave to a client. `before` is from before the call.
    pub(crate) fn given_snowflakes(
        &self,
        incarnation: Incarnation,
        ranges: &[Range<u64>],
        before: BeforeSnowflakes,
    ) {
        let known = &mut *self.known.lock();
        self.check_order(incarnation, "snowflake", ranges, before.highest);
        for range in ranges {
            self.handed_out.ids.fetch_add(range.end - range.start, Ordering::Relaxed);
            self.check_once(format_args!("snowflake"), range, self.snowflakes.give(range));
            let parts = self.format.decode(range.start).expect("an id of this format");
            let windows =
                known.windows.get_mut(&Worker::own(parts.worker_id)).map(BTreeMap::iter_mut);
            let own = windows.into_iter().flatten().find(|(nonce, window)| {
                Incarnation::of_nonce(**nonce) == incarnation
                    && (window.first_ms..window.fence_ms).contains(&parts.time_ms)
            });
            match own {
                Some((_, window)) => {
                    window.shown_ms = window.shown_ms.max(parts.time_ms + 1);
                    let bound = window.floors.iter().find(|(event, floor_ms)| {
                        *event <= before.floor_event && parts.time_ms < *floor_ms
                    });
                    if let Some((_, floor_ms)) = bound {
                        self.broken(format_args!(
                            "{incarnation:?} gave {parts:?} below the floor {floor_ms}"
                        ));
                    }
                }
                None => self
                    .broken(format_args!("{incarnation:?} gave {parts:?} outside of its windows")),
            }
            let highest = known.snowflake_highest.entry(incarnation).or_default();
            *highest = range.end.max(*highest);
        }
    }
}

/// The first millisecond that a window of this worker id may have.
fn floor_of(known: &Known, worker: &Worker) -> u64 {
    if worker.pool.is_some() { known.leases_from_ms } else { known.floor_ms }
}
