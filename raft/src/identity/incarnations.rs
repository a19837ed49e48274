//! The incarnations of this node's own store, which distinguish it from an older copy.

use serde::{Deserialize, Serialize};

use crate::message::Incarnation;

/// The incarnations of this very store, the current one last. Each is on disk before any peer sees it.
///
/// A copy of the store that is started often enough counts past the incarnation that its peers know. But that
/// incarnation is not in the copy's own list, so the copy stops as soon as a peer names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnIncarnations(Vec<Incarnation>);

impl OwnIncarnations {
    /// Maximum number of incarnations kept: a value of 13 KB. An incarnation before the oldest of them is not judged.
    /// A peer that was away for this many incarnations is more likely than a copy that went through as many without
    /// meeting a peer.
    const KEPT_MAX: usize = 512;

    /// The current incarnation.
    pub(crate) fn current(&self) -> Option<Incarnation> {
        self.0.last().copied()
    }

    /// These incarnations and one after them, numbered `floor` or higher.
    pub(crate) fn with_next(&self, floor: u64, nonce: u128) -> Self {
        let number = self.current().map_or(floor, |last| floor.max(last.number + 1));
        let forgotten = (self.0.len() + 1).saturating_sub(Self::KEPT_MAX);
        let kept = self.0[forgotten..].iter().copied();
        Self(kept.chain([Incarnation { number, nonce }]).collect())
    }

    /// Whether a peer saw an incarnation that this store never had. That incarnation belongs to another copy of the
    /// store that has gone on elsewhere, so this is an older copy.
    pub(crate) fn is_contradicted_by(&self, seen: Incarnation) -> bool {
        match self.0.binary_search_by_key(&seen.number, |own| own.number) {
            Ok(at) => self.0[at].nonce != seen.nonce,
            Err(before) => before > 0 || self.0.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnation(number: u64) -> Incarnation {
        Incarnation { number, nonce: u128::from(number) * 11 }
    }

    fn made(numbers: impl IntoIterator<Item = u64>) -> OwnIncarnations {
        let next =
            |made: OwnIncarnations, number| made.with_next(number, incarnation(number).nonce);
        numbers.into_iter().fold(OwnIncarnations::default(), next)
    }

    #[test]
    fn numbers_rise_whatever_the_directory_counted() {
        let incarnations = made([3, 3, 1, 9]);
        let numbers: Vec<u64> = incarnations.0.iter().map(|own| own.number).collect();
        assert_eq!(numbers, [3, 4, 5, 9]);
    }

    #[test]
    fn own_incarnations_are_believed() {
        let incarnations = made([1, 2, 5]);
        for number in [1, 2, 5] {
            assert!(!incarnations.is_contradicted_by(incarnation(number)));
        }
    }

    #[test]
    fn an_incarnation_that_never_was_shows_an_older_copy() {
        let incarnations = made([1, 2, 5]);
        assert!(incarnations.is_contradicted_by(incarnation(6)), "later than all");
        assert!(
            incarnations.is_contradicted_by(incarnation(3)),
            "a number that was not used to talk to anybody"
        );
        assert!(
            incarnations.is_contradicted_by(Incarnation { nonce: 1, ..incarnation(2) }),
            "the copy has counted past it"
        );
    }

    #[test]
    fn incarnations_before_the_oldest_one_kept_are_not_judged() {
        let incarnations = made(1..=2_000);
        assert_eq!(incarnations.0.len(), OwnIncarnations::KEPT_MAX);
        assert!(!incarnations.is_contradicted_by(Incarnation { nonce: 1, ..incarnation(1_400) }));
        assert!(incarnations.is_contradicted_by(Incarnation { nonce: 1, ..incarnation(1_900) }));
    }
}
