//! The types with which openraft is instantiated, and the bounds of what travels and is stored.

pub(crate) mod bounds;
mod metrics;
mod raft_types;
mod snapshot_file;

pub(crate) use metrics::{RaftMetrics, read_metrics};
pub(crate) use raft_types::{
    Batch, Member, Raft, RaftEntry, RaftLogId, RaftMembership, RaftVote, Replies, Types, has_quorum,
};
pub(crate) use snapshot_file::SnapshotFile;
