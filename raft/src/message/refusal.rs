//! Why a node refuses a message, in words for the operator of the refused node.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::header::Incarnation;

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The receiver belongs to another cluster.
    WrongCluster { ours: u128 },
    /// A node other than the intended one listens at this address.
    WrongNode { ours: u64 },
    /// The receiver's data directory is not the one that was admitted as a member.
    WrongStore,
    /// A newer membership no longer contains the sender.
    Removed { members_index: u64 },
    /// A newer membership contains the sender's id with another data directory.
    Replaced { members_index: u64 },
    /// The sender's store was already seen in a later incarnation.
    StaleIncarnation { seen: u64 },
    /// The sender's log is shorter than what it acknowledged to the leader.
    LostLog { acknowledged: u64 },
    /// The receiver is not ready for the request, or failed at it, for the reason given.
    Failed(String),
    /// Another process was seen on the sender's store. The sender is heard once it confirms that this incarnation was
    /// one of its own.
    Restarted { seen: Incarnation },
    /// The receiver's data directory is prepared for a cluster that is still to be bootstrapped.
    Prepared { cluster: u128, coordinator: u64, store: u128 },
}

impl Refusal {
    /// Whether the refused node must stop: its own data cannot be trusted, or it is not a member. This applies only
    /// if a member gives the refusal, in answer to a message with a header.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Removed { .. }
                | Self::Replaced { .. }
                | Self::StaleIncarnation { .. }
                | Self::LostLog { .. }
        )
    }

    /// Whether the refused node's data directory can never be trusted again.
    pub(crate) fn is_about_data(&self) -> bool {
        matches!(self, Self::StaleIncarnation { .. } | Self::LostLog { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REJOIN: &str = "remove the node from the cluster with `mintleaf cluster remove`, wipe this \
            directory, and join it again with --join";
        match self {
            Self::WrongCluster { ours } => {
                write!(f, "it belongs to another cluster ({ours:032x}); check --peers and --join")
            }
            Self::WrongNode { ours } => {
                write!(f, "node {ours} listens at this address; check --peers and --raft")
            }
            Self::WrongStore => write!(
                f,
                "its data directory is not the one that joined the cluster; check --data there; if \
                 that one is lost, remove the node from the cluster, and join it again"
            ),
            Self::Removed { .. } => write!(
                f,
                "this node was removed from the cluster; to bring it back, wipe its data \
                 directory and start it with --join"
            ),
            Self::Replaced { .. } => f.write_str(KNOWN_OTHERWISE),
            Self::StaleIncarnation { seen } => write!(
                f,
                "this data directory was restored from an old copy, or a copy of it is in use as well \
                 (it was seen at start {seen}); look for another process of this node first, which \
                 a removal would end; if there is none, {REJOIN}"
            ),
            Self::LostLog { acknowledged } => write!(
                f,
                "this data directory has lost log entries it acknowledged (up to {acknowledged}); \
                 {REJOIN}"
            ),
            Self::Failed(why) => f.write_str(why),
            Self::Restarted { seen } => {
                write!(f, "its data directory was last seen at start {}", seen.number)
            }
            Self::Prepared { cluster, coordinator, store } => write!(
                f,
                "it is bound to cluster {cluster:032x}, which node {coordinator} (store \
                 {store:032x}) has not finished forming. It holds no entry and no vote: if that \
                 node's data directory is lost for good, its own may be deleted"
            ),
        }
    }
}

/// What to do if an id and a data directory do not belong together. Either of them may be the mistake, so the text
/// never advises deleting anything.
pub(crate) const KNOWN_OTHERWISE: &str = "the cluster knows this node id with another data directory; \
    check --node-id and --data; if that directory is lost, remove the node from the cluster with `mintleaf \
    cluster remove`, and join it again with a new one and --join";
