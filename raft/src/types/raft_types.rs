//! openraft's type parameters, the body of a log entry, and a member as the membership describes it.

use std::collections::BTreeSet;
use std::fmt;

use openraft::{Entry, LogId, StoredMembership, Vote};
use serde::{Deserialize, Serialize};

use super::bounds;
use super::snapshot_file::SnapshotFile;
use crate::runtime::Runtime;

openraft::declare_raft_types!(
    /// openraft, as this crate uses it.
    pub(crate) Types:
        D = Batch,
        R = Replies,
        NodeId = u64,
        Node = Member,
        SnapshotData = SnapshotFile,
        AsyncRuntime = Runtime,
);

pub(crate) type Raft = openraft::Raft<Types>;
pub(crate) type RaftEntry = Entry<Types>;
pub(crate) type RaftLogId = LogId<u64>;
pub(crate) type RaftMembership = StoredMembership<u64, Member>;
pub(crate) type RaftVote = Vote<u64>;

/// The body of one log entry: the commands that the batcher gathered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// The median of the voters' clocks when the leader proposed the entry, in Unix milliseconds.
    pub(crate) now_ms: u64,
    /// Opaque commands, applied in order.
    #[serde(deserialize_with = "bounds::commands")]
    pub(crate) commands: Vec<Vec<u8>>,
}

/// The replies of applying a [`Batch`], one per command; empty for Raft's own entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replies(pub(crate) Vec<Vec<u8>>);

/// A member as the replicated membership describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The address of its internal listener for other members, `host:port`.
    pub(crate) raft: String,
    /// The address for clients, `host:port`.
    pub(crate) http: String,
    /// Identity of the data directory that was admitted under this node id. Votes and acknowledgements of every other
    /// directory are void.
    pub(crate) store: u128,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} store {:032x}", self.raft, self.store)
    }
}

/// Whether these nodes are a majority of the voters, of each half of a joint configuration.
pub(crate) fn has_quorum(members: &RaftMembership, of: &BTreeSet<u64>) -> bool {
    let configs = members.membership().get_joint_config();
    configs.iter().all(|voters| 2 * voters.intersection(of).count() > voters.len())
}
