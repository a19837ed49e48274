//! The sender and the receiver of a message.

use serde::{Deserialize, Serialize};

/// One incarnation of a store: a numbered, nonce-marked life of its data directory. Every start begins one, and a
/// process begins another every minute (`Tuning::incarnation_max`). The number counts up on the store's disk. Each
/// process draws the nonce at random, so a copy of the disk that reaches the same number can be distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Incarnation {
    pub(crate) number: u64,
    pub(crate) nonce: u128,
}

impl Incarnation {
    /// Whether both incarnations belong to one process.
    pub(crate) fn is_same_process(self, other: Self) -> bool {
        self.nonce == other.nonce
    }

    /// Whether this incarnation cannot come after `seen`: an older copy of the store is running.
    pub(crate) fn is_stale(self, seen: Self) -> bool {
        !self.is_same_process(seen) && self.number <= seen.number
    }
}

/// The sender of a message, as it describes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) node_id: u64,
    pub(crate) store: u128,
    /// The current incarnation of the store.
    pub(crate) incarnation: Incarnation,
    /// Log index of the membership that the sender knows, if that names this store.
    pub(crate) members_index: Option<u64>,
}

/// The receiver of a message, as the sender's membership describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Destination {
    pub(crate) node_id: u64,
    pub(crate) store: u128,
    /// The latest incarnation of that store that the sender has seen.
    pub(crate) incarnation_seen: Option<Incarnation>,
}

impl Destination {
    /// Whether an answer comes from the node and the store that the message was for.
    pub(crate) fn is(&self, from: &Origin) -> bool {
        (from.node_id, from.store) == (self.node_id, self.store)
    }
}

/// The header of every message except the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) cluster: u128,
    pub(crate) from: Origin,
    pub(crate) to: Destination,
    /// The sender's clock, in Unix milliseconds.
    pub(crate) clock_ms: u64,
    /// The median of the voters' clocks, from the leader only.
    pub(crate) median_ms: Option<u64>,
}
