//! The types that openraft is instantiated with, and the bounds of what is sent and stored.

pub(crate) mod bounds;
mod metrics;
mod raft_types;
mod snapshot_file;

pub(crate) use metrics::{NamesLeader, RaftMetrics, read_metrics};
pub(crate) use raft_types::{
    Batch, Member, Raft, RaftEntry, RaftLogId, RaftMembership, RaftVote, Replies, Types, has_quorum,
};
pub(crate) use snapshot_file::SnapshotFile;
