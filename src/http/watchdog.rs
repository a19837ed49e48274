//! Ends connections that get nowhere.
//!
//! A head that trickles in, a client that does not read its answers and a connection that nobody
//! uses any more each hold a place that others need. Every few seconds the watchdog looks whether
//! a connection has come on; requests themselves pay for a few counters, no clock. (Hyper's header
//! timeout counts idle time as well, so that one bound would have to serve for both.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hyper::service::Service;

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Looks without progress until a half-sent request or an unread answer ends its connection.
const STALLED_LOOKS_MAX: u32 = 2;
/// The same for a kept-alive connection between requests: longer than load balancers keep theirs,
/// so that they close first.
const IDLE_LOOKS_MAX: u32 = 15;

/// How far a connection has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
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
    pub(super) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that the socket took.
    #[inline]
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    fn request_begun(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.received_at_request.store(self.received.load(Relaxed), Relaxed);
    }

    fn look(&self) -> Look {
        Look {
            received_at_request: self.received_at_request.load(Relaxed),
            requests: self.requests.load(Relaxed),
            sent: self.sent.load(Relaxed),
        }
    }

    /// Whether the connection is between two requests, with nothing of the next one here.
    fn is_idle(&self, look: Look, unsent: bool) -> bool {
        let nothing_begun = self.received.load(Relaxed) == look.received_at_request;
        look.requests > 0 && nothing_begun && !unsent
    }

    /// Resolves when the connection has got nowhere for too long. `unsent` tells whether answers
    /// wait for the client to read.
    pub(super) async fn stalled(&self, unsent: impl Fn() -> bool) {
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
            let idle = self.is_idle(now, unsent());
            let looks_max = if idle { IDLE_LOOKS_MAX } else { STALLED_LOOKS_MAX };
            if looks >= looks_max {
                return;
            }
        }
    }
}

/// A service that counts the requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct Watched<S> {
    pub(super) inner: S,
    pub(super) progress: Arc<Progress>,
}

impl<S: Service<R>, R> Service<R> for Watched<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn call(&self, request: R) -> S::Future {
        self.progress.request_begun();
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    async fn seconds_until_stalled(progress: &Progress, unsent: bool) -> u64 {
        let began = Instant::now();
        progress.stalled(|| unsent).await;
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
