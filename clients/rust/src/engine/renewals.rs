//! Leases of worker ids: their renewals, a new one for a generator whose lease is lost, and their end.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::Engine;
use super::network::Outcome;
use super::slot::Waiter;
use super::workers::{Use, Worker, Workers};
use crate::answer::Grant;
use crate::error::Error;
use crate::pool::Pool;
use crate::request::Request;

/// How long a request waits after a refusal that may pass, such as `exhausted`.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

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
        let worker = Arc::new(Worker::new(pool, grant));
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
                Err(_) => return lease.lose(),
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
