//! Leases of worker ids, and what they are used for.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::Grant;
use crate::clock;
use crate::pool::Pool;
use crate::request::Request;
use crate::stamps::Stamps;

/// One lease.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) worker_id: u32,
    pub(crate) stamps: Stamps,
    /// When its answer arrived: by [`clock`], and by the clock of timers.
    granted_ms: u64,
    pub(super) granted: Instant,
    /// Its name in paths.
    pub(super) name: String,
    is_lost: AtomicBool,
}

/// A leased worker id, and the one after it when a generator needs one.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) pool: Pool,
    lease: Mutex<Arc<Lease>>,
    pub(super) used: watch::Sender<Use>,
    /// For a generator: what to add to the clock for its time, or [`OVER`] once nothing is granted any more.
    pub(crate) ahead_of_clock: AtomicU64,
}

/// With any time of the clock, it is after that of every id.
pub(crate) const OVER: u64 = 1 << 62;

/// What a worker id is leased for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Stamps,
    Generator,
    /// It is given back.
    Nothing,
}

/// All worker ids of a client.
#[derive(Debug, Default)]
pub(super) struct Workers {
    pub(super) all: Vec<Arc<Worker>>,
    /// Held by each request that gives a lease back. The end of the last one wakes [`Engine::close`].
    pub(super) giving_back: Option<(mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>)>,
}

impl Lease {
    fn new(grant: Grant) -> Self {
        Self {
            worker_id: grant.worker_id,
            stamps: Stamps::new(grant.from_ms, grant.until_ms),
            granted_ms: clock::now_ms(),
            granted: Instant::now(),
            name: grant.lease,
            is_lost: AtomicBool::new(false),
        }
    }

    /// Notes that a node ended the renewals.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// The lease's own time: the first millisecond when its answer arrived, and then by a monotonic clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.stamps.from_ms + (clock::now_ms() - self.granted_ms)
    }

    /// What to add to the clock for a time since this epoch. It wraps around, as the sum does.
    pub(crate) fn ahead_of_clock(&self, epoch_ms: u64) -> u64 {
        (self.stamps.from_ms - epoch_ms).wrapping_sub(self.granted_ms)
    }
}

impl Worker {
    pub(super) fn new(pool: Pool, grant: Grant) -> Self {
        let lease = Mutex::new(Arc::new(Lease::new(grant)));
        let (used, ahead_of_clock) = (watch::Sender::new(Use::Stamps), AtomicU64::new(OVER));
        Self { pool, lease, used, ahead_of_clock }
    }

    pub(crate) fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lock())
    }

    /// From now on a lost lease is followed by another.
    pub(crate) fn generate(&self, ahead_of_clock: u64) {
        self.ahead_of_clock.store(ahead_of_clock, Ordering::Relaxed);
        self.used.send_if_modified(|used| {
            let is_first = *used == Use::Stamps;
            if is_first {
                *used = Use::Generator;
            }
            is_first
        });
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.used.borrow() == Use::Nothing
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Lease>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Half of the seconds that were asked for.
    pub(super) fn half(&self) -> Duration {
        Duration::from_secs(u64::from(self.pool.seconds)) / 2
    }

    pub(super) fn request(&self) -> Request {
        let Pool { name: pool, seconds, holder } = self.pool.clone();
        Request::Lease { pool, seconds, holder }
    }

    /// Grants nothing any more. What is to be given back, if anything is.
    pub(super) fn close(&self) -> Option<Request> {
        self.used.send_replace(Use::Nothing);
        let lease = self.lock();
        let last_ms = lease.stamps.close()?;
        self.ahead_of_clock.store(OVER, Ordering::Relaxed);
        let (pool, lease_name) = (self.pool.name.clone(), lease.name.clone());
        (!lease.is_lost()).then_some(Request::GiveBack { pool, lease: lease_name, last_ms })
    }

    /// Goes on with another lease; `false` when it is closed already.
    pub(super) fn replace(&self, grant: Grant) -> bool {
        let mut lease = self.lock();
        let is_open = !self.is_closed();
        if is_open {
            *lease = Arc::new(Lease::new(grant));
        }
        is_open
    }
}
