//! Commands and responses, each as one record: a format byte, a checksum, and the value.

use mintleaf_codec::{self as codec, CodecError};
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::state::{Command, Response};

/// The one format of commands and responses so far.
const FORMAT: u8 = 1;

/// A command as one record.
pub fn encode_command(command: &Command) -> Vec<u8> {
    codec::encode(FORMAT, command)
}

/// Reads what [`encode_command`] wrote.
///
/// # Errors
/// [`DecodeError`]: the record is damaged, or of a format that this release does not know.
pub fn decode_command(bytes: &[u8]) -> Result<Command, DecodeError> {
    decode(FORMAT, bytes)
}

/// A response as one record, for members of a cluster of this level.
///
/// # Panics
/// When a member could not read it: a command above the level was applied.
pub fn encode_response(response: &Response, level: u32) -> Vec<u8> {
    assert!(response.level() <= level, "{response:?} is answered in a cluster of level {level}");
    codec::encode(FORMAT, response)
}

/// Reads what [`encode_response`] wrote.
///
/// # Errors
/// [`DecodeError`]: the record is damaged, or of a format that this release does not know.
pub fn decode_response(bytes: &[u8]) -> Result<Response, DecodeError> {
    decode(FORMAT, bytes)
}

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The record is of a later release.
    #[error("record of unknown format {0}")]
    Format(u8),
    /// The record is damaged, or something else.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Reads a record of `format`.
pub(super) fn decode<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    match codec::format_of(bytes) {
        Some(other) if other != format => Err(DecodeError::Format(other)),
        _ => Ok(codec::decode(bytes)?.1),
    }
}

#[cfg(test)]
mod tests;
