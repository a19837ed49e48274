//! Leases of worker ids, and snowflake ids that a process makes by itself.
//!
//! | file | what it is |
//! | --- | --- |
//! | `owner` | who ends a lease |
//! | `snowflakes` | the generator |

mod owner;
mod snowflakes;

use std::fmt;
use std::sync::Arc;

use crate::client::Client;
use crate::engine::workers::{Lease, Worker};
use crate::error::Error;
use crate::pool::Pool;

use owner::Owner;
pub use snowflakes::{Layout, WorkerSnowflakes};

/// A worker id, and the milliseconds of it that no other program ever gets.
///
/// The client renews it at half of its time. [`WorkerLease::close`], dropping it, or closing its client gives the rest of
/// its milliseconds back.
///
/// ```no_run
/// # async fn example(client: mintleaf_client::Client) -> Result<(), mintleaf_client::Error> {
/// use mintleaf_client::Layout;
///
/// let lease = client.lease_worker("shops").await?;
/// println!("worker {} from {}", lease.worker_id(), lease.from_ms());
/// let snowflakes = lease.into_generator(Layout::default())?;
/// let id: u64 = snowflakes.next_id()?; // without a request
/// snowflakes.close().await;
/// # Ok(())
/// # }
/// ```
pub struct WorkerLease {
    owner: Owner,
    lease: Arc<Lease>,
}

impl WorkerLease {
    pub(crate) fn new(client: Client, worker: Arc<Worker>) -> Self {
        Self { lease: worker.lease(), owner: Owner::new(client, worker) }
    }

    /// The pool.
    pub fn pool(&self) -> &str {
        &self.owner.worker().pool.name
    }

    /// The worker id.
    pub fn worker_id(&self) -> u32 {
        self.lease.worker_id
    }

    /// The first Unix millisecond that may be stamped with the worker id.
    pub fn from_ms(&self) -> u64 {
        self.lease.stamps.from_ms
    }

    /// The first Unix millisecond that may not be stamped. A renewal moves it further.
    pub fn until_ms(&self) -> u64 {
        self.lease.stamps.until_ms()
    }

    /// Whether this Unix millisecond may be stamped with the worker id, by this process alone. No clock is read.
    ///
    /// After `true` the millisecond counts as stamped, and is not given back.
    pub fn may_stamp(&self, ms: u64) -> bool {
        self.lease.stamps.grant(ms)
    }

    /// Whether a node ended the renewals. What the lease had before stays its own, up to [`WorkerLease::until_ms`].
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Makes snowflake ids of the lease. When the lease is lost, the generator takes another worker id of the pool.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names what does not fit the layout. The lease is then given back.
    pub fn into_generator(self, layout: Layout) -> Result<WorkerSnowflakes, Error> {
        WorkerSnowflakes::new(self.owner, layout)
    }

    /// Gives back the milliseconds after the last one that was stamped. It waits for one request, up to the deadline of
    /// an attempt. If that fails, the lease ends by itself.
    pub async fn close(&self) {
        self.owner.close().await;
    }

    /// As [`WorkerLease::close`], for threads.
    pub fn close_blocking(&self) {
        self.owner.close_blocking();
    }
}

impl fmt::Debug for WorkerLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name of the lease stays out of the output, because it proves the holder.
        f.debug_struct("WorkerLease")
            .field("pool", &self.pool())
            .field("worker_id", &self.worker_id())
            .field("from_ms", &self.from_ms())
            .field("until_ms", &self.until_ms())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Leases a worker id of a pool, to make snowflake ids by itself. It is renewed until it is closed.
    ///
    /// # Errors
    /// As [`Client::next_id`]; `exhausted` while all worker ids are leased.
    pub async fn lease_worker(&self, pool: impl Into<Pool>) -> Result<WorkerLease, Error> {
        let pool = pool.into();
        let worker = self.wait(|waiter| self.inner.engine.want_worker(pool, waiter)).await?;
        Ok(WorkerLease::new(self.clone(), worker))
    }
}
