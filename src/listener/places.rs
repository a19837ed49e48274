//! The places for connections of one protocol, and who makes room when they run out.
//!
//! A client address holds half of the places at most, and the one that holds most makes room when all are
//! taken. It does so with the connection that has been idle for longest, so that neither idle clients nor
//! one address keep others out; callers behind one proxy share an address, and only their idle connections
//! end. A stranger, who has shown nothing that gives it a right to anything, counts as idle whatever it sends.
//! Where none is idle the newcomer is turned away.
//!
//! The registry belongs to one acceptor: a connection tells its end by a message, and a request meets
//! nothing of all this.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::origin::Origin;
use crate::watchdog::{LOOK_INTERVAL, Progress};

/// Connections that may be about to end while their places are given to others already, of each protocol.
pub(crate) const LEAVING_MAX: usize = 32;
/// A used connection gives up its place after it was idle for so many looks, which is longer than any
/// answer takes: a request that waits for its answer looks idle from here.
const IDLE_LOOKS_MIN: u64 = 2;
/// A connection that never sent a byte, or that of a stranger, may be asked to leave after this long.
const UNUSED_MIN: Duration = Duration::from_secs(1);
/// After a search that found nobody idle, the next one waits for this long: a flood of newcomers must not
/// keep the acceptor searching.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// The name of a place: who holds it, and a number that no other place of the registry had.
type PlaceId = (Origin, u64);

/// A connection's place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: PlaceId,
    freed: mpsc::UnboundedSender<PlaceId>,
    pub(super) progress: Arc<Progress>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // The acceptor is gone only when the node stops.
        let _ = self.freed.send(self.id);
    }
}

#[derive(Debug)]
struct Taken {
    id: PlaceId,
    since: Instant,
    progress: Arc<Progress>,
}

impl Taken {
    /// How long the connection has been idle, if for long enough to make room.
    fn idle(&self, now: Instant) -> Option<Duration> {
        if self.progress.received_bytes() == 0 || self.progress.is_of_stranger() {
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
    taken: Vec<Taken>,
    /// When a search for an idle one was last in vain.
    searched_in_vain: Option<Instant>,
}

/// A connection that was asked to leave.
#[derive(Debug)]
struct Leaver {
    id: PlaceId,
    progress: Arc<Progress>,
    /// What had come in by then. The connection stays if more came in before it heard, unless it is that of a
    /// stranger.
    received: u64,
}

/// The registry. Its memory is bounded by the number of places: an address without a connection is
/// forgotten.
#[derive(Debug)]
pub(super) struct Places {
    places_max: usize,
    taken: usize,
    last_number: u64,
    by_origin: HashMap<Origin, Holder>,
    /// [`LEAVING_MAX`] at most. Their places are still taken, and count as free.
    leaving: Vec<Leaver>,
    freed: mpsc::UnboundedReceiver<PlaceId>,
    frees: mpsc::UnboundedSender<PlaceId>,
}

/// The outcome of a newcomer's claim.
#[derive(Debug)]
pub(super) enum Claim {
    /// A place, for which an idle connection may have made room.
    Granted(Place),
    /// There is no place, and nobody makes room.
    Refused,
}

impl Places {
    pub(super) fn new(places_max: usize) -> Self {
        // As many messages as there are places may be under way, and no more.
        let (frees, freed) = mpsc::unbounded_channel();
        Self {
            places_max,
            taken: 0,
            last_number: 0,
            by_origin: HashMap::new(),
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

    /// A place for a connection from `address`, if there is one or an idle connection makes room.
    pub(super) fn claim(&mut self, address: IpAddr, now: Instant) -> Claim {
        while let Ok(id) = self.freed.try_recv() {
            self.free(id);
        }
        self.leaving.retain(|Leaver { progress, received, .. }| {
            progress.received_bytes() == *received || progress.is_of_stranger()
        });
        let origin = Origin::from(address);
        let crowded = if self.held_by(origin) >= self.places_max.div_ceil(2) {
            Some(origin)
        } else if self.taken - self.leaving.len() >= self.places_max {
            self.largest_holder()
        } else {
            None
        };
        if crowded.is_some_and(|origin| !self.ask_one_to_leave(origin, now)) {
            return Claim::Refused;
        }
        Claim::Granted(self.take(origin, now))
    }

    fn take(&mut self, origin: Origin, now: Instant) -> Place {
        self.last_number += 1;
        self.taken += 1;
        let (id, progress) = ((origin, self.last_number), Arc::new(Progress::default()));
        let taken = Taken { id, since: now, progress: Arc::clone(&progress) };
        self.by_origin.entry(origin).or_default().taken.push(taken);
        Place { id, freed: self.frees.clone(), progress }
    }

    fn free(&mut self, id: PlaceId) {
        self.leaving.retain(|leaver| leaver.id != id);
        let Some(Holder { taken, .. }) = self.by_origin.get_mut(&id.0) else { return };
        if let Some(at) = taken.iter().position(|taken| taken.id == id) {
            taken.swap_remove(at);
            self.taken -= 1;
        }
        if taken.is_empty() {
            self.by_origin.remove(&id.0);
        }
    }

    /// How many places an origin holds, without those that it is about to give up.
    fn held_by(&self, origin: Origin) -> usize {
        let leaving = self.leaving.iter().filter(|leaver| leaver.id.0 == origin).count();
        self.by_origin.get(&origin).map_or(0, |holder| holder.taken.len()) - leaving
    }

    fn largest_holder(&self) -> Option<Origin> {
        self.by_origin.keys().copied().max_by_key(|&origin| self.held_by(origin))
    }

    /// Asks the connection of an origin that has been idle for longest to leave; answers whether there is
    /// one.
    fn ask_one_to_leave(&mut self, origin: Origin, now: Instant) -> bool {
        let Self { by_origin, leaving, .. } = self;
        let Some(holder) = by_origin.get_mut(&origin) else { return false };
        let paused = holder.searched_in_vain.is_some_and(|at| now - at < SEARCH_PAUSE);
        if paused || leaving.len() >= LEAVING_MAX {
            return false;
        }
        let stays = |taken: &&Taken| leaving.iter().all(|leaver| leaver.id != taken.id);
        let idle =
            holder.taken.iter().filter(stays).filter_map(|taken| Some((taken.idle(now)?, taken)));
        let Some((_, longest)) = idle.max_by_key(|(idle, _)| *idle) else {
            holder.searched_in_vain = Some(now);
            return false;
        };
        let progress = Arc::clone(&longest.progress);
        let leaver = Leaver { id: longest.id, received: progress.received_bytes(), progress };
        leaver.progress.ask_to_leave();
        self.leaving.push(leaver);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    /// A connection that has sent something since the last look.
    fn active(places: &mut Places, address: IpAddr, now: Instant) -> Place {
        let Claim::Granted(place) = places.claim(address, now) else { panic!("there is a place") };
        place.progress.received(1);
        place
    }

    fn is_granted(places: &mut Places, address: IpAddr, now: Instant) -> bool {
        matches!(places.claim(address, now), Claim::Granted(..))
    }

    #[test]
    fn one_address_gets_half_and_leaves_the_rest_to_others() {
        let (mut places, now) = (Places::new(8), Instant::now());
        let mut held: Vec<Place> = (0..4).map(|_| active(&mut places, A, now)).collect();
        assert!(!is_granted(&mut places, A, now), "nobody is idle");
        held.push(active(&mut places, B, now));
        held.remove(0);
        held.push(active(&mut places, A, now));
        assert_eq!(held.len(), 5);
    }

    #[test]
    fn the_connection_that_was_idle_for_longest_makes_room() {
        let (mut places, now) = (Places::new(6), Instant::now());
        let held: Vec<Place> = (0..3).map(|_| active(&mut places, A, now)).collect();
        for (place, looks) in held.iter().zip([2, 7, 1]) {
            place.progress.note_look(looks);
        }
        let Claim::Granted(newcomer) = places.claim(A, now) else { panic!("one makes room") };
        assert_eq!(places.leaving[0].id, held[1].id);
        newcomer.progress.received(1);
        // The next one is asked, and the one after that keeps its place: it was idle for too short.
        let Claim::Granted(_another) = places.claim(A, now) else { panic!("one makes room") };
        assert_eq!(places.leaving[1].id, held[0].id);
        assert!(!is_granted(&mut places, A, now));
    }

    #[test]
    fn who_never_sent_anything_makes_room_after_a_second() {
        let (mut places, now) = (Places::new(2), Instant::now());
        let Claim::Granted(silent) = places.claim(A, now) else { panic!("all is free") };
        assert!(!is_granted(&mut places, A, now + Duration::from_millis(800)));
        assert!(is_granted(&mut places, A, now + Duration::from_millis(1_001)));
        drop(silent);
    }

    #[test]
    fn a_stranger_makes_room_after_a_second_whatever_it_sends() {
        let (mut places, now) = (Places::new(4), Instant::now());
        let held: Vec<Place> = (0..2).map(|_| active(&mut places, A, now)).collect();
        let asks = |place: &Place| {
            place.progress.received(9);
            place.progress.request_begun();
            place.progress.request_of_stranger();
        };
        asks(&held[0]);
        held[1].progress.request_begun();
        assert!(!is_granted(&mut places, A, now + Duration::from_millis(800)));
        let Claim::Granted(newcomer) = places.claim(A, now + Duration::from_millis(1_001)) else {
            panic!("the stranger makes room")
        };
        newcomer.progress.received(9);
        newcomer.progress.request_begun();
        asks(&held[0]);
        assert_eq!(places.leaving[0].id, held[0].id);
        assert!(!is_granted(&mut places, A, now + Duration::from_secs(3)), "nobody else is idle");
        assert_eq!(places.leaving.len(), 1, "it leaves, although it has asked again");
    }

    #[test]
    fn when_all_is_taken_the_largest_holder_makes_room() {
        let (mut places, now) = (Places::new(5), Instant::now());
        let mut held: Vec<Place> = (0..3).map(|_| active(&mut places, A, now)).collect();
        held.extend((0..2).map(|_| active(&mut places, B, now)));
        held.iter().for_each(|place| place.progress.note_look(3));
        assert!(is_granted(&mut places, C, now));
        assert!(places.leaving[0].id.0 == Origin::from(A));
    }

    #[test]
    fn who_asks_again_before_it_hears_keeps_its_place_and_is_counted_again() {
        let (mut places, now) = (Places::new(2), Instant::now());
        let place = active(&mut places, A, now);
        place.progress.note_look(2);
        let Claim::Granted(newcomer) = places.claim(A, now) else { panic!("one makes room") };
        newcomer.progress.received(1);
        place.progress.received(1);
        assert!(!is_granted(&mut places, A, now));
        assert!(places.leaving.is_empty());
    }

    #[test]
    fn an_address_without_a_connection_is_forgotten() {
        let (mut places, now) = (Places::new(100), Instant::now());
        for last in 0..200 {
            drop(active(&mut places, IpAddr::from([10, 0, 1, last]), now));
        }
        assert_eq!((places.taken, places.by_origin.len()), (1, 1), "all but the last were heard");
    }
}
