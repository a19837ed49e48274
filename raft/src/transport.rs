//! Messages between nodes: bincode frames over TCP, on a listener of their own.
//!
//! A connection begins with the protocol version and the cluster secret, which are judged before
//! anything else is read; frames are length-capped, checksummed, and decoded from a slice with a limit.

mod channel;
mod client;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(feature = "simulation")]
pub(crate) mod glance;
mod server;
#[cfg(test)]
mod strangers;
mod tcp;
#[cfg(test)]
mod tests;
mod wire;

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

pub(crate) use client::{CallError, Client, NetworkFactory};
pub(crate) use server::{Inbox, Listener};
pub(crate) use tcp::TcpWire;
pub(crate) use wire::InboxDoor;
pub use wire::{Door, Pending, Wire, WireError};

use crate::bond::Offer;
use crate::form::{Hello, Introduction};
use crate::guard::{Header, Identity, Refusal};
use crate::level::Release;
use crate::members::{Change, MemberError};
use crate::proposal::{self, Refused};
use crate::starts::Start;
use crate::types::{RaftLogId, RaftVote, Types};

/// Version of the frames below; a peer that speaks another one is refused with a clear message.
pub(crate) const PROTOCOL: u8 = 2;
/// Largest frame: a snapshot chunk is 1 MiB, a replication message far less. What a frame becomes in
/// memory is a multiple of it, whoever sent it.
const FRAME_BYTES_MAX: usize = 2 << 20;

/// A request on its way; `header` is absent only from a [`Request::Hello`].
#[derive(Debug, Serialize, Deserialize)]
struct Frame {
    header: Option<Header>,
    request: Request,
}

/// An answer, with who gave it.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    from: Identity,
    /// What the answering node's clock shows.
    clock_ms: u64,
    result: Result<Response, Refusal>,
}

/// What one node asks of another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Append(#[serde(deserialize_with = "proposal::append")] AppendEntriesRequest<Types>),
    /// Vote for me. `handed_over_by` is the leader's vote, where it asked the candidate to take over.
    Vote {
        rpc: VoteRequest<u64>,
        handed_over_by: Option<RaftVote>,
    },
    /// Would you vote for a candidate whose log ends here? Binds nobody.
    PreVote {
        last: Option<RaftLogId>,
    },
    Snapshot(InstallSnapshotRequest<Types>),
    /// Propose commands on the sender's behalf, within this many milliseconds.
    Propose {
        #[serde(deserialize_with = "proposal::commands")]
        commands: Vec<Vec<u8>>,
        within_ms: u64,
    },
    /// Confirm leadership; answer the index a linearizable read must wait for.
    ReadIndex,
    /// Who are you? Asked before two nodes are members of one cluster.
    Hello(Hello),
    /// Change the membership or the leader.
    Change(Change),
    /// Stand for election now, in place of the leader that asks, whose vote this is.
    TakeOver {
        from: RaftVote,
    },
    /// You were removed by the membership at this log index.
    Farewell {
        members_index: u64,
    },
    /// The start that you have seen of my store was one of mine, so mine now comes after it.
    Vouch {
        seen: Start,
    },
    /// Bind your store to the cluster that I form.
    Bind(Offer),
    /// I have given this cluster id up for good: be free of it.
    Release {
        cluster: u128,
    },
    /// Give a sign of life.
    Ping,
    /// I come back, with a log up to this index, and with this vote.
    Return {
        vote: RaftVote,
        last_log_index: Option<u64>,
    },
    /// Say what you support.
    Supports,
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
    Proposed(Result<Vec<Vec<u8>>, Unproposed>),
    /// `None`: not the leader, or no quorum behind it.
    ReadIndex(Option<u64>),
    Hello(Introduction),
    Changed(Result<(), MemberError>),
    Done,
    Supports(Release),
}

/// Why the node that was taken for the leader did not carry a proposal through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unproposed {
    /// Certainly not in the log: safe to propose again.
    NotAppended,
    /// May be in the log now or later.
    Unknown,
    /// Too much is waiting already; certainly not in the log.
    Overloaded,
    /// These of its commands are not let into the log, and so none of them is in it.
    Refused(Vec<Refused>),
}
