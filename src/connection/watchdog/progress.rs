//! How far a connection has come: counters that the connection moves, and that its watchdog and the
//! acceptor read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

/// How far a connection has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    received: AtomicU64,
    received_at_request: AtomicU64,
    requests: AtomicU64,
    /// How many requests were counted whose sender has no right to anything.
    of_strangers: AtomicU64,
    sent: AtomicU64,
    /// What had come in at the last look of the watchdog.
    received_at_look: AtomicU64,
    /// How many consecutive looks have found the connection idle.
    idle_looks: AtomicU64,
    /// Whether the node asks for tokens, and none that holds has been shown.
    unproven: AtomicBool,
    /// Wakes the connection when its place is needed.
    asked_to_leave: Notify,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sample {
    pub(super) received_at_request: u64,
    pub(super) requests: u64,
    pub(super) of_strangers: u64,
    pub(super) sent: u64,
}

impl Sample {
    /// Whether all requests so far came from strangers.
    pub(super) fn is_unused(self) -> bool {
        self.requests <= self.of_strangers
    }
}

impl Progress {
    /// That of a connection to a node that asks for tokens.
    pub(crate) fn unproven() -> Self {
        Self { unproven: AtomicBool::new(true), ..Self::default() }
    }

    /// Notes that a token was shown that holds.
    #[inline]
    pub(crate) fn prove(&self) {
        if self.is_unproven() {
            self.unproven.store(false, Relaxed);
        }
    }

    /// Whether the node asks for tokens, and none that holds has been shown.
    #[inline]
    pub(crate) fn is_unproven(&self) -> bool {
        self.unproven.load(Relaxed)
    }

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

    /// Notes that all input so far, except the last `unread` bytes, belongs to requests that were begun.
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

    /// Notes that the sender of what was counted last has shown nothing that gives it a right to anything.
    pub(crate) fn request_of_stranger(&self) {
        self.of_strangers.fetch_add(1, Relaxed);
    }

    /// How many bytes have come in.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// How many consecutive looks have found the connection idle, as of the last one; 0 when something has come in
    /// since.
    pub(crate) fn idle_looks(&self) -> u64 {
        if self.is_untouched() { self.idle_looks.load(Relaxed) } else { 0 }
    }

    /// Asks the connection to end. It does so unless something has come in since the last look; if it is unproven by
    /// then, it ends in any case.
    pub(crate) fn ask_to_leave(&self) {
        self.asked_to_leave.notify_one();
    }

    /// Whether nothing has come in since the last look.
    pub(super) fn is_untouched(&self) -> bool {
        self.received.load(Relaxed) == self.received_at_look.load(Relaxed)
    }

    /// Resolves each time when the connection is asked to leave.
    pub(super) async fn asked_to_leave(&self) {
        self.asked_to_leave.notified().await;
    }

    pub(super) fn look(&self) -> Sample {
        Sample {
            received_at_request: self.received_at_request.load(Relaxed),
            requests: self.requests.load(Relaxed),
            of_strangers: self.of_strangers.load(Relaxed),
            sent: self.sent.load(Relaxed),
        }
    }

    /// Notes, for the acceptor, what the watchdog has seen: for how many looks the connection has been idle.
    pub(crate) fn note_look(&self, idle_looks: u64) {
        self.received_at_look.store(self.received.load(Relaxed), Relaxed);
        self.idle_looks.store(idle_looks, Relaxed);
    }
}
