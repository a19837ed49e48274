//! Requests to the leader from the user of this crate.

use mintleaf_codec::Blob;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::leader_requests::LEADER_REQUEST_BYTES_MAX;

/// Why the node that was asked as the leader does not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unasked {
    /// The node has no answer: it does not lead, or no quorum confirmed that it does.
    NoAnswer,
    /// The node has too many requests to answer.
    Overloaded,
}

/// Deserializes a request, and refuses one that is larger than the bound.
pub(super) fn request<'de, D: Deserializer<'de>>(input: D) -> Result<Blob, D::Error> {
    let request = Blob::deserialize(input)?;
    match request.0.len() {
        0..=LEADER_REQUEST_BYTES_MAX => Ok(request),
        _ => Err(D::Error::custom("a request to the leader is too large")),
    }
}
