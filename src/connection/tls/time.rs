//! The time that TLS uses to judge certificates and to renew the keys of its tickets.
//!
//! rustls reads the machine's clock by itself unless it is given the time, and panics when that shows a time before
//! 1970. The clock of a machine may be set to anything while its node runs, and that must not end the node. So
//! certificates are judged by [`Clock`], which never shows a time before 1970. Tickets, whose keys rustls renews by its
//! own reading, are suspended for as long as the clock shows such a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;

use crate::machine::clock::Clock;

/// Certificates are judged by this clock.
#[derive(Debug)]
pub(super) struct JudgedBy<C>(pub(super) C);

impl<C: Clock + fmt::Debug> TimeProvider for JudgedBy<C> {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.0.now_ms())))
    }
}

/// Tickets that clients resume their sessions with, but not while the clock shows 1970, or a time before it.
#[derive(Debug)]
pub(super) struct Tickets<C> {
    clock: C,
    keys: Arc<dyn ProducesTickets>,
}

impl<C: Clock> Tickets<C> {
    /// Tickets with new keys; `None` while the clock shows 1970.
    ///
    /// # Errors
    /// When there are no random numbers.
    pub(super) fn new(clock: C) -> Result<Option<Self>, rustls::Error> {
        if !is_right(&clock) {
            return Ok(None);
        }
        Ok(Some(Self { clock, keys: Ticketer::new()? }))
    }
}

impl<C: Clock + fmt::Debug> ProducesTickets for Tickets<C> {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.keys.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        is_right(&self.clock).then(|| self.keys.encrypt(plain))?
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        is_right(&self.clock).then(|| self.keys.decrypt(cipher))?
    }
}

/// Whether rustls may read the machine's clock.
fn is_right(clock: &impl Clock) -> bool {
    clock.now_ms() > 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct SetClock(Arc<AtomicU64>);

    impl Clock for SetClock {
        fn now_ms(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn monotonic_ms(&self) -> u64 {
            0
        }
    }

    #[test]
    fn tickets_rest_while_the_clock_shows_no_time_and_hold_again_afterwards() {
        let clock = SetClock::default();
        assert!(Tickets::new(clock.clone()).unwrap().is_none());
        clock.0.store(1_800_000_000_000, Relaxed);
        let tickets = Tickets::new(clock.clone()).unwrap().unwrap();
        let ticket = tickets.encrypt(b"session").unwrap();
        clock.0.store(0, Relaxed);
        assert_eq!((tickets.encrypt(b"session"), tickets.decrypt(&ticket)), (None, None));
        assert_eq!(JudgedBy(clock.clone()).current_time().unwrap().as_secs(), 0);
        clock.0.store(1_800_000_000_000, Relaxed);
        assert_eq!(tickets.decrypt(&ticket).unwrap(), b"session");
    }
}
