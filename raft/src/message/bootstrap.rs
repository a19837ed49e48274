//! Messages between nodes that are not members of one cluster yet.

use serde::{Deserialize, Serialize};

use super::header::Origin;
use super::refusal::Refusal;
use crate::state_machine::Release;

/// The durable record of a founder that is prepared in the two-phase commit of bootstrap: its store takes part in no
/// other cluster. The record ends only when the coordinator's store has aborted the cluster id. Texts for operators
/// say that the node is bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Prepared {
    pub(crate) cluster: u128,
    /// Node id of the coordinator.
    pub(crate) coordinator: u64,
    /// The coordinator's data directory, which alone may abort the cluster id.
    pub(crate) store: u128,
    /// The list that all founders were started with.
    pub(crate) founders: String,
}

impl Prepared {
    /// How a prepared store refuses everything else.
    pub(crate) fn refusal(&self) -> Refusal {
        let Self { cluster, coordinator, store, .. } = *self;
        Refusal::Prepared { cluster, coordinator, store }
    }
}

/// The coordinator's request that a founder prepare its store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) prepared: Prepared,
    /// The number from the founder's last handshake. A request that arrives after the cluster id was aborted quotes
    /// one that is no longer valid.
    pub(crate) ticket: u128,
}

/// How a node introduces itself before it is heard as a member.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Handshake {
    pub(crate) from: Origin,
    /// The cluster that the asker belongs to, or is about to enter.
    pub(crate) cluster: Option<u128>,
    pub(crate) purpose: Purpose,
}

/// Why a node sends a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// The node is new, and its `--peers` names these founders of a new cluster, in order.
    Found { founders: String },
    /// The node is new and looks for the cluster that it is to join, or was asked to add another node.
    Join,
    /// The node is a member and asks whether the receiver has this node and store as a member.
    Vouch { node_id: u64, store: u128 },
}

/// The answer to a [`Handshake`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HandshakeReply {
    pub(crate) raft: String,
    pub(crate) http: String,
    /// `None` while the node belongs to no cluster.
    pub(crate) cluster: Option<u128>,
    /// What the node's store is prepared for, while that cluster does not exist yet.
    pub(crate) prepared: Option<Prepared>,
    /// The ticket that a [`Prepare`] to this node has to quote.
    pub(crate) ticket: u128,
    /// What the node's membership holds about the asker's id, or about the node that it asks about.
    pub(crate) asker: AskerKnown,
    /// What the node's build supports.
    pub(crate) release: Release,
}

/// How a membership relates to the id and the data directory that the asker names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AskerKnown {
    /// No member has the id.
    No,
    /// The member with that id has this very directory.
    AsSuch,
    /// The member with that id has another directory, which the answer does not reveal.
    Otherwise,
}
