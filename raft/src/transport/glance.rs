//! What a simulated network reads in the frames that it carries.

use mintleaf_storage::codec;

use super::{Answer, Response};

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
