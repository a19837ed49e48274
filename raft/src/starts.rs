//! The starts of a data directory: what tells an older copy of it from the one that went on.

use mintleaf_storage::planted;
use serde::{Deserialize, Serialize};

/// One start of a store: of a process on it, or of a stretch of time within one process. The number
/// counts up on the store's disk; the nonce is drawn at random by each process, so that a copy of the
/// disk that reaches the same number is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) number: u64,
    pub(crate) nonce: u128,
}

impl Start {
    /// Whether one process made both.
    pub(crate) fn is_same_process(self, other: Self) -> bool {
        self.nonce == other.nonce
    }

    /// Whether this cannot come after `seen`: an older copy of the store is running.
    pub(crate) fn is_stale(self, seen: Self) -> bool {
        let stale = !self.is_same_process(seen) && self.number <= seen.number;
        stale && !planted("restored-copy-trusted")
    }
}

/// The starts of this very store, the current one last; on its disk before any peer hears of it.
///
/// A copy that is started often enough counts past the start its peers know. But that start is not
/// among its own: so it stops as soon as a peer says what it has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnStarts(Vec<Start>);

impl OwnStarts {
    /// Starts kept: a value of 13 KB. What a peer saw before the oldest of them is not judged; a peer
    /// that was away for so many starts is likelier than a copy that met nobody in as many.
    const KEPT_MAX: usize = 512;

    /// The current start.
    pub(crate) fn current(&self) -> Option<Start> {
        self.0.last().copied()
    }

    /// These and a start after them; its number is `floor` at least.
    pub(crate) fn with_next(&self, floor: u64, nonce: u128) -> Self {
        let number = self.current().map_or(floor, |last| floor.max(last.number + 1));
        let forgotten = (self.0.len() + 1).saturating_sub(Self::KEPT_MAX);
        let kept = self.0[forgotten..].iter().copied();
        Self(kept.chain([Start { number, nonce }]).collect())
    }

    /// Whether a peer saw a start that this store never made: then the one that did has gone on
    /// elsewhere, and this is an older copy of it.
    pub(crate) fn belie(&self, seen: Start) -> bool {
        if planted("restored-copy-trusted") || planted("copy-that-counted-on-trusted") {
            return false;
        }
        match self.0.binary_search_by_key(&seen.number, |start| start.number) {
            Ok(at) => self.0[at].nonce != seen.nonce,
            Err(before) => before > 0 || self.0.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(number: u64) -> Start {
        Start { number, nonce: u128::from(number) * 11 }
    }

    fn made(numbers: impl IntoIterator<Item = u64>) -> OwnStarts {
        let next = |made: OwnStarts, number| made.with_next(number, start(number).nonce);
        numbers.into_iter().fold(OwnStarts::default(), next)
    }

    #[test]
    fn numbers_rise_whatever_the_directory_counted() {
        let starts = made([3, 3, 1, 9]);
        let numbers: Vec<u64> = starts.0.iter().map(|start| start.number).collect();
        assert_eq!(numbers, [3, 4, 5, 9]);
    }

    #[test]
    fn own_starts_are_believed() {
        let starts = made([1, 2, 5]);
        for number in [1, 2, 5] {
            assert!(!starts.belie(start(number)));
        }
    }

    #[test]
    fn a_start_that_was_never_made_shows_an_older_copy() {
        let starts = made([1, 2, 5]);
        assert!(starts.belie(start(6)), "later than all");
        assert!(starts.belie(start(3)), "a number that was not used to talk to anybody");
        assert!(starts.belie(Start { nonce: 1, ..start(2) }), "the copy has counted past it");
    }

    #[test]
    fn what_was_seen_before_the_oldest_start_kept_is_not_judged() {
        let starts = made(1..=2_000);
        assert_eq!(starts.0.len(), OwnStarts::KEPT_MAX);
        assert!(!starts.belie(Start { nonce: 1, ..start(1_400) }));
        assert!(starts.belie(Start { nonce: 1, ..start(1_900) }));
    }
}
