//! The judge's knowledge of time windows and of the snowflake floor, and its rules for snowflake ids.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::{Incarnation, Known, Oracle};

/// A committed time window of one grant of a worker id.
pub(super) struct Window {
    /// Where it began when it was given.
    pub(super) first_ms: u64,
    /// Its present start, after its holder has lifted it.
    pub(super) floor_ms: u64,
    pub(super) fence_ms: u64,
    /// Pairs of an event and a floor: a call that begins after the event may be given nothing below the floor.
    pub(super) floors: Vec<(u64, u64)>,
    /// One past the latest time in an id of this window that a client was given.
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
    /// A holder reports that it stamps nothing below `floor_ms` any more.
    pub(super) fn lifted(&self, known: &mut Known, of: (u16, u128), floor_ms: u64, fence_ms: u64) {
        known.floor_events += 1;
        let (worker_id, nonce) = of;
        let windows = known.windows.get_mut(&worker_id);
        match windows.and_then(|all| all.get_mut(&nonce)) {
            Some(held) if held.floor_ms <= floor_ms && held.fence_ms == fence_ms => {
                held.floor_ms = floor_ms;
                held.floors.push((known.floor_events, floor_ms));
            }
            _ => self.broken(format_args!("worker {worker_id}: lifted by a stranger")),
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
        for (worker_id, windows) in &mut known.windows {
            let fence_ms = known.fences[worker_id];
            let latest = windows.values_mut().max_by_key(|window| window.first_ms);
            if let Some(window) = latest.filter(|_| fence_ms + skew_ms_max > now_ms) {
                window.floors.push((known.floor_events, floor_ms));
            }
        }
    }

    pub(super) fn released(
        &self,
        known: &mut Known,
        worker_id: u16,
        nonce: u128,
        unused_from_ms: u64,
    ) {
        let windows = known.windows.get_mut(&worker_id);
        let Some(window) = windows.and_then(|all| all.get_mut(&nonce)) else {
            return self.broken(format_args!("worker {worker_id}: released by a stranger"));
        };
        window.fence_ms = unused_from_ms.clamp(window.floor_ms, window.fence_ms);
        if window.shown_ms > window.fence_ms {
            self.broken(format_args!("worker {worker_id}: times were shown past the release"));
        }
        known.fences.insert(worker_id, window.fence_ms);
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
            let windows = known.windows.get_mut(&parts.worker_id).map(BTreeMap::iter_mut);
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
