//! The handshakes in flight on one worker thread, which are bounded in number.
//!
//! A client that sends its part of a handshake piece by piece makes the node keep up to 64 KiB of it, more than an open
//! connection ever holds. One origin has half of the handshakes at most, so that it does not make others wait. A
//! handshake that finds no room waits in turn, within the time that a handshake has. While others wait, a handshake
//! that has lasted for a second ends: two ends that both go on are done long before. So a crowd that stalls soon makes
//! room, and a crowd that does not is served in order of arrival.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::sleep;

use crate::connection::origin::ClientSubnet;
use crate::limits::HANDSHAKES_MAX;

/// A handshake that has lasted for this long ends when others wait.
const UNCROWDED_MIN: Duration = Duration::from_secs(1);
/// Between two looks whether others wait.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The handshakes of one worker thread.
#[derive(Debug)]
pub(crate) struct Handshakes {
    all: HandshakeLimit,
    max_of_one: usize,
    by_origin: Mutex<HashMap<ClientSubnet, Arc<HandshakeLimit>>>,
}

/// Room for some handshakes.
#[derive(Debug)]
struct HandshakeLimit {
    free: Semaphore,
    /// Each that waits for room holds one more reference.
    waiting: Arc<()>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self::with_room_for(HANDSHAKES_MAX)
    }
}

impl Handshakes {
    fn with_room_for(max: usize) -> Self {
        Self {
            all: HandshakeLimit::new(max),
            max_of_one: max.div_ceil(2),
            by_origin: Mutex::default(),
        }
    }

    /// Carries a handshake out once there is room; `None` when it ends because it has lasted while others wait.
    pub(crate) async fn in_turn<T>(
        &self,
        origin: ClientSubnet,
        handshake: impl Future<Output = T>,
    ) -> Option<T> {
        let own = self.of(origin);
        // The room of its origin comes first: a handshake that waits here takes nothing that others wait for.
        let _of_its_origin = own.room.enter().await;
        let _of_all = self.all.enter().await;
        tokio::select! {
            biased;
            outcome = handshake => Some(outcome),
            () = crowded([&own.room, &self.all]) => None,
        }
    }

    fn of(&self, origin: ClientSubnet) -> OriginRoom<'_> {
        let mut by_origin = self.by_origin.lock();
        let room = by_origin
            .entry(origin)
            .or_insert_with(|| Arc::new(HandshakeLimit::new(self.max_of_one)));
        OriginRoom { room: Arc::clone(room), origin, handshakes: self }
    }
}

/// The room of one origin, which is forgotten with its last handshake.
struct OriginRoom<'a> {
    room: Arc<HandshakeLimit>,
    origin: ClientSubnet,
    handshakes: &'a Handshakes,
}

impl Drop for OriginRoom<'_> {
    fn drop(&mut self) {
        let mut by_origin = self.handshakes.by_origin.lock();
        // One reference is in the table, and one is here.
        if Arc::strong_count(&self.room) == 2 {
            by_origin.remove(&self.origin);
        }
    }
}

impl HandshakeLimit {
    fn new(max: usize) -> Self {
        Self { free: Semaphore::new(max), waiting: Arc::default() }
    }

    async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.free.try_acquire() {
            return Some(place);
        }
        let _waiting = Arc::clone(&self.waiting);
        // It is never closed.
        self.free.acquire().await.ok()
    }
}

/// Resolves when a handshake that begins now has lasted for long enough, and others wait for room.
async fn crowded(rooms: [&HandshakeLimit; 2]) {
    sleep(UNCROWDED_MIN).await;
    while rooms.iter().all(|room| Arc::strong_count(&room.waiting) == 1) {
        sleep(LOOK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::net::IpAddr;

    use tokio::task::JoinSet;
    use tokio::time::{Instant, timeout};

    use super::*;

    fn origin(last: u8) -> ClientSubnet {
        IpAddr::from([10, 0, 0, last]).into()
    }

    /// This many handshakes of one origin that never come to an end by themselves.
    async fn stall(
        handshakes: &Arc<Handshakes>,
        origin: ClientSubnet,
        count: usize,
    ) -> JoinSet<bool> {
        let mut stalled = JoinSet::new();
        for _ in 0..count {
            let handshakes = Arc::clone(handshakes);
            stalled
                .spawn(async move { handshakes.in_turn(origin, pending::<()>()).await.is_some() });
        }
        tokio::task::yield_now().await;
        stalled
    }

    #[tokio::test(start_paused = true)]
    async fn one_origin_has_half_and_makes_nobody_else_wait() {
        let handshakes = Arc::new(Handshakes::with_room_for(4));
        let _stalled = stall(&handshakes, origin(1), 100).await;
        let began = Instant::now();
        assert_eq!(handshakes.in_turn(origin(2), ready(7)).await, Some(7));
        assert_eq!(began.elapsed(), Duration::ZERO);
        let own = timeout(Duration::from_millis(900), handshakes.in_turn(origin(1), ready(7)));
        assert!(own.await.is_err(), "it does not wait for its turn");
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_stalls_ends_for_those_who_wait_and_lasts_where_nobody_does() {
        let handshakes = Arc::new(Handshakes::with_room_for(4));
        let mut stalled = stall(&handshakes, origin(1), 2).await;
        sleep(Duration::from_secs(60)).await;
        assert!(stalled.try_join_next().is_none(), "nobody waits");
        let began = Instant::now();
        assert_eq!(handshakes.in_turn(origin(1), ready(7)).await, Some(7));
        assert!(began.elapsed() <= LOOK_INTERVAL, "{:?}", began.elapsed());
        assert_eq!(stalled.join_next().await.unwrap().ok(), Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_has_a_turn_and_an_origin_without_a_handshake_is_forgotten() {
        let handshakes = Arc::new(Handshakes::with_room_for(4));
        let mut crowd = JoinSet::new();
        for number in 0..200 {
            let handshakes = Arc::clone(&handshakes);
            crowd.spawn(async move {
                let work = async { sleep(Duration::from_millis(20)).await };
                handshakes.in_turn(origin(number % 5), work).await.is_some()
            });
        }
        let began = Instant::now();
        assert!(crowd.join_all().await.into_iter().all(|done| done));
        assert_eq!(began.elapsed(), Duration::from_millis(200 / 4 * 20), "4 at a time");
        assert!(handshakes.by_origin.lock().is_empty());
        drop(timeout(Duration::ZERO, handshakes.in_turn(origin(1), pending::<()>())).await);
        assert!(handshakes.by_origin.lock().is_empty(), "one that was given up is remembered");
    }
}
