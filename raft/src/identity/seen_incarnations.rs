//! The latest incarnation that this node has seen of each peer's store.

use std::collections::BTreeMap;

use crate::message::{Incarnation, Origin};

/// Number of stores kept besides those of members. Few stores belong to a membership that this node does not know
/// yet, and a store that left the membership is refused for that reason.
const STRANGERS_MAX: usize = 64;

/// The latest incarnation of a store.
#[derive(Debug, Clone, Copy)]
struct Seen {
    latest: Incarnation,
    /// The incarnation that is certainly on disk.
    on_disk: Option<Incarnation>,
}

/// The latest incarnation seen of each peer's store. It is on disk before the peer is answered.
#[derive(Debug, Default)]
pub(super) struct SeenIncarnations(BTreeMap<u128, Seen>);

impl SeenIncarnations {
    /// The incarnations that were read from disk.
    pub(super) fn on_disk(read: BTreeMap<u128, Incarnation>) -> Self {
        let seen = |latest| Seen { latest, on_disk: Some(latest) };
        Self(read.into_iter().map(|(store, latest)| (store, seen(latest))).collect())
    }

    pub(super) fn latest(&self, store: u128) -> Option<Incarnation> {
        self.0.get(&store).map(|seen| seen.latest)
    }

    /// Whether the sender's incarnation, or a later one of the same process, is on disk. Every message asks this, so
    /// the check reads no disk.
    pub(super) fn is_on_disk(&self, from: &Origin) -> bool {
        self.0.get(&from.store).and_then(|seen| seen.on_disk).is_some_and(|on_disk| {
            from.incarnation.is_same_process(on_disk) && from.incarnation.number <= on_disk.number
        })
    }

    /// Records the sender's incarnation, unless a later one of the same process is known. Keeps few stores besides
    /// those of members.
    pub(super) fn record(&mut self, from: &Origin, is_member: impl Fn(u128) -> bool) {
        let newest = Seen { latest: from.incarnation, on_disk: None };
        let seen = self.0.entry(from.store).or_insert(newest);
        let is_later = seen.latest.number < from.incarnation.number;
        if is_later || !from.incarnation.is_same_process(seen.latest) {
            seen.latest = from.incarnation;
        }
        if self.0.len() > STRANGERS_MAX {
            self.0.retain(|&store, _| store == from.store || is_member(store));
        }
    }

    /// Records that the sender's incarnation is on disk.
    pub(super) fn written(&mut self, from: &Origin) {
        if !self.is_on_disk(from)
            && let Some(seen) = self.0.get_mut(&from.store)
        {
            seen.on_disk = Some(from.incarnation);
        }
    }

    /// The list to write to disk.
    pub(super) fn to_write(&self) -> BTreeMap<u128, Incarnation> {
        self.0.iter().map(|(&store, seen)| (store, seen.latest)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(store: u128, number: u64, nonce: u128) -> Origin {
        let incarnation = Incarnation { number, nonce };
        Origin { node_id: 2, store, incarnation, members_index: None }
    }

    #[test]
    fn strangers_take_a_bounded_place_and_displace_no_member() {
        let mut seen = SeenIncarnations::default();
        let is_member = |store| store <= 70;
        for store in 1..=10_000 {
            seen.record(&from(store, 1, store), is_member);
            assert!(seen.to_write().len() <= 70 + STRANGERS_MAX);
        }
        assert!((1..=70).all(|store| seen.latest(store).is_some()));
    }

    #[test]
    fn an_incarnation_counts_as_written_once_it_is() {
        let mut seen = SeenIncarnations::default();
        seen.record(&from(20, 5, 55), |_| true);
        assert!(!seen.is_on_disk(&from(20, 5, 55)));
        seen.record(&from(20, 6, 55), |_| true);
        seen.written(&from(20, 6, 55));
        // The earlier write ends later.
        seen.written(&from(20, 5, 55));
        assert!(seen.is_on_disk(&from(20, 6, 55)) && seen.is_on_disk(&from(20, 5, 55)));
        seen.record(&from(20, 5, 55), |_| true);
        assert_eq!(seen.latest(20), Some(Incarnation { number: 6, nonce: 55 }));
        assert!(!seen.is_on_disk(&from(20, 7, 77)), "another process");
    }
}
