//! Requests for ids and numbers in strict order, their outcomes, and how both travel between nodes.

use std::ops::Range;

use mintleaf_codec as codec;
use mintleaf_core::shape::{Line, PeriodNumber};
use mintleaf_core::tag::BizTag;
use serde::{Deserialize, Serialize};

use crate::service::grabs::Refused;

/// The format of a message between two nodes, in its first byte.
const FORMAT: u8 = 1;

/// One request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::service) struct Request {
    pub(in crate::service) tag: BizTag,
    pub(in crate::service) wanted: Wanted,
}

/// What a request wants.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::service) enum Wanted {
    /// This many ids of a line of a strict tag. Where the tag has gone on to a later period, ids of that period.
    Ids { line: Line, count: u64, contiguous: bool },
    /// The next numbers of a key: this many.
    Numbers { key: Box<str>, count: u64 },
    /// What is known of the last number of a key.
    Last { key: Box<str> },
}

/// The answer to a request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::service) enum Given {
    /// Ids, ascending, and the period that they are of.
    Ids { period: Option<PeriodNumber>, ranges: Vec<Range<u64>> },
    /// The last number of a key is this one.
    LastIs(u64),
    /// The last number of a key is below this one, if there is one.
    LastBelow(u64),
    /// The leader holds nothing of the section of a key: its last number is below the section's mark in the log.
    NothingHeld { section: u16 },
}

/// The outcome of a request.
pub(in crate::service) type Outcome = Result<Given, Refused>;

impl Wanted {
    /// The key that it is about; `None` of ids.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Ids { .. } => None,
            Self::Numbers { key, .. } | Self::Last { key } => Some(key),
        }
    }

    /// How many numbers it takes.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Ids { count, .. } | Self::Numbers { count, .. } => *count,
            Self::Last { .. } => 0,
        }
    }
}

impl Request {
    /// Bytes that it takes in a message, or more.
    pub(super) fn bytes_max(&self) -> usize {
        let key = self.wanted.key().map_or(0, str::len);
        48 + self.tag.as_str().len() + key
    }
}

/// The bytes of requests, or of their outcomes.
pub(super) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    codec::encode(FORMAT, message)
}

/// Reads what [`encode`] wrote; `None` for bytes that are damaged, or of the format of another release.
pub(super) fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (format, message) = codec::decode(bytes).ok()?;
    (format == FORMAT).then_some(message)
}
