//! What a simulated network and a simulated machine need to know about a node: its process, and the contents of its
//! frames and records.

mod overheard;
mod words;

use mintleaf_codec as codec;

use crate::message::{Answer, Frame, Request, Response};
use crate::raft_storage::disk_format;
pub use crate::runtime::Process;
pub use overheard::{Asked, NotAllowed, Overheard};
pub use words::{Words, answer_in_words, request_in_words};

/// Whether an answer grants a vote.
#[must_use]
pub fn grants_vote(answer: &[u8]) -> bool {
    let answer = codec::decode::<Answer>(answer).map(|(_, answer)| answer.result);
    matches!(answer, Ok(Ok(Response::Vote(vote))) if vote.vote_granted)
}

/// Whether an answer acknowledges a chunk of a snapshot.
#[must_use]
pub fn acknowledges_snapshot(answer: &[u8]) -> bool {
    let answer = codec::decode::<Answer>(answer).map(|(_, answer)| answer.result);
    matches!(answer, Ok(Ok(Response::Snapshot(_))))
}

/// Whether a frame asks a founder to prepare its store for a cluster.
#[must_use]
pub fn asks_to_prepare(frame: &[u8]) -> bool {
    let frame = codec::decode::<Frame>(frame).map(|(_, frame)| frame.request);
    matches!(frame, Ok(Request::Prepare(_)))
}

/// The data directory of the coordinator whose cluster a store is prepared for, according to the store's record under
/// [`MetaKey::Prepared`](mintleaf_storage::MetaKey::Prepared).
#[must_use]
pub fn prepared_by(record: &[u8]) -> Option<u128> {
    disk_format::decode_prepared(record).ok().flatten().map(|prepared| prepared.store)
}
