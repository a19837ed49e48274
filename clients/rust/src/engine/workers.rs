//! Leases of worker ids: their renewals, a new one for a generator whose lease is lost, and their end.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Engine;
use super::network::Outcome;
use super::slot::Waiter;
use crate::answer::Grant;
use crate::clock;
use crate::error::Error;
use crate::pool::Pool;
use crate::request::Request;
use crate::stamps::Stamps;

/// How long a request waits after a refusal that may pass, such as `exhausted`.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// One lease.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) worker_id: u32,
    pub(crate) stamps: Stamps,
    /// When its answer arrived: by [`clock`], and by the clock of timers.
    granted_ms: u64,
    granted: Instant,
    /// Its name in paths.
    name: String,
    is_lost: AtomicBool,
}

/// A leased worker id, and the one after it when a generator needs one.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) pool: Pool,
    lease: Mutex<Arc<Lease>>,
    used: watch::Sender<Use>,
    /// For a generator: what to add to the clock for its time, or [`OVER`] once nothing is granted any more.
    pub(crate) ahead_of_clock: AtomicU64,
}

/// With any time of the clock, it is after that of every id.
pub(crate) const OVER: u64 = 1 << 62;

/// What a worker id is leased for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Stamps,
    Generator,
    /// It is given back.
    Nothing,
}

/// All worker ids of a client.
#[derive(Debug, Default)]
pub(super) struct Workers {
    all: Vec<Arc<Worker>>,
    /// Held by each request that gives a lease back. The end of the last one wakes [`Engine::close`].
    giving_back: Option<(mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>)>,
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
    fn half(&self) -> Duration {
        Duration::from_secs(u64::from(self.pool.seconds)) / 2
    }

    fn request(&self) -> Request {
        let Pool { name: pool, seconds, holder } = self.pool.clone();
        Request::Lease { pool, seconds, holder }
    }

    /// Grants nothing any more. What is to be given back, if anything is.
    fn close(&self) -> Option<Request> {
        self.used.send_replace(Use::Nothing);
        let lease = self.lock();
        let last_ms = lease.stamps.close()?;
        self.ahead_of_clock.store(OVER, Ordering::Relaxed);
        let (pool, lease_name) = (self.pool.name.clone(), lease.name.clone());
        (!lease.is_lost()).then_some(Request::GiveBack { pool, lease: lease_name, last_ms })
    }

    /// Goes on with another lease; `false` when it is closed already.
    fn replace(&self, grant: Grant) -> bool {
        let mut lease = self.lock();
        let is_open = !self.is_closed();
        if is_open {
            *lease = Arc::new(Lease::new(grant));
        }
        is_open
    }
}

impl Engine {
    /// A call that waits for the lease of a worker id.
    pub(crate) fn want_worker(
        self: &Arc<Self>,
        pool: Pool,
        reply: Waiter<Result<Arc<Worker>, Error>>,
    ) -> Result<(), Error> {
        pool.check()?;
        let engine = Arc::clone(self);
        let Pool { name, seconds, holder } = pool.clone();
        let request = Request::Lease { pool: name, seconds, holder };
        self.want_loose(request, reply, move |outcome| match outcome {
            Outcome::Granted(grant) => engine.hold(pool, grant),
            other => Err(other.into_error()),
        });
        Ok(())
    }

    /// Keeps a lease, and renews it. If the client is closed, its milliseconds are wasted.
    fn hold(self: &Arc<Self>, pool: Pool, grant: Grant) -> Result<Arc<Worker>, Error> {
        let lease = Mutex::new(Arc::new(Lease::new(grant)));
        let worker = Arc::new(Worker {
            pool,
            lease,
            used: watch::Sender::new(Use::Stamps),
            ahead_of_clock: AtomicU64::new(OVER),
        });
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if registry.is_closed {
            return Err(Error::Closed);
        }
        registry.workers.all.push(Arc::clone(&worker));
        let (engine, renewed) = (Arc::clone(self), Arc::clone(&worker));
        self.runtime.spawn(async move { engine.keep(&renewed).await });
        Ok(worker)
    }

    /// Renews a lease, and those after it, until it is closed.
    async fn keep(&self, worker: &Worker) {
        let mut used = worker.used.subscribe();
        let mut closing = self.closing.subscribe();
        let keep = async {
            loop {
                self.renew(worker).await;
                let mut used = worker.used.subscribe();
                if used.wait_for(|used| *used == Use::Generator).await.is_err() {
                    return;
                }
                let grant = self.insist(&worker.request()).await;
                if !grant.is_ok_and(|grant| worker.replace(grant)) {
                    return;
                }
            }
        };
        tokio::select! {
            () = keep => {}
            _ = used.wait_for(|used| *used == Use::Nothing) => {}
            _ = closing.wait_for(|is_closing| *is_closing) => {}
        }
    }

    /// Renews one lease until it is lost.
    async fn renew(&self, worker: &Worker) {
        let lease = worker.lease();
        let (pool, seconds) = (worker.pool.name.clone(), worker.pool.seconds);
        let request = Request::Renewal { pool, lease: lease.name.clone(), seconds };
        let mut next = lease.granted + worker.half();
        loop {
            sleep_until(next).await;
            match self.insist(&request).await {
                Ok(grant) => lease.stamps.renew(grant.until_ms),
                Err(_) => return lease.is_lost.store(true, Ordering::Relaxed),
            }
            next = Instant::now() + worker.half();
        }
    }

    /// Asks until a node grants it, or says that there is no such lease.
    async fn insist(&self, request: &Request) -> Result<Grant, Error> {
        loop {
            match self.network.ask(request, self.deadline(), None).await {
                Outcome::Granted(grant) => return Ok(grant),
                Outcome::Refused(refusal)
                    if request.is_renewal() && matches!(refusal.status, 404 | 409) =>
                {
                    return Err(Error::Refused(refusal));
                }
                Outcome::Refused(_) => sleep(AGAIN_AFTER).await,
                _ => {}
            }
        }
    }

    /// Closes a lease. The receiver hears when the request that gives it back has ended, if there is one.
    pub(crate) fn give_back(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
    ) -> Option<oneshot::Receiver<()>> {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.workers.all.retain(|other| !Arc::ptr_eq(other, worker));
        let request = worker.close()?;
        if registry.is_closed {
            return None;
        }
        Some(self.send_back(&mut registry.workers, request))
    }

    fn send_back(
        self: &Arc<Self>,
        workers: &mut Workers,
        request: Request,
    ) -> oneshot::Receiver<()> {
        let (sender, _) = workers.giving_back.get_or_insert_with(mpsc::channel);
        let (sender, engine) = (sender.clone(), Arc::clone(self));
        let (done, told) = oneshot::channel();
        self.runtime.spawn(async move {
            let deadline = engine.network.now() + engine.network.settings.attempt_timeout;
            // A lease that is not given back ends by itself.
            drop(engine.network.ask(&request, deadline, None).await);
            drop((sender, done));
        });
        told
    }

    /// Closes all leases. Returns what ends when the last of them is given back.
    pub(super) fn give_all_back(
        self: &Arc<Self>,
        workers: &mut Workers,
    ) -> Option<mpsc::Receiver<Infallible>> {
        for worker in std::mem::take(&mut workers.all) {
            if let Some(request) = worker.close() {
                drop(self.send_back(workers, request));
            }
        }
        workers.giving_back.take().map(|(_, ended)| ended)
    }
}
