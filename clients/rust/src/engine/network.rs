//! The attempts of a flight: which endpoint is asked, when, and what its answer means for the next attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::slot::Slot;
use crate::answer::{self, Grant, Meaning};
use crate::endpoints::Endpoints;
use crate::error::{Error, Refusal};
use crate::lease::line::Reply;
use crate::registration::Registration;
use crate::request::Request;
use crate::settings::Settings;
use crate::transport::Transport;

/// The largest number of requests that a client has under way at once.
const REQUESTS_MAX: usize = 64;
/// How often endpoints are asked for their zones, varied by up to a tenth either way.
const ZONES_EVERY: Duration = Duration::from_secs(60);

/// The endpoints, how to reach them, and how well they have worked.
pub(crate) struct Network {
    transport: Box<dyn Transport>,
    endpoints: Mutex<Endpoints>,
    requests: Semaphore,
    pub(crate) settings: Settings,
    began: Instant,
}

/// How the attempts of a flight end.
#[derive(Debug)]
pub(crate) enum Outcome {
    Lease(Vec<std::ops::Range<u64>>),
    Listed {
        ids: Vec<String>,
        may_be_kept: bool,
    },
    NotForKeeping,
    /// Ask for a lease of at most this number of ids instead.
    TooMany(u64),
    Registered(Registration),
    Granted(Grant),
    /// The node did what it was asked for, and there is nothing to say.
    Done,
    Refused(Refusal),
    /// The deadline passed first. The error is that of the last attempt.
    TimeUp(Error),
}

impl Outcome {
    /// The reply to a call that asked for a list.
    pub(crate) fn into_reply(self) -> Reply {
        match self {
            Self::Listed { ids, .. } => Reply::Listed(ids),
            other => Reply::Failed(other.into_error()),
        }
    }

    /// The error of a call whose request has another outcome than it asked for.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(refusal) => Error::Refused(refusal),
            Self::TimeUp(error) => error,
            // No request has the outcome of another kind.
            _ => Error::Closed,
        }
    }
}

impl Network {
    pub(crate) fn new(transport: Box<dyn Transport>, settings: Settings, seed: u64) -> Self {
        let endpoints = Mutex::new(Endpoints::new(transport.endpoints(), seed));
        let requests = Semaphore::new(REQUESTS_MAX);
        Self { transport, endpoints, requests, settings, began: Instant::now() }
    }

    /// The client's clock: monotonic, and 0 when the client was made.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The instant that corresponds to `time` on the client's clock.
    pub(crate) fn at(&self, time: Duration) -> Instant {
        self.began + time
    }

    /// Asks one endpoint after another until one answers or the deadline passes. `slot` is the line, if there
    /// is one: it is informed of failed attempts, and remembers where a rate limit is used up. An attempt that the
    /// deadline cuts short has met nothing: the error is that of the last one before it.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        deadline: Duration,
        slot: Option<&Slot>,
    ) -> Outcome {
        let mut last = Error::Unavailable("no answer yet".to_owned());
        let mut pinned = slot.and_then(|slot| slot.line().limited(self.now()));
        let mut is_first = true;
        loop {
            let (endpoint, at) = pinned.take().unwrap_or_else(|| {
                let (endpoint, rests_until) = self.endpoints().pick(self.now());
                (endpoint, if is_first { self.now() } else { rests_until })
            });
            is_first = false;
            sleep_until(self.at(at.min(deadline))).await;
            if self.now() >= deadline {
                return Outcome::TimeUp(last);
            }
            let Some(attempt) = self.attempt(endpoint, request, deadline).await else {
                return Outcome::TimeUp(last);
            };
            match attempt {
                Ok(Meaning::Lease(ranges)) => return Outcome::Lease(ranges),
                Ok(Meaning::Listed { ids, may_be_kept }) => {
                    return Outcome::Listed { ids, may_be_kept };
                }
                Ok(Meaning::NotForKeeping) => return Outcome::NotForKeeping,
                Ok(Meaning::TooMany { count_max }) => return Outcome::TooMany(count_max),
                Ok(Meaning::Registered(registration)) => return Outcome::Registered(registration),
                Ok(Meaning::Granted(grant)) => return Outcome::Granted(grant),
                Ok(Meaning::Done) => return Outcome::Done,
                Ok(Meaning::Refused(refusal)) => return Outcome::Refused(refusal),
                Ok(Meaning::RateLimited { refusal, wait }) => {
                    let until = self.now() + wait;
                    if let Some(slot) = slot {
                        slot.line().rate_limited(endpoint, until);
                    }
                    pinned = Some((endpoint, until));
                    last = Error::Refused(refusal);
                }
                Ok(Meaning::Failed { why, .. }) | Err(why) => {
                    let address = self.transport.address(endpoint);
                    last = Error::Unavailable(format!("{address}: {why}"));
                }
            }
            if let Some(slot) = slot {
                slot.line().met(last.clone());
            }
        }
    }

    /// One attempt. Its outcome is noted for the endpoint. `None`: the deadline cut it short.
    async fn attempt(
        &self,
        endpoint: usize,
        request: &Request,
        deadline: Duration,
    ) -> Option<Result<Meaning, String>> {
        let turn = timeout_at(self.at(deadline), self.requests.acquire()).await;
        let _permit = turn.ok()?.ok()?;
        let attempt_timeout = self.settings.attempt_timeout;
        let end = self.now() + attempt_timeout;
        let attempt = self.transport.ask(endpoint, request);
        let outcome = match timeout_at(self.at(end.min(deadline)), attempt).await {
            Ok(Ok(answer)) => {
                let meaning = answer::read(request, &answer);
                match &meaning {
                    Meaning::Failed { rest, .. } => self.failed(endpoint, *rest),
                    _ => self.endpoints().answered(endpoint),
                }
                Ok(meaning)
            }
            Ok(Err(why)) => {
                self.failed(endpoint, None);
                Err(why)
            }
            Err(_) if end <= deadline => {
                self.failed(endpoint, None);
                Err(format!("no answer within {attempt_timeout:?}"))
            }
            // The endpoint is not to blame when the call's own deadline passes.
            Err(_) => return None,
        };
        Some(outcome)
    }

    fn failed(&self, endpoint: usize, rest: Option<Duration>) {
        self.endpoints().failed(endpoint, self.now(), rest);
    }

    fn endpoints(&self) -> MutexGuard<'_, Endpoints> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks every endpoint for its zone, again and again. A zone stays as it was when no answer comes.
    pub(crate) async fn watch_zones(&self, own: &str) {
        loop {
            for endpoint in 0..self.transport.endpoints() {
                let end = self.at(self.now() + self.settings.attempt_timeout);
                let asked = timeout_at(end, self.transport.ask(endpoint, &Request::Cluster)).await;
                if let Ok(Ok(answer)) = asked
                    && let Some(is_own) = answer::is_in_zone(&answer, own)
                {
                    self.endpoints().set_in_zone(endpoint, is_own);
                }
            }
            let pause = self.endpoints().about(ZONES_EVERY);
            sleep_until(self.at(self.now() + pause)).await;
        }
    }
}
