//! Requests and answers, and the frames that carry them.

use mintleaf_codec::Blob;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use super::append;
use super::asked::{self, Unasked};
use super::bootstrap::{Handshake, HandshakeReply, Prepare};
use super::header::{Header, Incarnation, Origin};
use super::membership::{Change, MembershipError};
use super::proposal::ForwardError;
use super::refusal::Refusal;
use crate::state_machine::Release;
use crate::types::{RaftLogId, RaftVote, Types, bounds};

/// A request in transit. Only a [`Request::Handshake`] has no `header`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) header: Option<Header>,
    pub(crate) request: Request,
}

/// An answer in transit, and the node that gave it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) from: Origin,
    /// The answering node's clock, in Unix milliseconds.
    pub(crate) clock_ms: u64,
    pub(crate) result: Result<Response, Refusal>,
}

/// What one node asks of another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Append(#[serde(deserialize_with = "append::append")] AppendEntriesRequest<Types>),
    /// Vote for the sender. `transferred_by` is the leader's vote, if the leader asked the candidate to take over.
    Vote {
        rpc: VoteRequest<u64>,
        transferred_by: Option<RaftVote>,
    },
    /// Report whether you would vote for a candidate whose log ends here. The answer is not a commitment.
    PreVote {
        last: Option<RaftLogId>,
    },
    Snapshot(InstallSnapshotRequest<Types>),
    /// Propose commands on the sender's behalf, within this many milliseconds.
    Propose {
        #[serde(deserialize_with = "bounds::commands")]
        commands: Vec<Vec<u8>>,
        within_ms: u64,
    },
    /// Confirm your leadership, and return the index that a linearizable read must wait for.
    ReadIndex,
    /// Introduce yourself. Nodes send this before they are members of one cluster.
    Handshake(Handshake),
    /// Change the membership, the leader or the level.
    Change(Change),
    /// Stand for election now (Raft thesis, 3.10). `from` is the vote of the leader that asks.
    TimeoutNow {
        from: RaftVote,
    },
    /// Notice that the membership at this log index removed you.
    Removed {
        members_index: u64,
    },
    /// Accept that the sender's store had the incarnation that you have seen of it, so that its present
    /// one comes after it.
    ConfirmIncarnation {
        seen: Incarnation,
    },
    /// Prepare your store for the cluster that the sender coordinates: phase one of bootstrap.
    Prepare(Prepare),
    /// Forget this cluster id, which the sender has aborted for good.
    Abort {
        cluster: u128,
    },
    /// Give a sign of life.
    Ping,
    /// Take back the sender, which was restarted with this vote and a log up to this index.
    Return {
        vote: RaftVote,
        last_log_index: Option<u64>,
    },
    /// Report what your build supports.
    Supports,
    /// Report what your build supports, and which zone you are in.
    Describe,
    /// Answer a request of the sender's user as the leader, within this many milliseconds.
    Ask {
        #[serde(deserialize_with = "asked::request")]
        request: Blob,
        within_ms: u64,
    },
    /// Change the membership without first asking whether enough voters answer. A member of an older build does not
    /// know this request, and as the leader never asks first.
    ForceChange(Change),
    /// Report your condition, from memory. In it, a leader announces that it leads.
    Heartbeat {
        lead: Option<Lead>,
    },
}

impl Request {
    /// Whether the answer waits for no disk and no other node, so that it takes one round trip.
    pub(crate) fn is_answered_from_memory(&self) -> bool {
        matches!(
            self,
            Self::Heartbeat { .. }
                | Self::PreVote { .. }
                | Self::Ping
                | Self::Supports
                | Self::Describe
        )
    }
}

/// What a leader announces in a heartbeat: the same as in an empty replication message. A heartbeat is answered
/// before it is carried out, so that silence means that a node is gone and not that a disk is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// The vote that a quorum gave the leader.
    pub(crate) vote: RaftVote,
    /// The last entry that the receiver has acknowledged.
    pub(crate) matched: Option<RaftLogId>,
    /// The last entry that is committed.
    pub(crate) committed: Option<RaftLogId>,
    /// How long the receiver should wait for this leader before it campaigns, based on the round trips that the
    /// leader measures.
    pub(crate) patience_ms: u64,
}

/// The condition of a node, as it reports it in answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// The latest vote that it knows.
    pub(crate) vote: RaftVote,
    /// Whether it is carrying out what a leader sent: entries, or a part of a snapshot.
    pub(crate) writing: bool,
    /// How long a recent sync took; `None` before the first.
    pub(crate) sync_us: Option<u64>,
    /// If this node led, few commits would take longer than this: its own sync, plus the round trip and the sync of
    /// the slowest member that a quorum needs. `None` while it does not know that, and for a while after it gave
    /// leadership away; [`DECLINES`](Self::DECLINES) while it is about to stop.
    pub(crate) commit_us: Option<u64>,
}

impl Condition {
    /// The `commit_us` of a node that is about to stop: longer than any commit, so that no leader hands over to it because
    /// it would lead better.
    pub(crate) const DECLINES: u64 = u64::MAX;
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Append(AppendEntriesResponse<u64>),
    Vote(VoteResponse<u64>),
    PreVote {
        granted: bool,
    },
    Snapshot(InstallSnapshotResponse<u64>),
    Proposed(Result<Vec<Vec<u8>>, ForwardError>),
    /// `None` if the node does not lead, or has no quorum behind it.
    ReadIndex(Option<u64>),
    Handshake(HandshakeReply),
    Changed(Result<(), MembershipError>),
    Done,
    Supports(Release),
    Described(Description),
    Asked(Result<Blob, Unasked>),
    Heartbeat(Condition),
}

/// How a node describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) release: Release,
    /// Empty if the node was started without a zone.
    pub(crate) zone: String,
}
