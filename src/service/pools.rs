//! Pools of worker ids for programs that make snowflake ids by themselves, and the leases of them.

use std::time::Duration;

use mintleaf_core::limits::{AHEAD_MS_MAX, POOLS_MAX};
use mintleaf_core::snowflake::WorkerPool;
use mintleaf_core::state::{
    Actor, Change, Command, LeaseRow, PoolWorkers, Response, State, lease_name, pool_facts,
};
use mintleaf_core::tag::BizTag;

use super::admin::audit;
use super::admin::worker_view::PoolView;
use super::error::Error;
use super::log_access::{self, Consistency, refresh};
use super::parts::ServiceParts;
use crate::limits::GRAB_MAX;
use crate::text::timestamp::rfc3339;

/// All nodes propose renewals at multiples of this time, so that many share one entry: most of what leases cost is the
/// syncs and messages of entries. A renewal is requested seconds before it is needed.
const RENEWALS_EVERY_MS: u64 = 500;

/// Pools of worker ids, and the leases of them.
pub struct PoolService {
    pub(super) parts: ServiceParts,
}

/// Names one lease to its holder: the worker id, and a number that no other lease ever has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeaseName {
    /// The worker id.
    pub worker_id: u16,
    /// The number.
    pub nonce: u128,
}

/// A lease of a worker id. Its holder alone may stamp the Unix milliseconds `[from_ms, until_ms)`.
#[derive(Clone, Copy, Debug)]
pub struct LeasedWorker {
    /// The lease.
    pub name: LeaseName,
    /// The first millisecond.
    pub from_ms: u64,
    /// The first one past the last.
    pub until_ms: u64,
}

/// A pool, and some of its leases.
#[derive(Clone, Debug)]
pub struct PoolPage {
    /// Its worker ids.
    pub workers: PoolWorkers,
    /// Those of them that others have too: the nodes (`None`), or another pool. Two programs that stamp one worker id
    /// make the same snowflakes.
    pub shared: Vec<(Option<BizTag>, WorkerPool)>,
    /// Leases that last.
    pub leases: Vec<LeaseRow>,
}

impl PoolService {
    /// Makes a pool, or gives it more worker ids; `taken`, if given, replaces those that programs use without a lease.
    ///
    /// # Errors
    /// [`Error::Conflict`] where a worker id of the pool would be missing, or one would be taken that is leased;
    /// [`Error::InvalidArgument`] where one would be taken that the pool lacks; [`Error::Level`],
    /// [`Error::Unavailable`].
    pub async fn set(
        &self,
        actor: &Actor,
        pool: &BizTag,
        workers: WorkerPool,
        taken: Option<Option<WorkerPool>>,
    ) -> Result<(), Error> {
        pool.check_new().map_err(|error| Error::invalid("pool", error.of("pool")))?;
        self.administer(actor, Change::SetPool { pool: pool.clone(), workers, taken }).await
    }

    /// Deletes a pool of which no lease lasts.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] while a lease lasts; [`Error::Level`], [`Error::Unavailable`].
    pub async fn delete(&self, actor: &Actor, pool: &BizTag) -> Result<(), Error> {
        self.administer(actor, Change::DeletePool { pool: pool.clone() }).await
    }

    async fn administer(&self, actor: &Actor, change: Change) -> Result<(), Error> {
        let response =
            log_access::change(&self.parts.replica, audit::command(actor, &change)).await?;
        match response {
            Response::Pool { before, after } => {
                if before != after {
                    audit::log(actor, &change, &pool_facts(after.as_ref()));
                }
                Ok(())
            }
            rejection => Err(self.rejected(&rejection)),
        }
    }

    /// The pools that exist, in the order of their names: at most [`POOLS_MAX`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a quorum.
    pub async fn list(&self) -> Result<Vec<PoolView>, Error> {
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        let now_ms = self.parts.clock.now_ms();
        Ok(self.parts.replica.read(|state| PoolView::all(state, now_ms)))
    }

    /// A pool, and its leases that last: up to `limit`, from the worker id above `after` on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unavailable`] without a quorum.
    pub async fn get(
        &self,
        pool: &BizTag,
        after: Option<u16>,
        limit: usize,
    ) -> Result<PoolPage, Error> {
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        let now_ms = self.parts.clock.now_ms();
        let found = self.parts.replica.read(|state| {
            let (workers, leases) = state.pool(pool.as_str(), now_ms, after, limit)?;
            Some(PoolPage { shared: shared(state, pool, &workers.workers), workers, leases })
        });
        found.ok_or_else(unknown_pool)
    }

    /// Leases a worker id that no other lease covers, for this long.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::AllLeased`]; [`Error::InvalidArgument`] for an impossible holder or duration;
    /// [`Error::Level`], [`Error::Unavailable`].
    pub async fn lease(&self, pool: BizTag, holder: &str, ms: u64) -> Result<LeasedWorker, Error> {
        let random =
            (self.parts.draw_key)().map_err(|error| Error::unavailable(error.to_string()))?;
        let (half, _) = random.split_at(size_of::<u128>());
        let nonce = half.iter().fold(0, |nonce, byte| nonce << 8 | u128::from(*byte));
        let holder = holder.into();
        let lease = Command::LeaseWorker { pool, nonce, holder, window_ms: ms };
        self.lease_by(lease, |from_ms| lease_name(nonce, from_ms)).await
    }

    /// Extends a lease, so that it lasts this long from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] where the lease is over and its worker id may be leased to another;
    /// [`Error::InvalidArgument`] for an impossible duration; [`Error::Unavailable`].
    pub async fn renew(
        &self,
        pool: BizTag,
        lease: LeaseName,
        ms: u64,
    ) -> Result<LeasedWorker, Error> {
        let LeaseName { worker_id, nonce } = lease;
        let renew = Command::RenewLease { pool, worker_id, nonce, window_ms: ms };
        renew.check()?;
        let wait_ms = RENEWALS_EVERY_MS - self.parts.clock.now_ms() % RENEWALS_EVERY_MS;
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        self.lease_by(renew, |_| nonce).await
    }

    /// Ends a lease, and gives back what its holder will never stamp: all from `unused_from_ms` on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] where the lease is over; [`Error::Unavailable`].
    pub async fn give_back(
        &self,
        pool: BizTag,
        lease: LeaseName,
        unused_from_ms: u64,
    ) -> Result<(), Error> {
        let LeaseName { worker_id, nonce } = lease;
        let command = Command::GiveBackLease { pool, worker_id, nonce, unused_from_ms };
        match self.propose(command).await? {
            Response::Noted => Ok(()),
            rejection => Err(self.rejected(&rejection)),
        }
    }

    /// `nonce_of` returns the nonce that names a lease, from the lease's first millisecond.
    async fn lease_by(
        &self,
        command: Command,
        nonce_of: impl FnOnce(u64) -> u128,
    ) -> Result<LeasedWorker, Error> {
        match self.propose(command).await? {
            Response::Window { worker_id, floor_ms, fence_ms } => Ok(LeasedWorker {
                name: LeaseName { worker_id, nonce: nonce_of(floor_ms) },
                from_ms: floor_ms,
                until_ms: fence_ms,
            }),
            rejection => Err(self.rejected(&rejection)),
        }
    }

    async fn propose(&self, command: Command) -> Result<Response, Error> {
        command.check()?;
        Ok(self.parts.replica.propose(&command, self.parts.replica.deadline(GRAB_MAX)).await?)
    }

    fn rejected(&self, response: &Response) -> Error {
        match *response {
            Response::UnknownPool => unknown_pool(),
            Response::PoolShrinks => Error::Conflict(
                "a pool keeps every worker id that it has: name them all".to_owned(),
            ),
            Response::PoolHeld { until_ms } => Error::Conflict(format!(
                "a program leases a worker id that would be deleted or taken; the last lease ends at {}",
                rfc3339(until_ms)
            )),
            Response::TooManyPools => Error::Conflict(format!(
                "there are {POOLS_MAX} names of pools, those of deleted ones included, and there can be no more"
            )),
            Response::NotHolder => Error::Conflict(
                "the lease is over, and its worker id may be another's: ask for a new lease"
                    .to_owned(),
            ),
            Response::NoWorkerFree { free_from_ms } => {
                let free_from_ms = Some(free_from_ms).filter(|ms| *ms < u64::MAX);
                Error::AllLeased { free_from_ms }
            }
            Response::BelowFloor { floor_ms } => Error::unavailable(format!(
                "leases begin at {} at the earliest, because programs may hold some from before that",
                rfc3339(floor_ms)
            )),
            ref other => {
                self.parts.replica.mixed_up("a lease", other);
                Error::unavailable("the outcome is not known, and this node is stopping")
            }
        }
    }
}

/// The worker ids of a pool that the nodes or other pools have too.
fn shared(state: &State, pool: &BizTag, workers: &WorkerPool) -> Vec<(Option<BizTag>, WorkerPool)> {
    let nodes = state.snowflake_rules().map(|rules| (None, rules.pool().clone()));
    let pools = state.pools(0).into_iter().map(|(name, its, ..)| (Some(name), its.workers));
    let others = nodes.into_iter().chain(pools.filter(|(name, _)| name.as_ref() != Some(pool)));
    others.filter_map(|(owner, its)| Some((owner, workers.shared_with(&its)?))).collect()
}

fn unknown_pool() -> Error {
    Error::NotFound("there is no such pool; PUT /v1/pools/{pool} makes one".to_owned())
}

/// The longest lease, in seconds.
pub const LEASE_SECONDS_MAX: u64 = AHEAD_MS_MAX / 1_000;
