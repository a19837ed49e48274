//! A client without its public interface: its lines, and the flights that fill them.
//!
//! | file | what it is |
//! | --- | --- |
//! | `slot` | a line with its lock, and the calls that wait on it |
//! | `lines` | the lines of tags, by name |
//! | `network` | the attempts of a flight |
//! | `workers` | leases of worker ids |
//! | `renewals` | how they are renewed, replaced and given back |
//!
//! Ids that are held are taken on the caller's thread. Everything that waits for the network is a task on one
//! runtime, which [`crate::client`] runs on a separate thread. A call that has to wait leaves a [`Waiter`] with its
//! line. A flight, or the end of the client, sends the reply to it.

mod lines;
pub(crate) mod network;
mod renewals;
pub(crate) mod slot;
pub(crate) mod workers;

use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::answer::{joined, number};
use crate::error::Error;
use crate::lease::line::{CALLS_MAX, Call, Order, Reply, Step};
use crate::registration::Registration;
use crate::request::{self, Request};
use lines::Lines;
use network::{Network, Outcome};
use slot::{Slot, Waiter, fresh};
use workers::Workers;

/// The largest number of tags whose ids are kept. Calls for further tags each send their own request.
const LINES_MAX: usize = 10_000;

/// Everything that calls and flights share.
pub(crate) struct Engine {
    network: Network,
    lines: Lines,
    snowflakes: Arc<Slot>,
    registry: Mutex<Registry>,
    /// Calls without a line that are waiting now.
    loose_calls: AtomicUsize,
    closing: watch::Sender<bool>,
    /// After `closing`, when all leases of worker ids are given back.
    ended: watch::Sender<bool>,
    runtime: Handle,
}

/// Held while a line or a lease of a worker id is made and while all are closed, so closing misses none.
#[derive(Debug, Default)]
struct Registry {
    lines: usize,
    workers: Workers,
    is_closed: bool,
}

impl Engine {
    /// An engine whose tasks run on `runtime`.
    pub(crate) fn new(network: Network, runtime: Handle) -> Arc<Self> {
        let snowflakes = Arc::new(Slot::new(None, network.settings.snowflakes()));
        let engine = Arc::new(Self {
            network,
            lines: Lines::new(),
            snowflakes,
            registry: Mutex::default(),
            loose_calls: AtomicUsize::new(0),
            closing: watch::Sender::new(false),
            ended: watch::Sender::new(false),
            runtime,
        });
        if engine.network.settings.zone.is_some() {
            let watching = Arc::clone(&engine);
            engine.runtime.spawn(async move { watching.watch_zones().await });
        }
        engine
    }

    /// One id of a tag, if one is held.
    #[inline]
    pub(crate) fn held(self: &Arc<Self>, tag: &str) -> Option<u64> {
        self.lines.with(tag, |slot| self.take(slot, 1))?.map(|ids| ids.start)
    }

    /// Up to `count` ids of a tag that are held.
    pub(crate) fn held_ids(self: &Arc<Self>, tag: &str, count: u64) -> Option<Range<u64>> {
        self.lines.with(tag, |slot| self.take(slot, count))?
    }

    /// One snowflake, if one is held.
    #[inline]
    pub(crate) fn held_snowflake(self: &Arc<Self>) -> Option<u64> {
        self.take(&self.snowflakes, 1).map(|ids| ids.start)
    }

    /// A block of ids for a handle, if any are held.
    pub(crate) fn held_block(self: &Arc<Self>, slot: &Arc<Slot>) -> Option<Range<u64>> {
        let taken = slot.cursor.take_block();
        if taken.refill {
            self.refill(slot);
        }
        fresh(&taken, || self.network.now())
    }

    #[inline]
    fn take(self: &Arc<Self>, slot: &Arc<Slot>, count: u64) -> Option<Range<u64>> {
        let taken = slot.cursor.take(count);
        if taken.refill {
            self.refill(slot);
        }
        fresh(&taken, || self.network.now())
    }

    #[cold]
    fn refill(self: &Arc<Self>, slot: &Arc<Slot>) {
        let step = slot.line().half_used(&slot.cursor, self.network.now());
        self.carry_out(slot, step);
    }

    /// The line of a tag, which is made if it does not exist. `None` when there are too many lines.
    pub(crate) fn slot(&self, tag: &str) -> Result<Option<Arc<Slot>>, Error> {
        if let Some(slot) = self.lines.with(tag, Arc::clone) {
            return Ok(Some(slot));
        }
        request::check_tag(tag)?;
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if registry.is_closed {
            return Err(Error::Closed);
        }
        if let Some(slot) = self.lines.with(tag, Arc::clone) {
            return Ok(Some(slot));
        }
        if registry.lines == LINES_MAX {
            return Ok(None);
        }
        registry.lines += 1;
        let slot = Arc::new(Slot::new(Some(tag.to_owned()), self.network.settings.tags()));
        self.lines.insert(tag, &slot);
        Ok(Some(slot))
    }

    /// A call that waits for ids of a tag, in addition to those in `got`.
    pub(crate) fn want(
        self: &Arc<Self>,
        tag: &str,
        count: u64,
        got: Vec<Range<u64>>,
        reply: Waiter,
    ) -> Result<(), Error> {
        match self.slot(tag)? {
            Some(slot) => self.want_of(&slot, count, got, reply),
            None => {
                let request = Request::Segment { tag: tag.to_owned(), count, as_ranges: false };
                self.want_loose(request, reply, Outcome::into_reply);
            }
        }
        Ok(())
    }

    /// A call that waits for a snowflake.
    pub(crate) fn want_snowflake(self: &Arc<Self>, reply: Waiter) {
        self.want_of(&Arc::clone(&self.snowflakes), 1, Vec::new(), reply);
    }

    /// A call that waits for the next number of a key.
    pub(crate) fn want_keyed(
        self: &Arc<Self>,
        tag: &str,
        key: &str,
        reply: Waiter,
    ) -> Result<(), Error> {
        request::check_tag(tag)?;
        request::check_key(key)?;
        let request = Request::Sequence { tag: tag.to_owned(), key: key.to_owned() };
        self.want_loose(request, reply, Outcome::into_reply);
        Ok(())
    }

    /// A call that waits for the number of a key of a register.
    pub(crate) fn want_registered(
        self: &Arc<Self>,
        tag: &str,
        key: &str,
        reply: Waiter<Result<Registration, Error>>,
    ) -> Result<(), Error> {
        request::check_tag(tag)?;
        request::check_key(key)?;
        let request = Request::Register { tag: tag.to_owned(), key: key.to_owned() };
        self.want_loose(request, reply, |outcome| match outcome {
            Outcome::Registered(registration) => Ok(registration),
            other => Err(other.into_error()),
        });
        Ok(())
    }

    /// A call that waits for ids of a line.
    pub(crate) fn want_of(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        count: u64,
        got: Vec<Range<u64>>,
        reply: Waiter,
    ) {
        let now = self.network.now();
        let call = Call { count, got, deadline: now + self.network.settings.timeout, reply };
        let step = slot.line().want(&slot.cursor, now, call);
        self.carry_out(slot, step);
    }

    /// The flight of a call without a line. `read` makes the reply of its outcome.
    fn want_loose<R: Send + 'static>(
        self: &Arc<Self>,
        request: Request,
        reply: Waiter<R>,
        read: impl FnOnce(Outcome) -> R + Send + 'static,
    ) {
        if self.loose_calls.fetch_add(1, Ordering::Relaxed) >= CALLS_MAX {
            self.loose_calls.fetch_sub(1, Ordering::Relaxed);
            return reply.tell(read(Outcome::TimeUp(Error::Overloaded)));
        }
        let (engine, deadline) = (Arc::clone(self), self.deadline());
        self.runtime.spawn(async move {
            let outcome = engine.ask_for_itself(&request, deadline, None).await;
            engine.loose_calls.fetch_sub(1, Ordering::Relaxed);
            reply.tell(read(outcome));
        });
    }

    fn deadline(&self) -> Duration {
        self.network.now() + self.network.settings.timeout
    }

    fn carry_out(self: &Arc<Self>, slot: &Arc<Slot>, step: Step<Waiter>) {
        let Step { replies, flight, own } = step;
        for (waiter, reply) in replies {
            waiter.tell(reply);
        }
        if let Some(order) = flight {
            let (engine, slot) = (Arc::clone(self), Arc::clone(slot));
            self.runtime.spawn(async move { engine.fly(&slot, order).await });
        }
        for call in own {
            let (engine, slot) = (Arc::clone(self), Arc::clone(slot));
            self.runtime.spawn(async move {
                let request = slot.request(call.count, false);
                let outcome = engine.ask_for_itself(&request, call.deadline, Some(&slot)).await;
                let told = outcome.into_reply();
                let error = if let Reply::Failed(error) = &told { Some(error) } else { None };
                slot.line().own_call_ended(error);
                call.reply.tell(told);
            });
        }
    }

    /// The flight for a lease, or for the first ids of a line.
    async fn fly(self: &Arc<Self>, slot: &Arc<Slot>, order: Order) {
        let request = slot.ordered(order);
        let mut asking = pin!(self.network.ask(&request, order.deadline, Some(slot)));
        let mut closing = self.closing.subscribe();
        let outcome = loop {
            // A call that arrives later has a later deadline than this.
            let wake = slot.line().next_deadline().unwrap_or_else(|| self.deadline());
            tokio::select! {
                outcome = &mut asking => break outcome,
                () = sleep_until(self.network.at(wake)) => {
                    let step = slot.line().expire(self.network.now());
                    self.carry_out(slot, step);
                }
                _ = closing.wait_for(|is_closing| *is_closing) => return,
            }
        };
        let (now, cursor) = (self.network.now(), &slot.cursor);
        let step = match outcome {
            Outcome::Lease(ranges) => slot.line().landed(cursor, now, ranges),
            Outcome::Listed { ids, may_be_kept: true } => {
                let ids: Vec<u64> = ids.iter().filter_map(|id| number(id)).collect();
                slot.line().landed(cursor, now, joined(&ids))
            }
            Outcome::Listed { ids, may_be_kept: false } => {
                slot.line().not_for_keeping(cursor, now, Some(ids))
            }
            Outcome::NotForKeeping => slot.line().not_for_keeping(cursor, now, None),
            Outcome::TooMany(count_max) => slot.line().too_many(cursor, now, count_max),
            Outcome::Refused(refusal) => slot.line().refused(cursor, now, &Error::Refused(refusal)),
            // This request asked for ids.
            Outcome::TimeUp(_) | Outcome::Registered(_) | Outcome::Granted(_) | Outcome::Done => {
                slot.line().gave_up(cursor, now)
            }
        };
        self.carry_out(slot, step);
    }

    /// The flight of one call. What it gets goes to this call alone.
    async fn ask_for_itself(
        &self,
        request: &Request,
        deadline: Duration,
        slot: Option<&Slot>,
    ) -> Outcome {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|is_closing| *is_closing) => Outcome::TimeUp(Error::Closed),
            outcome = self.network.ask(request, deadline, slot) => outcome,
        }
    }

    async fn watch_zones(&self) {
        let mut closing = self.closing.subscribe();
        if let Some(zone) = &self.network.settings.zone {
            tokio::select! {
                () = self.network.watch_zones(zone) => {}
                _ = closing.wait_for(|is_closing| *is_closing) => {}
            }
        }
    }

    /// Throws away what is held, and ends every call and every task. Leases of worker ids are given back first; this waits
    /// for one attempt at most.
    pub(crate) fn close(self: &Arc<Self>) {
        let given_back = {
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.is_closed = true;
            let close = |slot: &Arc<Slot>| {
                let step = slot.line().close(&slot.cursor);
                self.carry_out(slot, step);
            };
            self.lines.for_each(close);
            close(&self.snowflakes);
            self.closing.send_replace(true);
            self.give_all_back(&mut registry.workers)
        };
        if let Some(given_back) = given_back {
            // Nothing is sent: this returns when the last sender is dropped, or at the deadline.
            let _ = given_back.recv_timeout(self.network.settings.attempt_timeout);
        }
        self.ended.send_replace(true);
    }

    /// Returns once the client is closed.
    pub(crate) async fn closed(&self) {
        // An error would mean that the engine has been dropped, but it is borrowed here.
        let _ = self.ended.subscribe().wait_for(|has_ended| *has_ended).await;
    }
}
