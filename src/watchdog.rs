//! Ends connections that make no progress.
//!
//! A head that trickles in, a client that does not read its answers and a connection that is no longer
//! used each hold a place that other clients need. Every few seconds the watchdog looks whether a
//! connection has made progress; a request costs a few counters and no clock. (Hyper's header timeout
//! counts idle time as well, so that one bound would have to serve for both.)

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How many looks without progress end a connection with a half-sent request or an unread answer.
const STALLED_LOOKS_MAX: u64 = 2;

/// How long a connection between two requests is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long an idle connection is kept, in seconds, rounded up to the next look.
    pub(crate) idle_seconds_max: u64,
    /// Whether a connection that never brought a request counts as idle.
    pub(crate) unused_is_idle: bool,
}

/// How far a connection has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    received: AtomicU64,
    received_at_request: AtomicU64,
    requests: AtomicU64,
    sent: AtomicU64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Look {
    received_at_request: u64,
    requests: u64,
    sent: u64,
}

impl Progress {
    /// Counts bytes that came in.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that the socket took.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes that all input so far belongs to requests that were begun.
    #[inline]
    pub(crate) fn request_begun(&self) {
        self.requests_begun_but(0);
    }

    /// Notes that all input so far, but for the last `unread` bytes, belongs to requests that were begun.
    #[inline]
    pub(crate) fn requests_begun_but(&self, unread: usize) {
        self.requests.fetch_add(1, Relaxed);
        let begun = self.received.load(Relaxed).saturating_sub(unread as u64);
        self.received_at_request.store(begun, Relaxed);
    }

    /// Counts requests that were begun together, `bytes` long.
    #[inline]
    pub(crate) fn requests_begun(&self, bytes: usize) {
        self.requests.fetch_add(1, Relaxed);
        self.received_at_request.fetch_add(bytes as u64, Relaxed);
    }

    fn look(&self) -> Look {
        Look {
            received_at_request: self.received_at_request.load(Relaxed),
            requests: self.requests.load(Relaxed),
            sent: self.sent.load(Relaxed),
        }
    }

    /// Whether the connection is between two requests, and no byte of the next one has come in.
    fn is_idle(&self, look: Look, patience: Patience, unsent: bool) -> bool {
        let used = look.requests > 0 || patience.unused_is_idle;
        let nothing_begun = self.received.load(Relaxed) == look.received_at_request;
        used && nothing_begun && !unsent
    }

    /// Resolves when the connection has made no progress for too long. `unsent` says whether answers wait
    /// for the client to read them.
    pub(crate) async fn stalled(&self, patience: Patience, unsent: impl Fn() -> bool) {
        let mut last = self.look();
        let mut looks = 0;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let now = self.look();
            if now != last {
                (last, looks) = (now, 0);
                continue;
            }
            looks += 1;
            let looks_max = match self.is_idle(now, patience, unsent()) {
                true => patience.idle_seconds_max / LOOK_INTERVAL.as_secs(),
                false => STALLED_LOOKS_MAX,
            };
            if looks >= looks_max {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    async fn seconds_until_stalled(progress: &Progress, unsent: bool) -> u64 {
        let began = Instant::now();
        let patience = Patience { idle_seconds_max: 75, unused_is_idle: false };
        progress.stalled(patience, || unsent).await;
        began.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_no_request_is_stalled() {
        let progress = Progress::default();
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
        progress.received(7);
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_kept_longer() {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        progress.sent(50);
        assert_eq!(seconds_until_stalled(&progress, false).await, 75);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_is_kept_where_it_counts_as_idle() {
        let progress = Progress::default();
        let began = Instant::now();
        let patience = Patience { idle_seconds_max: 30, unused_is_idle: true };
        progress.stalled(patience, || false).await;
        assert_eq!(began.elapsed().as_secs(), 30);
        progress.received(10);
        progress.requests_begun(9);
        progress.stalled(patience, || false).await;
        assert_eq!(began.elapsed().as_secs(), 40, "the tenth byte begins another request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_stalled() {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        assert_eq!(seconds_until_stalled(&progress, true).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_head_may_not_trickle_either() {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        progress.received(1);
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
    }
}
