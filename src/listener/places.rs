//! The places for connections of one protocol, and which connection makes room when they run out.
//!
//! A client address holds half of the places at most, and the one that holds most makes room when all are
//! taken. It does so with the connection that has been idle for longest, so that neither idle clients nor
//! one address keep others out; callers behind one proxy share an address, and only their idle connections
//! end. Where none is idle the newcomer is turned away.
//!
//! On a node that asks for tokens, a connection that has shown none makes room before all others, even if it is active
//! ([`Unproven`] has the order among them): callers without a token never keep out callers with one. A newcomer may
//! have a token, so it waits until such a connection has left, rather than being turned away.
//!
//! ```text
//! places       how many places each origin holds, which connections are idle, which are leaving
//!   unproven   which connection makes room first on a node that asks for tokens
//! ```
//!
//! The registry belongs to one acceptor: a connection reports its end by a message, and requests meet nothing of all
//! this.

mod unproven;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::unproven::{PermitId, Unproven};
use crate::connection::origin::ClientSubnet;
use crate::connection::watchdog::{LOOK_INTERVAL, Progress};

/// Connections of each protocol that may be about to end while their places are given to others already.
pub(crate) const LEAVING_MAX: usize = 32;
/// A used connection gives up its place after this many idle looks, which take longer than any answer: a request that
/// waits for its answer looks idle from here.
const IDLE_LOOKS_MIN: u64 = 2;
/// A connection that never sent a byte may be asked to leave after this long.
const UNUSED_MIN: Duration = Duration::from_secs(1);
/// After a search that found no idle connection, the next one waits for this long: a flood of newcomers must not keep
/// the acceptor searching.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// A connection's place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    id: PermitId,
    freed: mpsc::UnboundedSender<PermitId>,
    pub(super) progress: Arc<Progress>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        // The acceptor is gone only when the node stops.
        let _ = self.freed.send(self.id);
    }
}

#[derive(Debug)]
struct TakenPermit {
    id: PermitId,
    since: Instant,
    progress: Arc<Progress>,
}

impl TakenPermit {
    /// How long the connection has been idle, if for long enough to make room.
    fn idle(&self, now: Instant) -> Option<Duration> {
        if self.progress.received_bytes() == 0 {
            let unused = now.saturating_duration_since(self.since);
            return Some(unused).filter(|&unused| unused >= UNUSED_MIN);
        }
        let looks = self.progress.idle_looks();
        let idle = LOOK_INTERVAL * u32::try_from(looks).unwrap_or(u32::MAX);
        Some(idle).filter(|_| looks >= IDLE_LOOKS_MIN)
    }
}

/// The connections of one origin.
#[derive(Debug, Default)]
struct Holder {
    taken: Vec<TakenPermit>,
    /// When a search for an idle one last failed.
    searched_in_vain: Option<Instant>,
}

/// A connection that was asked to leave.
#[derive(Debug)]
struct Leaver {
    id: PermitId,
    progress: Arc<Progress>,
    /// What had come in by then. The connection stays if more came in before it learned of the request. `None`: it
    /// stays if it has shown a token before that.
    received: Option<u64>,
}

impl Leaver {
    fn of(id: PermitId, progress: Arc<Progress>) -> Self {
        let received = (!progress.is_unproven()).then(|| progress.received_bytes());
        progress.ask_to_leave();
        Self { id, progress, received }
    }

    fn still_leaves(&self) -> bool {
        match self.received {
            Some(received) => self.progress.received_bytes() == received,
            None => self.progress.is_unproven(),
        }
    }
}

/// The registry. Its memory is bounded by the number of places: an address without a connection is
/// forgotten.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    places_max: usize,
    /// Whether clients have to show tokens.
    asks_for_tokens: bool,
    taken: usize,
    last_number: u64,
    by_origin: HashMap<ClientSubnet, Holder>,
    unproven: Unproven,
    /// [`LEAVING_MAX`] at most. Their places are still taken, and count as free.
    leaving: Vec<Leaver>,
    freed: mpsc::UnboundedReceiver<PermitId>,
    frees: mpsc::UnboundedSender<PermitId>,
}

/// The outcome of a newcomer's claim.
#[derive(Debug)]
pub(super) enum Claim {
    /// A place. Another connection may have made room for it.
    Granted(ConnectionPermit),
    /// There will be a place once a connection that was asked to leave has left.
    Awaited,
    /// There is no place, and no connection makes room.
    Refused,
}

impl ConnectionLimits {
    pub(super) fn new(places_max: usize, asks_for_tokens: bool) -> Self {
        // As many messages as there are places may be under way, and no more.
        let (frees, freed) = mpsc::unbounded_channel();
        Self {
            places_max,
            asks_for_tokens,
            taken: 0,
            last_number: 0,
            by_origin: HashMap::new(),
            unproven: Unproven::default(),
            leaving: Vec::new(),
            freed,
            frees,
        }
    }

    /// Waits for a place to be freed, and takes note of it.
    pub(super) async fn await_freed(&mut self) {
        // The registry holds a sender itself, so there is always another message to wait for.
        if let Some(id) = self.freed.recv().await {
            self.free(id);
        }
    }

    /// A place for a connection from `address`, if there is one or another connection makes room.
    pub(super) fn claim(&mut self, address: IpAddr, now: Instant) -> Claim {
        while let Ok(id) = self.freed.try_recv() {
            self.free(id);
        }
        self.leaving.retain(Leaver::still_leaves);
        let origin = ClientSubnet::from(address);
        let has_half = self.held_by(origin) >= self.places_max.div_ceil(2);
        if !has_half && self.taken - self.leaving.len() < self.places_max {
            return Claim::Granted(self.take(origin, now));
        }
        // A connection that was asked to leave, and showed a token before it learned of that, stays: these exceed the
        // places.
        if self.leaving.len() >= LEAVING_MAX || self.taken >= self.places_max + LEAVING_MAX {
            let some_leave = self.asks_for_tokens && !self.leaving.is_empty();
            return if some_leave { Claim::Awaited } else { Claim::Refused };
        }
        let makes_room = self.ask_an_unproven_one(has_half.then_some(origin))
            || match has_half {
                true => self.ask_an_idle_one(origin, now),
                false => self.largest_holder().is_some_and(|of| self.ask_an_idle_one(of, now)),
            };
        if makes_room { Claim::Granted(self.take(origin, now)) } else { Claim::Refused }
    }

    fn take(&mut self, origin: ClientSubnet, now: Instant) -> ConnectionPermit {
        self.last_number += 1;
        self.taken += 1;
        let id = (origin, self.last_number);
        let progress = match self.asks_for_tokens {
            true => Arc::new(Progress::unproven()),
            false => Arc::default(),
        };
        if self.asks_for_tokens {
            self.unproven.add(id, Arc::clone(&progress));
        }
        let taken = TakenPermit { id, since: now, progress: Arc::clone(&progress) };
        self.by_origin.entry(origin).or_default().taken.push(taken);
        ConnectionPermit { id, freed: self.frees.clone(), progress }
    }

    fn free(&mut self, id: PermitId) {
        self.leaving.retain(|leaver| leaver.id != id);
        if self.asks_for_tokens {
            self.unproven.remove(id);
        }
        let Some(Holder { taken, .. }) = self.by_origin.get_mut(&id.0) else { return };
        if let Some(at) = taken.iter().position(|taken| taken.id == id) {
            taken.swap_remove(at);
            self.taken -= 1;
        }
        if taken.is_empty() {
            self.by_origin.remove(&id.0);
        }
    }

    /// How many places an origin holds, not counting the ones that it is about to give up.
    fn held_by(&self, origin: ClientSubnet) -> usize {
        let leaving = self.leaving.iter().filter(|leaver| leaver.id.0 == origin).count();
        self.by_origin.get(&origin).map_or(0, |holder| holder.taken.len()) - leaving
    }

    fn largest_holder(&self) -> Option<ClientSubnet> {
        self.by_origin.keys().copied().max_by_key(|&origin| self.held_by(origin))
    }

    /// Asks a connection without a shown token to leave; returns whether there is one. If an origin is given, it must
    /// be one of that origin.
    fn ask_an_unproven_one(&mut self, of: Option<ClientSubnet>) -> bool {
        let Some((id, progress)) = self.unproven.next(of) else { return false };
        self.leaving.push(Leaver::of(id, progress));
        true
    }

    /// Asks the connection of an origin that has been idle for longest to leave; returns whether there is one.
    fn ask_an_idle_one(&mut self, origin: ClientSubnet, now: Instant) -> bool {
        let Self { by_origin, leaving, .. } = self;
        let Some(holder) = by_origin.get_mut(&origin) else { return false };
        let paused = holder.searched_in_vain.is_some_and(|at| now - at < SEARCH_PAUSE);
        if paused {
            return false;
        }
        let stays = |taken: &&TakenPermit| leaving.iter().all(|leaver| leaver.id != taken.id);
        let idle =
            holder.taken.iter().filter(stays).filter_map(|taken| Some((taken.idle(now)?, taken)));
        let Some((_, longest)) = idle.max_by_key(|(idle, _)| *idle) else {
            holder.searched_in_vain = Some(now);
            return false;
        };
        leaving.push(Leaver::of(longest.id, Arc::clone(&longest.progress)));
        true
    }
}

#[cfg(test)]
mod tests;
