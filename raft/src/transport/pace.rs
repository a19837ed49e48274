//! The pace at which the internal listener accepts connections.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Connections that may come at once: those of every peer that reconnects.
const BURST: u32 = 256;
/// Time that each further connection has to itself. A handshake takes some 0.3 ms of the thread that Raft runs
/// on, so a flood of handshakes leaves it most of its time. A node that connects waits until those before it are
/// accepted: among 450 silent connections 0.4 s, less than half of the time that it has.
const INTERVAL: Duration = Duration::from_millis(1);

/// Holds back what comes too fast, by the generic cell rate algorithm.
pub(super) struct Pace {
    /// When the burst would be used up to nothing.
    full_at: Instant,
    burst: Duration,
}

impl Pace {
    pub(super) fn of_handshakes() -> Self {
        Self { full_at: Instant::now(), burst: INTERVAL * BURST }
    }

    /// Waits for the turn of the next connection.
    pub(super) async fn wait(&mut self) {
        let now = Instant::now();
        self.full_at = self.full_at.max(now) + INTERVAL;
        if let Some(turn) = self.full_at.checked_sub(self.burst)
            && turn > now
        {
            sleep_until(turn).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_a_flood_is_held_back() {
        let (mut pace, began) = (Pace::of_handshakes(), Instant::now());
        for _ in 0..BURST {
            pace.wait().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..500 {
            pace.wait().await;
        }
        assert_eq!(began.elapsed(), 500 * INTERVAL);
    }
}
