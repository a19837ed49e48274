//! What a simulated network reads in the frames that it carries.

use mintleaf_storage::codec;

use super::{Answer, Frame, Request, Response};

/// Whether an answer grants a vote.
#[must_use]
pub fn grants_vote(answer: &[u8]) -> bool {
    let answer = codec::decode::<Answer>(answer).map(|(_, answer)| answer.result);
    matches!(answer, Ok(Ok(Response::Vote(vote))) if vote.vote_granted)
}

/// Whether an answer says that a part of a snapshot was taken in.
#[must_use]
pub fn answers_snapshot(answer: &[u8]) -> bool {
    let answer = codec::decode::<Answer>(answer).map(|(_, answer)| answer.result);
    matches!(answer, Ok(Ok(Response::Snapshot(_))))
}

/// Whether a frame asks a founder to bind its store.
#[must_use]
pub fn offers_a_bond(frame: &[u8]) -> bool {
    let frame = codec::decode::<Frame>(frame).map(|(_, frame)| frame.request);
    matches!(frame, Ok(Request::Bind(_)))
}
