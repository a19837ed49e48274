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

/// A request on its way; `header` is absent only from a [`Request::Handshake`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) header: Option<Header>,
    pub(crate) request: Request,
}

/// An answer on its way, and the node that gave it.
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
    /// Vote for the sender. `transferred_by` is the leader's vote, if the leader asked the candidate to
    /// take over.
    Vote {
        rpc: VoteRequest<u64>,
        transferred_by: Option<RaftVote>,
    },
    /// Say whether you would vote for a candidate whose log ends here. The answer binds nobody.
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
    /// Confirm leadership, and answer the index for which a linearizable read must wait.
    ReadIndex,
    /// Say who you are. Nodes ask this before they are members of one cluster.
    Handshake(Handshake),
    /// Change the membership, the leader or the level.
    Change(Change),
    /// Stand for election now (Raft thesis, 3.10). `from` is the vote of the leader that asks.
    TimeoutNow {
        from: RaftVote,
    },
    /// Learn that the membership at this log index removed you.
    Removed {
        members_index: u64,
    },
    /// Accept that the incarnation that you have seen of the sender's store was one of its own, so that
    /// its present one comes after it.
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
    /// Take the sender back, which was restarted with a log up to this index and with this vote.
    Return {
        vote: RaftVote,
        last_log_index: Option<u64>,
    },
    /// Say what your build supports.
    Supports,
    /// Say what your build supports, and in which zone you are.
    Describe,
    /// Answer a request of the sender's user as the leader, within this many milliseconds.
    Ask {
        #[serde(deserialize_with = "asked::request")]
        request: Blob,
        within_ms: u64,
    },
    /// Change the membership without asking first whether enough voters answer. A member of an older build does
    /// not know this request, and never asks first as the leader.
    ForceChange(Change),
    /// Say how you are, from memory. A leader says with it that it leads.
    Heartbeat {
        lead: Option<Lead>,
    },
}

impl Request {
    /// Whether the answer waits for no disk and for no other node, so that its time is that of a round trip.
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

/// What a leader says in a heartbeat. It is what an empty replication message says, and is answered before it is carried
/// out: silence shall mean that a node is gone, and not that a disk is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// The vote by which a quorum elected the leader.
    pub(crate) vote: RaftVote,
    /// The last entry that the receiver has acknowledged.
    pub(crate) matched: Option<RaftLogId>,
    /// The last entry that is committed.
    pub(crate) committed: Option<RaftLogId>,
    /// How long the receiver shall miss this leader before it campaigns, by the round trips that the leader measures.
    pub(crate) patience_ms: u64,
}

/// How a node is, as it says in answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// The latest vote that it knows.
    pub(crate) vote: RaftVote,
    /// Whether it is carrying out what a leader sent: entries, or a part of a snapshot.
    pub(crate) writing: bool,
    /// What a sync takes lately; `None` before the first.
    pub(crate) sync_us: Option<u64>,
    /// What few commits would exceed if it led: its own sync, and the round trip and the sync of the slowest member that
    /// a quorum needs. `None` while it does not know that, and while it wants no lead that it gave away lately.
    pub(crate) commit_us: Option<u64>,
}

/// What a node answers.
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

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) release: Release,
    /// Empty where it was started without one.
    pub(crate) zone: String,
}
