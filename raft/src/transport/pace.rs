//! Rate limits on what strangers may ask of the internal listener.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of addresses whose handshakes have a separate pace. There are fewer members than that.
const KNOWN_MAX: usize = 64;

/// Holds back what arrives too fast, by the generic cell rate algorithm (ITU-T I.371).
pub(super) struct Pace {
    interval: Duration,
    /// The time that a burst would have taken at the steady pace.
    burst: Duration,
    /// When everything so far would have arrived at the steady pace.
    due: Instant,
}

impl Pace {
    /// The pace of connections: 5,000 per second. Each costs some 40 µs of the thread that Raft runs on.
    pub(super) fn of_connections() -> Self {
        Self::new(Duration::from_micros(200), 1_024)
    }

    /// The pace of handshakes: 500 per second. Each costs some 0.3 ms of that thread.
    fn of_handshakes() -> Self {
        Self::new(Duration::from_millis(2), 128)
    }

    fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst: interval * burst, due: Instant::now() }
    }

    /// Takes the next turn, and returns the moment when it comes: now, or later.
    pub(super) fn turn(&mut self) -> Instant {
        let now = Instant::now();
        self.due = self.due.max(now) + self.interval;
        self.due.checked_sub(self.burst).map_or(now, |turn| turn.max(now))
    }
}

/// The pace of handshakes. Strangers cannot hold up nodes at other addresses, because an address has a separate pace
/// once a node has proved itself from there.
pub(super) struct Handshakes {
    strangers: Pace,
    known: BTreeMap<IpAddr, Pace>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { strangers: Pace::of_handshakes(), known: BTreeMap::new() }
    }
}

impl Handshakes {
    /// Takes the next turn of an address.
    pub(super) fn turn(&mut self, from: IpAddr) -> Instant {
        self.known.get_mut(&from).unwrap_or(&mut self.strangers).turn()
    }

    /// Records that a node has proved itself from an address.
    pub(super) fn proven(&mut self, from: IpAddr) {
        if self.known.len() < KNOWN_MAX {
            self.known.entry(from).or_insert_with(Pace::of_handshakes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep_until;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_a_flood_is_held_back() {
        let (mut pace, began) = (Pace::of_connections(), Instant::now());
        for _ in 0..1_024 {
            assert_eq!(pace.turn(), began);
        }
        for _ in 0..5_000 {
            sleep_until(pace.turn()).await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_do_not_hold_up_an_address_from_which_a_node_has_proved_itself() {
        let (mut handshakes, now) = (Handshakes::default(), Instant::now());
        let [member, stranger] = [1, 66].map(|last| IpAddr::from([127, 0, 0, last]));
        handshakes.proven(member);
        for _ in 0..1_000 {
            handshakes.turn(stranger);
        }
        assert!(handshakes.turn(stranger) > now + Duration::from_secs(1));
        assert_eq!(handshakes.turn(member), now);
    }
}
