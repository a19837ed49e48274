//! Requests and answers, and the frames that carry them.

use mintleaf_storage::codec::Blob;
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
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) release: Release,
    /// Empty where it was started without one.
    pub(crate) zone: String,
}
