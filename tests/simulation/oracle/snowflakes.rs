//! The judge's knowledge of time windows and of the snowflake floor, and its rules for snowflake ids and for leases.
//!
//! Every grant, extension, lift and return of a window or a lease, and every use that a client sees, is a step of the
//! specification ([`Lines`]), which refuses what it does not allow.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

use mintleaf::service::LeaseName;
use mintleaf_core::snowflake::WorkerPool;
use mintleaf_core::specification::{Lines, Step};
use mintleaf_core::state::{PoolWorkers, State};
use mintleaf_core::tag::BizTag;

use super::{Incarnation, Known, Oracle, Worker};

/// A step of windows or of leases, by worker id and nonce.
pub(super) type WindowStep = Step<Worker, u128>;

/// The constraints on the snowflake ids of a call, from when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeSnowflakes {
    /// The end of the highest ids that the incarnation had given.
    highest: u64,
    /// The last event that bound a window to a floor.
    floor_event: u64,
}

impl Oracle {
    /// Holds a step of windows or leases against the specification.
    pub(super) fn specified(&self, lines: &mut Lines<Worker, u128>, step: WindowStep) {
        self.handed_out.steps.fetch_add(1, Ordering::Relaxed);
        if let Err(refusal) = lines.step(step.clone()) {
            self.broken(format_args!("the specification refuses {step:?}: {refusal}"));
        }
    }

    /// A holder reports that it stamps nothing below the start of its window any more.
    pub(super) fn lifted(&self, known: &mut Known, of: (Worker, u128), numbers: Range<u64>) {
        known.floor_events += 1;
        let floor = (known.floor_events, numbers.start);
        known.floors.entry(of.clone()).or_default().push(floor);
        let (line, grant) = of;
        self.specified(&mut known.windows, Step::Lift { line, grant, numbers });
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
        let lasting =
            known.windows.latest().filter(|(_, fence_ms, _)| fence_ms + skew_ms_max > now_ms);
        for (worker, _, nonce) in lasting {
            let of = (worker.clone(), *nonce);
            known.floors.entry(of).or_default().push((known.floor_events, floor_ms));
        }
    }

    /// A pool changes. Programs that have no lease stamp every millisecond of the worker ids that are taken, from the
    /// change that lists one to the change that no longer does.
    pub(super) fn pool_changed(
        &self,
        known: &mut Known,
        now_ms: u64,
        pool: &BizTag,
        after: Option<PoolWorkers>,
    ) {
        let after: BTreeSet<Worker> =
            after.iter().flat_map(|after| taken_of(pool, after)).collect();
        let is_freed =
            |worker: &Worker| worker.pool.as_ref() == Some(pool) && !after.contains(worker);
        for (worker, from_ms) in known.taken.extract_if(.., |worker, _| is_freed(worker)) {
            let numbers = from_ms..now_ms;
            if !numbers.is_empty() {
                let is_new = self.snowflakes.stamp(&worker, &numbers);
                self.check_once(format_args!("{worker:?}, taken"), &numbers, is_new);
            }
            let freed = known.freed.entry(worker).or_default();
            *freed = now_ms.max(*freed);
        }
        for worker in
            after.into_iter().filter(|worker| !known.taken.contains_key(worker)).collect::<Vec<_>>()
        {
            let lease = known.leases.latest().find(|(leased, ..)| **leased == worker);
            if let Some((_, until_ms, _)) = lease.filter(|(_, until_ms, _)| *until_ms > now_ms) {
                self.broken(format_args!("{worker:?}: taken at {now_ms}, leased up to {until_ms}"));
            }
            // A restored cluster does not know what programs lease of the old one.
            let from_ms = now_ms.max(known.leases_from_ms);
            known.taken.insert(worker, from_ms);
        }
    }

    /// Checks that no program uses a worker id without a lease whose lease begins at `from_ms`, or goes on.
    pub(super) fn leased(&self, known: &Known, worker: &Worker, from_ms: Option<u64>) {
        if known.taken.contains_key(worker) {
            self.broken(format_args!("{worker:?}: leased while programs use it without a lease"));
        }
        let freed_ms = known.freed.get(worker).copied().unwrap_or(0);
        if let Some(from_ms) = from_ms.filter(|from_ms| *from_ms < freed_ms) {
            self.broken(format_args!("{worker:?}: {from_ms} below {freed_ms}"));
        }
    }

    /// Judges milliseconds that a program has stamped with a worker id of a pool.
    pub(crate) fn stamped(&self, pool: &BizTag, lease: LeaseName, stamps: &Range<u64>) {
        let worker = Worker::of(pool, lease.worker_id);
        let is_new = self.snowflakes.stamp(&worker, stamps);
        self.check_once(format_args!("{worker:?}"), stamps, is_new);
        let (grant, numbers) = (lease.nonce, stamps.clone());
        let leases = &mut self.known.lock().leases;
        self.specified(leases, Step::Use { line: worker, grant, numbers });
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
            let line = Worker::own(parts.worker_id);
            // If the time is in no window of this process, it is used under a name that holds none.
            let holder = known.windows.holder(&line, parts.time_ms).copied();
            let own = holder.filter(|nonce| Incarnation::of_nonce(*nonce) == incarnation);
            let grant = own.unwrap_or(u128::MAX);
            let bound = known.floors.get(&(line.clone(), grant)).and_then(|floors| {
                floors.iter().find(|(event, floor_ms)| {
                    *event <= before.floor_event && parts.time_ms < *floor_ms
                })
            });
            if let Some((_, floor_ms)) = bound {
                self.broken(format_args!(
                    "{incarnation:?} gave {parts:?} below the floor {floor_ms}"
                ));
            }
            let numbers = parts.time_ms..parts.time_ms + 1;
            self.specified(&mut known.windows, Step::Use { line, grant, numbers });
            let highest = known.snowflake_highest.entry(incarnation).or_default();
            *highest = range.end.max(*highest);
        }
    }
}

/// The worker ids that are taken in a copy. Programs without a lease are sure to be the only ones from `from_ms` on: what
/// the old cluster has freed since, it may have leased.
pub(super) fn taken_in(copy: &State, from_ms: u64) -> BTreeMap<Worker, u64> {
    let pools = copy.pools(from_ms);
    let taken = pools.iter().flat_map(|(pool, workers, ..)| taken_of(pool, workers));
    taken.map(|worker| (worker, from_ms)).collect()
}

fn taken_of(pool: &BizTag, workers: &PoolWorkers) -> impl Iterator<Item = Worker> {
    workers.taken.iter().flat_map(WorkerPool::worker_ids).map(|id| Worker::of(pool, id))
}
