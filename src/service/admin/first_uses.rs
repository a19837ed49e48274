//! The rate limit on the tags that a node creates on first use.
//!
//! Pure. Any client that may ask for an id may make up a name, and each new name costs every member memory for ever.
//! The limit does not look at the name itself, so nothing is kept for a name that is refused.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits::{FIRST_USES_BURST, FIRST_USES_PER_SECOND_MAX};

/// How long it takes until one more creation becomes possible.
const FIRST_USE_MS: u64 = 1_000 / FIRST_USES_PER_SECOND_MAX;
const _: () = assert!(FIRST_USE_MS * FIRST_USES_PER_SECOND_MAX == 1_000);

/// A bucket of [`FIRST_USES_BURST`] creations, which fills at [`FIRST_USES_PER_SECOND_MAX`].
#[derive(Debug, Default)]
pub(in crate::service) struct FirstUses {
    /// When the burst would be whole again, in milliseconds of the clock that never falls.
    whole_at_ms: AtomicU64,
}

impl FirstUses {
    /// Whether one more is possible now; if so, it is counted.
    pub(in crate::service) fn admit(&self, now_ms: u64) -> bool {
        let admitted = |whole_at_ms: u64| {
            let whole_at_ms = whole_at_ms.max(now_ms) + FIRST_USE_MS;
            (whole_at_ms - now_ms <= FIRST_USES_BURST * FIRST_USE_MS).then_some(whole_at_ms)
        };
        self.whole_at_ms.fetch_update(Relaxed, Relaxed, admitted).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(uses: &FirstUses, now_ms: u64) -> u64 {
        (0..2 * FIRST_USES_BURST).map(|_| u64::from(uses.admit(now_ms))).sum()
    }

    #[test]
    fn a_burst_is_admitted_at_once_and_then_so_many_a_second() {
        let uses = FirstUses::default();
        assert_eq!(admitted(&uses, 0), FIRST_USES_BURST);
        assert_eq!(admitted(&uses, 0), 0);
        let second_by_second = (1..=5).map(|second| admitted(&uses, second * 1_000));
        assert!(second_by_second.into_iter().all(|uses| uses == FIRST_USES_PER_SECOND_MAX));
    }

    #[test]
    fn a_rest_makes_the_burst_whole_and_no_larger() {
        let uses = FirstUses::default();
        assert_eq!(admitted(&uses, 77), FIRST_USES_BURST);
        assert_eq!(admitted(&uses, 3_600_000), FIRST_USES_BURST);
        assert_eq!(admitted(&uses, 3_600_001), 1_000 / FIRST_USES_PER_SECOND_MAX);
    }
}
