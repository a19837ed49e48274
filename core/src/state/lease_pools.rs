//! Pools of worker ids for programs outside of the cluster, and the leases of them.
//!
//! Each worker id of a pool has a number line of milliseconds, as the cluster's own worker ids have, kept by the same
//! code (`worker_entry.rs`): a lease is a window of it, and only its holder may stamp what lies in there. A fence falls
//! in one case: its holder gives back what it has not stamped and never will.
//!
//! `now_ms` is the stamp of the log entry as it is, as for the cluster's own worker ids. Uniqueness does not depend on
//! it: no lease begins below the fence of its worker id, or below the floors under it.
//!
//! Worker ids that are *taken* run in programs that lease none. While a pool lists one as taken, the pool does not lease
//! it: the list begins where its last lease has ended, and no lease of the pool begins before the list has lost one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::pool_workers::PoolWorkers;
use super::response::Response;
use super::worker_entry::WorkerEntry;
use crate::limits::{AHEAD_MS_MAX, POOLS_MAX};
use crate::snowflake::WorkerPool;
use crate::tag::BizTag;

/// All pools, with the names of those that were deleted.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(Eq, Hash))]
pub(crate) struct LeasePools {
    pools: BTreeMap<BizTag, Arc<LeasePool>>,
    /// No lease of any pool begins below it. It rises when a copy becomes the state of a new cluster, whose old leases
    /// no copy knows.
    floor_ms: u64,
}

/// One pool. A copy of the state shares it until its next change.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(Eq, Hash))]
pub(crate) struct LeasePool {
    /// `None` once the pool was deleted.
    workers: Option<PoolWorkers>,
    /// No lease of the pool begins below it: the highest fence of any lease of before a deletion, or the stamp of the
    /// entry that last freed a taken worker id.
    floor_ms: u64,
    /// The worker ids that were ever leased, each with its last lease.
    leases: BTreeMap<u16, Lease>,
    /// Those of them that may be leased, the lowest fence first. It follows from the fields above, as does the next one.
    rested: BTreeSet<(u64, u16)>,
    /// The lowest worker id that may be leased and never was.
    unused: Option<u16>,
}

/// One worker id of a pool that was ever leased.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(Eq, Hash))]
pub(crate) struct Lease {
    entry: WorkerEntry,
    /// What the holder calls itself.
    holder: Box<str>,
}

/// A pool as a snapshot has it, without its leases.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct PoolHead {
    pool: BizTag,
    workers: Option<PoolWorkers>,
    floor_ms: u64,
}

/// One lease as it is shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseRow {
    /// The worker id.
    pub worker_id: u16,
    /// What the holder calls itself.
    pub holder: String,
    /// Names the lease; `None` once it was given back.
    pub nonce: Option<u128>,
    /// The first Unix millisecond that the holder may stamp.
    pub from_ms: u64,
    /// The first one that it may not.
    pub until_ms: u64,
}

impl LeaseRow {
    /// Whether the holder may stamp this millisecond or a later one.
    pub fn lasts_at(&self, now_ms: u64) -> bool {
        self.nonce.is_some() && self.until_ms > now_ms
    }
}

/// The lease that a program asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedLease<'a> {
    /// Makes its [name](lease_name).
    pub(super) nonce: u128,
    pub(super) holder: &'a str,
    pub(super) window_ms: u64,
}

/// Names a lease: what its node drew for it, and its first millisecond.
///
/// A command that the network repeats may come after its lease has ended, and reserves another window. If both had one
/// name, a program that renews the first window would get all up to the end of the second, with the milliseconds of others
/// in between.
pub fn lease_name(nonce: u128, from_ms: u64) -> u128 {
    nonce ^ u128::from(from_ms)
}

impl LeasePools {
    pub(super) fn floor_ms(&self) -> u64 {
        self.floor_ms
    }

    /// The pools that exist, in the order of their names.
    pub(super) fn live(&self) -> impl Iterator<Item = (&BizTag, &PoolWorkers, &LeasePool)> {
        self.pools.iter().filter_map(|(name, pool)| Some((name, pool.workers.as_ref()?, &**pool)))
    }

    /// A pool that exists.
    pub(super) fn get(&self, name: &str) -> Option<(&PoolWorkers, &LeasePool)> {
        let pool = self.pools.get(name)?;
        Some((pool.workers.as_ref()?, &**pool))
    }

    /// Makes a pool, or gives it more worker ids; `taken` replaces those that programs use without a lease.
    pub(super) fn set(
        &mut self,
        now_ms: u64,
        name: &BizTag,
        workers: &WorkerPool,
        taken: &Option<Option<WorkerPool>>,
    ) -> Response {
        if !self.pools.contains_key(name) && self.pools.len() >= POOLS_MAX {
            return Response::TooManyPools;
        }
        let before = self.pools.get(name).and_then(|pool| pool.workers.clone());
        if before.iter().flat_map(|pool| pool.workers.worker_ids()).any(|id| !workers.contains(id))
        {
            return Response::PoolShrinks;
        }
        let kept = || before.as_ref().and_then(|before| before.taken.clone());
        let taken = taken.clone().unwrap_or_else(kept);
        let after = PoolWorkers { workers: workers.clone(), taken };
        let pool = self.pools.entry(name.clone()).or_default();
        if let Some(until_ms) = pool.held_until(now_ms, &after) {
            return Response::PoolHeld { until_ms };
        }
        Arc::make_mut(pool).become_of(now_ms, Some(after.clone()));
        Response::Pool { before, after: Some(after) }
    }

    /// Deletes a pool of which no lease lasts. The name keeps the highest fence, so the pool goes on above it.
    pub(super) fn delete(&mut self, now_ms: u64, name: &BizTag) -> Response {
        let Some(pool) = self.live_mut(name) else { return Response::UnknownPool };
        let fences = pool.leases.values().map(|lease| lease.entry.fence_ms());
        let last_ms = fences.max().unwrap_or(0);
        let held = pool.leases.values().filter(|lease| lease.entry.nonce().is_some());
        if held.map(|lease| lease.entry.fence_ms()).any(|fence_ms| fence_ms > now_ms) {
            return Response::PoolHeld { until_ms: last_ms };
        }
        pool.floor_ms = pool.floor_ms.max(last_ms);
        pool.leases.clear();
        let before = pool.workers.clone();
        pool.become_of(now_ms, None);
        Response::Pool { before, after: None }
    }

    /// Leases the first worker id of a pool that was never leased, or else the one that has rested longest.
    pub(super) fn lease(
        &mut self,
        now_ms: u64,
        name: &BizTag,
        wanted: WantedLease<'_>,
    ) -> Response {
        let floor_ms = self.floor_ms;
        let Some(pool) = self.live_mut(name) else { return Response::UnknownPool };
        let (start_ms, end_ms) =
            (now_ms.max(floor_ms).max(pool.floor_ms), now_ms.saturating_add(wanted.window_ms));
        if start_ms >= end_ms {
            return Response::BelowFloor { floor_ms: start_ms };
        }
        let (fence_ms, worker_id) = pool.longest_rested();
        if fence_ms > start_ms {
            return Response::NoWorkerFree { free_from_ms: fence_ms };
        }
        pool.change(worker_id, |lease| {
            lease.entry.grant(0, lease_name(wanted.nonce, start_ms), start_ms, end_ms);
            lease.holder = wanted.holder.into();
            lease.entry.window(worker_id)
        })
    }

    /// Extends a lease that its holder still has. A lease of before a restore is over: its worker id may have been
    /// leased again since the copy was made.
    pub(super) fn renew(
        &mut self,
        now_ms: u64,
        name: &BizTag,
        lease: (u16, u128),
        window_ms: u64,
    ) -> Response {
        let floor_ms = self.floor_ms;
        let Some(pool) = self.live_mut(name) else { return Response::UnknownPool };
        let (worker_id, nonce) = lease;
        if !pool.knows(worker_id, floor_ms) {
            return Response::NotHolder;
        }
        pool.change(worker_id, |lease| {
            let end_ms = now_ms.saturating_add(window_ms);
            let holds = lease.entry.extend(nonce, now_ms, end_ms);
            if holds { lease.entry.window(worker_id) } else { Response::NotHolder }
        })
    }

    /// Ends a lease, and takes back what its holder will never stamp: all from `unused_from_ms` on.
    pub(super) fn give_back(
        &mut self,
        name: &BizTag,
        lease: (u16, u128),
        unused_from_ms: u64,
    ) -> Response {
        let floor_ms = self.floor_ms;
        let Some(pool) = self.live_mut(name) else { return Response::UnknownPool };
        let (worker_id, nonce) = lease;
        let released = pool.knows(worker_id, floor_ms)
            && pool.change(worker_id, |lease| lease.entry.release(nonce, unused_from_ms));
        if released { Response::Noted } else { Response::NotHolder }
    }

    /// Raises what leases begin at, for a cluster that is made of a copy. Every lease of the old cluster began or was
    /// renewed before `leased_before_ms`, so it ends within the longest time that a lease may have from there.
    pub(super) fn rise(&mut self, leased_before_ms: u64) {
        let Self { pools: _, floor_ms } = self;
        *floor_ms = (*floor_ms).max(leased_before_ms.saturating_add(AHEAD_MS_MAX));
    }

    fn live_mut(&mut self, name: &BizTag) -> Option<&mut LeasePool> {
        let pool = self.pools.get_mut(name).filter(|pool| pool.workers.is_some())?;
        Some(Arc::make_mut(pool))
    }

    /// What a snapshot has of each pool, in the order of their names.
    pub(super) fn written(&self) -> impl Iterator<Item = (PoolHead, Vec<(&u16, &Lease)>)> {
        self.pools.iter().map(|(pool, kept)| {
            let LeasePool { workers, floor_ms, leases, rested: _, unused: _ } = &**kept;
            let head =
                PoolHead { pool: pool.clone(), workers: workers.clone(), floor_ms: *floor_ms };
            (head, leases.iter().collect())
        })
    }

    /// Takes in what a snapshot says of all pools; false for what no state could have written.
    #[must_use]
    pub(super) fn take_floor(&mut self, floor_ms: u64) -> bool {
        let was_ms = std::mem::replace(&mut self.floor_ms, floor_ms);
        was_ms == 0 && floor_ms > 0
    }

    /// Takes in a pool above all others, without its leases; false for one that no state could have written.
    #[must_use]
    pub(super) fn take_pool(&mut self, head: PoolHead) -> bool {
        let PoolHead { pool, workers, floor_ms } = head;
        let ascends = self.pools.last_key_value().is_none_or(|(last, _)| *last < pool);
        let is_sound = workers.as_ref().is_none_or(PoolWorkers::is_sound);
        let mut kept = LeasePool { workers, floor_ms, ..LeasePool::default() };
        kept.unused = kept.unused_from(0);
        self.pools.insert(pool, Arc::new(kept));
        ascends && is_sound && self.pools.len() <= POOLS_MAX
    }

    /// Takes in leases of the last pool, above all others; false for those that no state could have written.
    #[must_use]
    pub(super) fn take_leases(&mut self, leases: Vec<(u16, Lease)>) -> bool {
        let Some(mut last) = self.pools.last_entry() else { return false };
        let pool = Arc::make_mut(last.get_mut());
        let Some(PoolWorkers { workers, .. }) = pool.workers.clone() else { return false };
        !leases.is_empty()
            && leases.into_iter().all(|(worker_id, read)| {
                let above = pool.leases.last_key_value().is_none_or(|(last, _)| *last < worker_id);
                let fits = above && workers.contains(worker_id) && read.is_sound();
                pool.change(worker_id, |lease| *lease = read);
                fits
            })
    }
}

impl LeasePool {
    /// The worker ids that were ever leased, from the one above `after` on.
    pub(super) fn rows(&self, after: Option<u16>) -> impl Iterator<Item = LeaseRow> {
        let begin = after.map_or(0, |after| u32::from(after) + 1);
        let above = self.leases.iter().filter(move |(id, _)| u32::from(**id) >= begin);
        above.map(|(&worker_id, lease)| LeaseRow {
            worker_id,
            holder: lease.holder.to_string(),
            nonce: lease.entry.nonce(),
            from_ms: lease.entry.floor_ms(),
            until_ms: lease.entry.fence_ms(),
        })
    }

    /// How many worker ids are leased past this millisecond, and when the first of these leases ends.
    pub(super) fn leased(&self, now_ms: u64) -> (usize, Option<u64>) {
        let lasting = self.rested.range((now_ms.saturating_add(1), 0)..);
        let is_held = |&&(_, id): &&(u64, u16)| {
            self.leases.get(&id).is_some_and(|lease| lease.entry.nonce().is_some())
        };
        let mut ends = lasting.filter(is_held).map(|&(fence_ms, _)| fence_ms);
        let first = ends.next();
        (usize::from(first.is_some()) + ends.count(), first)
    }

    /// The worker id to be leased next, with its fence: the first that was never leased, or else the one with the lowest
    /// fence. All may be taken: then none is ever free.
    fn longest_rested(&self) -> (u64, u16) {
        let unused = self.unused.map(|id| (0, id));
        unused.or_else(|| self.rested.first().copied()).unwrap_or((u64::MAX, 0))
    }

    /// Whether a lease of this worker id began at this floor or above it.
    fn knows(&self, worker_id: u16, floor_ms: u64) -> bool {
        self.leases.get(&worker_id).is_some_and(|lease| lease.entry.floor_ms() >= floor_ms)
    }

    /// Changes the lease of a worker id, or makes its first one.
    fn change<R>(&mut self, worker_id: u16, change: impl FnOnce(&mut Lease) -> R) -> R {
        let lease = self.leases.entry(worker_id).or_default();
        self.rested.remove(&(lease.entry.fence_ms(), worker_id));
        let changed = change(lease);
        let fence_ms = lease.entry.fence_ms();
        if self.workers.as_ref().is_some_and(|workers| workers.may_lease(worker_id)) {
            self.rested.insert((fence_ms, worker_id));
        }
        if self.unused == Some(worker_id) {
            self.unused = self.unused_from(worker_id);
        }
        changed
    }

    /// Until when a lease may have a millisecond of a worker id that a change takes; `None` once none may. A pool that was
    /// deleted and made again knows its former leases by its floor alone.
    fn held_until(&self, now_ms: u64, after: &PoolWorkers) -> Option<u64> {
        let taken = after.taken.iter().flat_map(WorkerPool::worker_ids);
        let newly =
            taken.filter(|id| !self.workers.as_ref().is_some_and(|pool| pool.is_taken(*id)));
        let fence_ms = |id| self.leases.get(&id).map_or(0, |lease| lease.entry.fence_ms());
        let until_ms = newly.map(fence_ms).max()?.max(self.floor_ms);
        Some(until_ms).filter(|until_ms| *until_ms > now_ms)
    }

    /// Takes over other worker ids, or none, and ends the leases of those that are taken from now on.
    fn become_of(&mut self, now_ms: u64, after: Option<PoolWorkers>) {
        let newly: Vec<u16> = self.newly_taken(after.as_ref()).collect();
        for worker_id in newly {
            self.change(worker_id, |lease| lease.entry.end());
        }
        let taken = |pool: Option<&PoolWorkers>| pool.and_then(|pool| pool.taken.clone());
        let (before, now) = (taken(self.workers.as_ref()), taken(after.as_ref()));
        let is_freed = |id: u16| now.as_ref().is_none_or(|now| !now.contains(id));
        if before.iter().flat_map(WorkerPool::worker_ids).any(is_freed) {
            self.floor_ms = self.floor_ms.max(now_ms);
        }
        self.workers = after;
        self.unused = self.unused_from(0);
        let workers = &self.workers;
        let may_lease = |id: u16| workers.as_ref().is_some_and(|workers| workers.may_lease(id));
        let leases = self.leases.iter().filter(|(id, _)| may_lease(**id));
        self.rested = leases.map(|(id, lease)| (lease.entry.fence_ms(), *id)).collect();
    }

    /// The worker ids with leases that are taken after a change, and were not before it.
    fn newly_taken(&self, after: Option<&PoolWorkers>) -> impl Iterator<Item = u16> {
        let before = self.workers.as_ref();
        let is_taken = |pool: Option<&PoolWorkers>, id| pool.is_some_and(|pool| pool.is_taken(id));
        let ids = self.leases.keys().copied();
        ids.filter(move |&id| is_taken(after, id) && !is_taken(before, id))
    }

    /// The first worker id from this one on that may be leased and never was.
    fn unused_from(&self, begin: u16) -> Option<u16> {
        let workers = self.workers.as_ref()?;
        let mut ids = workers.workers.worker_ids_from(begin);
        ids.find(|id| workers.may_lease(*id) && !self.leases.contains_key(id))
    }
}

impl Lease {
    /// Whether a lease that was read could have been written.
    fn is_sound(&self) -> bool {
        self.entry.is_sound() && super::tag_fields::is_holder(&self.holder)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encoding::read_snapshot;
    use crate::state::level::ROOT_KEY;
    use crate::state::tests::{tag, written};
    use crate::state::{Actor, Change, Command, Fact, Field, Raise, State};
    use crate::tag::OutOfBounds;

    const MINUTE_MS: u64 = 60_000;

    fn set(state: &mut State, workers: &str) -> Response {
        let workers = workers.parse().unwrap();
        administer(state, 0, Change::SetPool { pool: tag("shops"), workers, taken: None })
    }

    /// Has exactly these worker ids of the pool `0-2` taken.
    fn take(state: &mut State, now_ms: u64, taken: &[u16]) -> Response {
        let taken = Some(WorkerPool::of_ids(taken.iter().copied()).ok());
        let workers = "0-2".parse().unwrap();
        administer(state, now_ms, Change::SetPool { pool: tag("shops"), workers, taken })
    }

    fn delete(state: &mut State, now_ms: u64) -> Response {
        administer(state, now_ms, Change::DeletePool { pool: tag("shops") })
    }

    fn administer(state: &mut State, now_ms: u64, change: Change) -> Response {
        state.apply(now_ms, &Command::Administer { actor: Actor::default(), change })
    }

    fn lease(state: &mut State, now_ms: u64, nonce: u128) -> Response {
        let (pool, holder, nonce) = (tag("shops"), "shop-7".into(), nonce << u64::BITS);
        state.apply(now_ms, &Command::LeaseWorker { pool, nonce, holder, window_ms: MINUTE_MS })
    }

    /// The name of a lease that began at a millisecond.
    fn name(nonce: u128, from_ms: u64) -> u128 {
        lease_name(nonce << u64::BITS, from_ms)
    }

    fn renew(state: &mut State, now_ms: u64, worker_id: u16, nonce: u128) -> Response {
        let pool = tag("shops");
        let renew = Command::RenewLease { pool, worker_id, nonce, window_ms: MINUTE_MS };
        state.apply(now_ms, &renew)
    }

    fn give_back(state: &mut State, worker_id: u16, nonce: u128, unused_from_ms: u64) -> Response {
        let pool = tag("shops");
        state.apply(0, &Command::GiveBackLease { pool, worker_id, nonce, unused_from_ms })
    }

    fn window(worker_id: u16, floor_ms: u64, fence_ms: u64) -> Response {
        Response::Window { worker_id, floor_ms, fence_ms }
    }

    #[test]
    fn a_lease_that_the_network_repeats_is_another_one_that_the_first_holder_cannot_reach() {
        let mut state = State::default();
        set(&mut state, "0");
        assert_eq!(lease(&mut state, 1_000, 70), window(0, 1_000, 61_000));
        // The cluster's clock jumps, another program has the worker id for a while, and the first command comes again.
        assert_eq!(lease(&mut state, 61_000, 71), window(0, 61_000, 121_000));
        assert_eq!(lease(&mut state, 121_000, 70), window(0, 121_000, 181_000));
        assert_eq!(renew(&mut state, 121_000, 0, name(70, 1_000)), Response::NotHolder);
        assert_eq!(give_back(&mut state, 0, name(70, 1_000), 2_000), Response::NotHolder);
        let renewed = renew(&mut state, 122_000, 0, name(70, 121_000));
        assert_eq!(renewed, window(0, 121_000, 182_000));
    }

    /// A pool of two worker ids, both leased from 1,000 on by the nonces 70 and 71.
    fn full() -> State {
        let mut state = State::default();
        assert!(matches!(set(&mut state, "0-1"), Response::Pool { before: None, .. }));
        assert_eq!(lease(&mut state, 1_000, 70), window(0, 1_000, 61_000));
        assert_eq!(lease(&mut state, 1_000, 71), window(1, 1_000, 61_000));
        state
    }

    #[test]
    fn no_two_leases_of_a_worker_id_share_a_millisecond_whatever_the_stamps_say() {
        let mut state = full();
        assert_eq!(lease(&mut state, 60_999, 72), Response::NoWorkerFree { free_from_ms: 61_000 });
        assert_eq!(lease(&mut state, 0, 72), Response::NoWorkerFree { free_from_ms: 61_000 });
        assert_eq!(lease(&mut state, 61_000, 72), window(0, 61_000, 121_000));
        // The holder of before comes late, and is refused.
        assert_eq!(renew(&mut state, 61_001, 0, name(70, 1_000)), Response::NotHolder);
        // The other one comes late too, but before any other program: it goes on.
        assert_eq!(renew(&mut state, 61_001, 1, name(71, 1_000)), window(1, 1_000, 121_001));
    }

    #[test]
    fn a_renewal_never_shortens_a_lease() {
        let mut state = full();
        assert_eq!(renew(&mut state, 31_000, 0, name(70, 1_000)), window(0, 1_000, 91_000));
        assert_eq!(renew(&mut state, 500, 0, name(70, 1_000)), window(0, 1_000, 91_000));
    }

    #[test]
    fn what_the_holder_gives_back_and_nothing_else_is_leased_again() {
        let mut state = full();
        assert_eq!(give_back(&mut state, 0, name(71, 1_000), 2_000), Response::NotHolder);
        assert_eq!(give_back(&mut state, 0, name(70, 1_000), 2_000), Response::Noted);
        assert_eq!(lease(&mut state, 1_999, 72), Response::NoWorkerFree { free_from_ms: 2_000 });
        assert_eq!(lease(&mut state, 2_000, 72), window(0, 2_000, 62_000));
        // The lease is over for its first holder, however late that one comes.
        assert_eq!(give_back(&mut state, 0, name(70, 1_000), 2_500), Response::NotHolder);
        assert_eq!(renew(&mut state, 2_500, 0, name(70, 1_000)), Response::NotHolder);
    }

    #[test]
    fn a_pool_grows_and_does_not_shrink() {
        let mut state = full();
        assert_eq!(set(&mut state, "1-5"), Response::PoolShrinks);
        assert!(matches!(set(&mut state, "0-2"), Response::Pool { .. }));
        assert_eq!(lease(&mut state, 1_000, 72), window(2, 1_000, 61_000));
        let entries = state.audit_page(0, usize::MAX, |_| true).entries;
        assert_eq!(entries.len(), 2, "the refusal is not recorded");
        assert!(matches!(set(&mut state, "0-2"), Response::Pool { .. }));
        assert_eq!(state.audit_page(0, usize::MAX, |_| true).entries.len(), 2, "nothing changed");
    }

    #[test]
    fn a_pool_that_is_made_again_goes_on_above_the_leases_of_before() {
        let mut state = full();
        assert_eq!(delete(&mut state, 60_999), Response::PoolHeld { until_ms: 61_000 });
        assert!(matches!(delete(&mut state, 61_000), Response::Pool { after: None, .. }));
        assert_eq!(delete(&mut state, 61_000), Response::UnknownPool);
        assert_eq!(lease(&mut state, 61_000, 72), Response::UnknownPool);
        assert!(matches!(set(&mut state, "5"), Response::Pool { before: None, .. }));
        // The clocks went back since.
        assert_eq!(lease(&mut state, 30_000, 72), window(5, 61_000, 90_000));
        assert_eq!(renew(&mut state, 61_500, 0, name(70, 1_000)), Response::NotHolder);
    }

    #[test]
    fn what_runs_without_a_lease_is_not_leased_until_it_is_freed() {
        let mut state = full();
        assert_eq!(take(&mut state, 60_999, &[0]), Response::PoolHeld { until_ms: 61_000 });
        assert!(matches!(take(&mut state, 61_000, &[0, 2]), Response::Pool { .. }));
        // The holder of before comes late, and so does another program: each finds the worker id taken.
        assert_eq!(renew(&mut state, 61_000, 0, name(70, 1_000)), Response::NotHolder);
        assert_eq!(lease(&mut state, 61_000, 72), window(1, 61_000, 121_000));
        assert_eq!(lease(&mut state, 61_000, 73), Response::NoWorkerFree { free_from_ms: 121_000 });
        assert!(matches!(set(&mut state, "0-2"), Response::Pool { .. }), "without the field");
        assert_eq!(lease(&mut state, 61_000, 73), Response::NoWorkerFree { free_from_ms: 121_000 });
        // Freed at 90,000: nothing before that is leased, whatever later stamps say.
        assert!(matches!(take(&mut state, 90_000, &[0]), Response::Pool { .. }));
        assert_eq!(lease(&mut state, 70_000, 74), window(2, 90_000, 130_000));
        assert!(matches!(take(&mut state, 200_000, &[]), Response::Pool { .. }));
        assert_eq!(lease(&mut state, 200_000, 75), window(0, 200_000, 260_000));
    }

    #[test]
    fn the_audit_says_what_is_taken_and_nothing_of_what_stays() {
        let mut state = full();
        take(&mut state, 61_000, &[0, 2]);
        take(&mut state, 61_000, &[0, 2]);
        take(&mut state, 61_000, &[]);
        let entries = state.audit_page(0, usize::MAX, |_| true).entries;
        let taken = |facts: &[(Field, Fact)]| {
            facts.iter().find(|fact| fact.0 == Field::Taken).map(|fact| fact.1.to_string())
        };
        let said: Vec<_> = entries.iter().map(|e| (taken(&e.before), taken(&e.after))).collect();
        let some = || Some("\"0,2\"".to_owned());
        assert_eq!(said, [(None, None), (None, some()), (some(), None)]);
    }

    #[test]
    fn a_pool_with_nothing_but_taken_worker_ids_has_none_to_lease() {
        let mut state = State::default();
        take(&mut state, 5, &[0, 1, 2]);
        assert_eq!(lease(&mut state, 9, 1), Response::NoWorkerFree { free_from_ms: u64::MAX });
        let outside = Some("3".parse().ok());
        let workers = "0-2".parse().unwrap();
        let change = Change::SetPool { pool: tag("shops"), workers, taken: outside };
        let refused = administer(&mut state, 0, change);
        assert_eq!(refused, Response::Invalid { what: OutOfBounds::Taken });
        // A deleted pool that is made again has nothing taken, and leases nothing of the time before.
        assert!(matches!(delete(&mut state, 10), Response::Pool { .. }));
        set(&mut state, "0-2");
        assert_eq!(lease(&mut state, 9, 1), window(0, 10, 60_009));
    }

    #[test]
    fn every_worker_id_is_leased_once_before_one_is_leased_again_up_to_the_last_of_65_536() {
        let mut state = State::default();
        set(&mut state, "7,65000-65535");
        let given = |response| match response {
            Response::Window { worker_id, .. } => worker_id,
            other => panic!("{other:?}"),
        };
        let first: Vec<u16> = (0..537).map(|n| given(lease(&mut state, n, n.into()))).collect();
        assert!(first[0] == 7 && first[1..].iter().copied().eq(65_000..=65_535));
        assert_eq!(lease(&mut state, 600, 999), Response::NoWorkerFree { free_from_ms: 60_000 });
        assert_eq!(state.pools(600)[0].2, 537);
        assert_eq!((state.pools(60_100)[0].2, state.pools(60_100)[0].3), (436, Some(60_101)));
        assert_eq!(given(lease(&mut state, 60_536, 1_000)), 7);
        assert_eq!(given(lease(&mut state, 60_536, 1_001)), 65_000);
    }

    #[test]
    fn a_restored_cluster_knows_no_lease_of_before_and_leases_nothing_that_may_have_been() {
        let raise = Raise { floor_ms: 100_000, ..Raise::default() };
        let mut state = full().raised(&raise).unwrap();
        let free_ms = 100_000 + AHEAD_MS_MAX;
        assert_eq!(renew(&mut state, 50_000, 0, name(70, 1_000)), Response::NotHolder);
        assert_eq!(give_back(&mut state, 0, name(70, 1_000), 2_000), Response::NotHolder);
        assert_eq!(lease(&mut state, 100_000, 72), Response::BelowFloor { floor_ms: free_ms });
        assert_eq!(lease(&mut state, free_ms, 72), window(0, free_ms, free_ms + MINUTE_MS));
    }

    /// Programs may have leased for days after the cluster gave its last snowflake id.
    #[test]
    fn a_restored_cluster_leases_nothing_that_was_leased_after_the_last_snowflake_id() {
        for (floor_ms, leased_before_ms) in [(5_000, 900_000), (900_000, 5_000)] {
            let raise = Raise { floor_ms, leased_before_ms, ..Raise::default() };
            let mut state = full().raised(&raise).unwrap();
            assert_eq!(state.snowflake_floor_ms(), floor_ms);
            let free_ms = 900_000 + AHEAD_MS_MAX;
            let early = lease(&mut state, 900_000, 72);
            assert_eq!(early, Response::BelowFloor { floor_ms: free_ms });
            assert_eq!(lease(&mut state, free_ms, 72), window(0, free_ms, free_ms + MINUTE_MS));
        }
    }

    #[test]
    fn a_snapshot_keeps_every_pool_and_lease() {
        let raise = Raise { floor_ms: 1, ..Raise::default() };
        let mut state = full().raised(&raise).unwrap();
        assert_eq!(give_back(&mut full(), 1, name(71, 1_000), 5_000), Response::Noted);
        let workers: WorkerPool = "3".parse().unwrap();
        let gone = Change::SetPool { pool: tag("gone"), workers, taken: Some("3".parse().ok()) };
        administer(&mut state, 0, gone);
        administer(&mut state, 0, Change::DeletePool { pool: tag("gone") });
        assert!(matches!(take(&mut state, 61_000, &[1]), Response::Pool { .. }));
        let read = read_snapshot(&written(&state)[..]).unwrap();
        assert_eq!(read.pools, state.pools);
        assert_eq!(written(&read), written(&state));
    }

    #[test]
    fn bounds_of_leases_are_kept() {
        let mut state = full();
        let (pool, holder) = (tag("shops"), "x".repeat(129).into());
        let command = Command::LeaseWorker { pool, nonce: 1, holder, window_ms: MINUTE_MS };
        assert!(matches!(state.apply(0, &command), Response::Invalid { .. }));
        for window_ms in [4_999, AHEAD_MS_MAX + 1] {
            let (pool, nonce) = (tag("shops"), name(70, 1_000));
            let command = Command::RenewLease { pool, worker_id: 0, nonce, window_ms };
            assert!(matches!(state.apply(0, &command), Response::Invalid { .. }));
        }
    }

    proptest! {
        /// Whatever is asked for, in whatever order and by whatever stamps, with a snapshot on the way: every
        /// millisecond of a worker id is the holder's of one lease at most.
        #[test]
        fn every_millisecond_of_a_worker_id_has_one_holder_at_most(
            steps in prop::collection::vec((0..8_u8, 0..9_usize, 0..40_u64, 0..70_u64), 1..60),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut state = State::default();
            let version = "0.3.0".to_owned();
            state.apply(0, &Command::RaiseLevel { to: ROOT_KEY, version });
            set(&mut state, "0-2");
            // Worker id, name, and the milliseconds that the holder may have stamped.
            let mut held: Vec<(u16, u128, u64, u64)> = Vec::new();
            // Which worker ids are taken, by their bits, and since when.
            let mut taken: [Option<u64>; 3] = [None; 3];
            let mut outside: Vec<(u16, u128, u64, u64)> = Vec::new();
            let cut = cut.index(steps.len());
            for (at, (what, which, now, back)) in steps.into_iter().enumerate() {
                if at == cut {
                    state = read_snapshot(&written(&state)[..]).unwrap();
                }
                let (now_ms, nonce) = (now * 5_000, at as u128 + 1);
                let known = held.get(which).copied();
                match (what, known) {
                    (0, Some((worker_id, name, from_ms, _))) => {
                        let unused_from_ms = from_ms + back * 1_000;
                        if give_back(&mut state, worker_id, name, unused_from_ms) == Response::Noted {
                            held[which].3 = held[which].3.min(unused_from_ms);
                        }
                    }
                    (1 | 2, Some((worker_id, name, ..))) => {
                        if let Response::Window { fence_ms, .. } =
                            renew(&mut state, now_ms, worker_id, name)
                        {
                            held[which].3 = fence_ms;
                        }
                    }
                    // A command comes again. Its program has been answered, and listens no more.
                    (7, Some((_, name, ..))) => drop(lease(&mut state, now_ms, name >> u64::BITS)),
                    (3, _) => {
                        let deleted = matches!(delete(&mut state, now_ms), Response::Pool { .. });
                        set(&mut state, "0-2");
                        for (id, since) in (0..).zip(&mut taken).filter(|_| deleted) {
                            outside.extend(since.take().map(|from_ms| (id, 0, from_ms, now_ms)));
                        }
                    }
                    (4, _) => {
                        let wanted = [0, 1, 2].map(|id| which & 1 << id > 0);
                        let ids: Vec<u16> =
                            (0..3).filter(|id| wanted[usize::from(*id)]).collect();
                        if !matches!(take(&mut state, now_ms, &ids), Response::Pool { .. }) {
                            continue;
                        }
                        for (id, since) in (0..).zip(&mut taken) {
                            match (wanted[usize::from(id)], *since) {
                                (true, None) => *since = Some(now_ms),
                                (false, Some(from_ms)) => {
                                    outside.push((id, 0, from_ms, now_ms));
                                    *since = None;
                                }
                                _ => {}
                            }
                        }
                    }
                    _ => {
                        if let Response::Window { worker_id, floor_ms, fence_ms } =
                            lease(&mut state, now_ms, nonce)
                        {
                            let name = name(nonce, floor_ms);
                            held.push((worker_id, name, floor_ms, fence_ms));
                        }
                    }
                }
            }
            let still = (0..).zip(taken).filter_map(|(id, since)| Some((id, 0, since?, u64::MAX)));
            let all: Vec<_> = still.chain(outside).chain(held).collect();
            for (at, one) in all.iter().enumerate() {
                for other in &all[at + 1..] {
                    if one.1 == 0 && other.1 == 0 || one.2 >= one.3 || other.2 >= other.3 {
                        continue;
                    }
                    let apart = one.0 != other.0 || one.3 <= other.2 || other.3 <= one.2;
                    prop_assert!(apart, "{one:?} and {other:?}");
                }
            }
        }
    }
}
