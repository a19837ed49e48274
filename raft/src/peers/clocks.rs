//! The voters' clocks and their median.
//!
//! Every message carries its sender's clock. The leader stamps entries with the median of the voters' clocks and
//! sends the median to its followers, so one wild clock cannot shift the cluster's time, even if it is the leader's.
//! This machine's monotonic clock, which no adjustment touches, carries a reading forward. An old reading does not
//! count.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A reading older than this does not count: its node may be gone, or its clock may have been set since.
const READING_AGE_MAX: Duration = Duration::from_secs(3);

/// A node's clock, as another node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerClock {
    /// The node that the clock belongs to.
    pub node_id: u64,
    /// How far the clock is ahead of this node's, in milliseconds; negative if it is behind.
    pub offset_ms: i64,
    /// How old the reading is, in milliseconds.
    pub age_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    clock_ms: u64,
    at: Instant,
}

impl Reading {
    fn now(clock_ms: u64) -> Self {
        Self { clock_ms, at: Instant::now() }
    }

    fn age(self) -> Duration {
        self.at.elapsed()
    }

    /// What the clock shows now, unless it was set since.
    fn carried_forward_ms(self) -> u64 {
        let age_ms = u64::try_from(self.age().as_millis()).unwrap_or(u64::MAX);
        self.clock_ms.saturating_add(age_ms)
    }

    fn is_fresh(self) -> bool {
        self.age() <= READING_AGE_MAX
    }
}

/// The newest reading of every peer, and of the leader's median.
#[derive(Default)]
pub(crate) struct Clocks {
    peers: Mutex<BTreeMap<u64, Reading>>,
    median: Mutex<Option<Reading>>,
}

impl Clocks {
    /// Records what a peer's clock showed just now.
    pub(crate) fn read(&self, node_id: u64, clock_ms: u64) {
        self.peers.lock().insert(node_id, Reading::now(clock_ms));
    }

    /// Records the median that the leader has just sent.
    pub(crate) fn read_median(&self, median_ms: u64) {
        *self.median.lock() = Some(Reading::now(median_ms));
    }

    /// The last median from the leader, carried forward; `None` if it is too old.
    pub(crate) fn told_median_ms(&self) -> Option<u64> {
        let told = *self.median.lock();
        told.filter(|reading| reading.is_fresh()).map(Reading::carried_forward_ms)
    }

    /// The median of the voters' clocks: this node's own if it votes, and every fresh reading.
    pub(crate) fn median_ms(&self, me: u64, own_ms: u64, voters: impl Iterator<Item = u64>) -> u64 {
        let peers = self.peers.lock();
        let mut clocks: Vec<u64> = voters
            .filter_map(|id| match id {
                id if id == me => Some(own_ms),
                id => peers
                    .get(&id)
                    .copied()
                    .filter(|reading| reading.is_fresh())
                    .map(Reading::carried_forward_ms),
            })
            .collect();
        lower_median(&mut clocks).unwrap_or(own_ms)
    }

    /// Every peer's offset against this node's clock, by node id.
    pub(crate) fn offsets(&self, own_ms: u64) -> Vec<PeerClock> {
        let peers = self.peers.lock();
        let offset = |ms: u64| i64::try_from(i128::from(ms) - i128::from(own_ms));
        let peer_clock = |(&node_id, reading): (&u64, &Reading)| PeerClock {
            node_id,
            offset_ms: offset(reading.carried_forward_ms()).unwrap_or(i64::MAX),
            age_ms: u64::try_from(reading.age().as_millis()).unwrap_or(u64::MAX),
        };
        peers.iter().map(peer_clock).collect()
    }
}

/// The middle value, or the lower middle of an even number of values: of two clocks, neither alone must be able to
/// push time ahead.
fn lower_median(clocks: &mut [u64]) -> Option<u64> {
    clocks.sort_unstable();
    let middle = clocks.len().checked_sub(1)? / 2;
    clocks.get(middle).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_MS: u64 = 365 * 24 * 3_600_000;

    #[tokio::test(start_paused = true)]
    async fn one_wild_clock_moves_nobodys_time() {
        let clocks = Clocks::default();
        clocks.read(2, 1_000);
        clocks.read(3, 1_010);
        assert_eq!(clocks.median_ms(1, 1_000 + 10 * YEAR_MS, [1, 2, 3].into_iter()), 1_010);
        assert_eq!(clocks.median_ms(1, 0, [1, 2, 3].into_iter()), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_clocks_the_lower_counts() {
        let clocks = Clocks::default();
        clocks.read(2, 900);
        assert_eq!(clocks.median_ms(1, 1_000, [1, 2].into_iter()), 900);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_is_carried_forward_until_it_is_too_old() {
        let clocks = Clocks::default();
        clocks.read(2, 1_000);
        clocks.read(3, 1_000);
        clocks.read_median(1_000);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clocks.median_ms(1, 50, [1, 2, 3].into_iter()), 3_000);
        assert_eq!(clocks.told_median_ms(), Some(3_000));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clocks.median_ms(1, 50, [1, 2, 3].into_iter()), 50);
        assert_eq!(clocks.told_median_ms(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_learners_clock_does_not_count() {
        let clocks = Clocks::default();
        clocks.read(4, 9_999);
        assert_eq!(clocks.median_ms(1, 1_000, [1].into_iter()), 1_000);
        let clock = PeerClock { node_id: 4, offset_ms: 8_999, age_ms: 0 };
        assert_eq!(clocks.offsets(1_000), [clock]);
    }
}
