//! Programs that lease worker ids of pools and stamp milliseconds with them, as late as their leases allow and later.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{Actor, Error, LeasedWorker};
use mintleaf_core::tag::BizTag;
use tokio::time::sleep;

use super::Clients;

/// The pools. Each has fewer worker ids than programs want at times.
const POOLS: [&str; 2] = ["shops", "tills"];
/// The worker ids of a pool, and those that it grows to.
const WORKERS: [&str; 3] = ["0-1", "0-1", "0-2"];
/// The worker ids that programs are said to use without a lease.
const TAKEN: [&str; 3] = ["0", "1", "0-1"];
/// How long leases last at first and after a renewal.
const LEASE_MS: std::ops::Range<u64> = 5_000..9_000;
/// How far ahead of the true time or behind it a program's clock may be.
const CLOCK_OFFSETS_MS: [i64; 6] = [0, 0, 0, -3_000, 2_000, 3_600_000];
/// How long a program that got no worker id waits before it asks again.
const AGAIN_MS: std::ops::Range<u64> = 50..1_500;
/// How many milliseconds a program stamps at a time.
const STAMPS_MAX: u64 = 200;
/// How often a program asks for the end of its lease.
const GIVE_BACKS: u64 = 3;

/// A lease in the memory of its program.
struct Held {
    pool: BizTag,
    lease: LeasedWorker,
    /// The first millisecond above all that were stamped.
    next_ms: u64,
}

impl Clients {
    /// Leases one worker id after another.
    pub(super) async fn lease_workers(self: Arc<Self>) {
        while !self.is_stopping() {
            if let Some(mut held) = self.lease_any().await {
                while self.use_lease(&mut held).await.is_continue() && !self.is_stopping() {}
                // A program needs no node to use the rest, however long its cluster has been gone.
                if self.random.chance(50) {
                    self.stamp(&mut held, u64::MAX);
                }
            } else {
                sleep(Duration::from_millis(self.random.within(AGAIN_MS))).await;
            }
        }
    }

    async fn lease_any(&self) -> Option<Held> {
        let pool = BizTag::parse(self.random.pick(&POOLS)).expect("a name");
        let serving = self.any_serving().await?;
        let ms = self.random.within(LEASE_MS);
        let pools = &serving.services.pools;
        let leased = self.wait(&serving, pools.lease(pool.clone(), "a program", ms)).await?;
        let by = serving.incarnation;
        self.trace.note(format_args!("program leases of {pool:?} at {by:?}: {leased:?}"));
        if self.random.chance(3) || matches!(leased, Err(Error::NotFound(_))) {
            let (actor, delete) = (Actor::default(), self.random.chance(20));
            let workers = self.random.pick(&WORKERS).parse().expect("worker ids");
            let taken = match self.random.within(0..4) {
                0 => None,
                1 => Some(Some(self.random.pick(&TAKEN).parse().expect("worker ids"))),
                _ => Some(None),
            };
            let changed = match delete {
                true => self.wait(&serving, pools.delete(&actor, &pool)).await,
                false => self.wait(&serving, pools.set(&actor, &pool, workers, taken)).await,
            };
            self.trace.note(format_args!("pool {pool:?} changes at {by:?}: {changed:?}"));
        }
        let lease = leased.ok()?;
        Some(Held { pool, lease, next_ms: lease.from_ms })
    }

    async fn use_lease(&self, held: &mut Held) -> ControlFlow<()> {
        sleep(Duration::from_millis(self.random.within(1..900))).await;
        match self.random.within(0..100) {
            0..60 => self.stamp(held, self.random.within(1..STAMPS_MAX)),
            60..82 => return self.renew(held).await,
            82..90 => {
                // The program stops for longer than its lease lasts, and wakes up without noticing.
                let late_ms = held.lease.until_ms + self.random.within(0..2_000);
                let now_ms = self.machines[0].site.now_ms();
                sleep(Duration::from_millis(late_ms.saturating_sub(now_ms).min(LEASE_MS.end)))
                    .await;
                self.stamp(held, self.random.within(1..STAMPS_MAX));
            }
            90..96 => {
                self.give_back(held).await;
                return ControlFlow::Break(());
            }
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Stamps up to `count` milliseconds of the lease, of which no clock has any say; the oracle judges them.
    fn stamp(&self, held: &mut Held, count: u64) {
        let clock_ms = self.machines[0].site.now_ms();
        let clock_ms = clock_ms.saturating_add_signed(self.random.pick(&CLOCK_OFFSETS_MS));
        let start_ms = if count == u64::MAX { held.next_ms } else { held.next_ms.max(clock_ms) };
        let end_ms = start_ms.saturating_add(count).min(held.lease.until_ms);
        if start_ms < end_ms {
            self.oracle.stamped(&held.pool, held.lease.name, &(start_ms..end_ms));
            held.next_ms = end_ms;
        }
    }

    async fn renew(&self, held: &mut Held) -> ControlFlow<()> {
        let Some(serving) = self.any_serving().await else { return ControlFlow::Continue(()) };
        let ms = self.random.within(LEASE_MS);
        let renew = serving.services.pools.renew(held.pool.clone(), held.lease.name, ms);
        let renewed = self.wait(&serving, renew).await;
        let by = serving.incarnation;
        self.trace.note(format_args!("program renews at {by:?}: {renewed:?}"));
        match renewed {
            // As the clients do, it takes of a renewal how long the lease lasts, and nothing else.
            Some(Ok(lease)) => held.lease.until_ms = lease.until_ms,
            // Another program may have its worker id, but none of its milliseconds.
            Some(Err(Error::Conflict(_) | Error::NotFound(_))) => {
                self.stamp(held, STAMPS_MAX);
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Stamps nothing from now on, and gives the rest back.
    async fn give_back(&self, held: &mut Held) {
        let unused_from_ms = held.next_ms;
        held.lease.until_ms = unused_from_ms;
        for _ in 0..self.random.within(1..GIVE_BACKS + 1) {
            let Some(serving) = self.any_serving().await else { continue };
            let (pool, name) = (held.pool.clone(), held.lease.name);
            let give_back = serving.services.pools.give_back(pool, name, unused_from_ms);
            let given = self.wait(&serving, give_back).await;
            let by = serving.incarnation;
            self.trace.note(format_args!("program gives back at {by:?}: {given:?}"));
            if matches!(given, Some(Ok(()))) {
                return;
            }
        }
    }
}
