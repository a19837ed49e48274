//! The tokens that hold now.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::auth_file::AuthFile;

/// The time between two log lines about failed attempts.
const LOG_INTERVAL_MS: u64 = 10_000;

/// The tokens of a node, which change with its auth file while connections go on.
#[derive(Debug)]
pub struct Tokens {
    current: RwLock<Arc<AuthFile>>,
    /// Rises after every change of the tokens. A connection that remembers what a token allows remembers it with this
    /// number, read before, and asks again once the number has changed.
    generation: AtomicU64,
    /// Failed attempts that the log has not reported yet.
    untold: AtomicU64,
    /// When the log last reported some, on the caller's clock.
    told_at_ms: AtomicU64,
}

impl Tokens {
    /// The tokens of a file.
    pub fn new(file: AuthFile) -> Self {
        Self {
            current: RwLock::new(Arc::new(file)),
            generation: AtomicU64::new(1),
            untold: AtomicU64::new(0),
            told_at_ms: AtomicU64::new(0),
        }
    }

    /// Replaces all of them. Once it has returned, no request is judged by the earlier ones.
    pub fn replace(&self, file: AuthFile) {
        *self.current.write() = Arc::new(file);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// What distinguishes the auth file in force from another, for people.
    pub(crate) fn fingerprint(&self) -> String {
        self.current.read().fingerprint().to_owned()
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The tokens of this moment.
    pub(super) fn current(&self) -> Arc<AuthFile> {
        Arc::clone(&self.current.read())
    }

    /// Notes an attempt with a token that does not hold, and reports such attempts in the log now and then, with the
    /// origin of the last.
    #[cold]
    pub(crate) fn attempt_failed(&self, from: impl fmt::Display, now_ms: u64) {
        let untold = self.untold.fetch_add(1, Ordering::Relaxed) + 1;
        let told_at_ms = self.told_at_ms.load(Ordering::Relaxed);
        let is_due = told_at_ms == 0 || now_ms.saturating_sub(told_at_ms) >= LOG_INTERVAL_MS;
        let order = Ordering::Relaxed;
        let mine = || self.told_at_ms.compare_exchange(told_at_ms, now_ms, order, order).is_ok();
        if is_due && mine() {
            self.untold.fetch_sub(untold, Ordering::Relaxed);
            tracing::warn!(
                attempts = untold,
                last_from = %from,
                "clients have shown tokens that do not hold"
            );
        }
    }
}
