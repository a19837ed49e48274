//! What callers ask of sequences, and the answers.

use mintleaf_core::sequence::SequenceKey;
use mintleaf_core::tag::BizTag;

use crate::service::error::Error;

/// The name of a counter: a key of a sequence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyName {
    /// The sequence.
    pub tag: BizTag,
    /// The key, 1 to 256 bytes.
    pub key: Box<str>,
}

/// A request for the next numbers of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyRequest {
    /// The key.
    pub of: KeyName,
    /// How many, 1 or more.
    pub count: u64,
}

/// What is known of the last number of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LastNumber {
    /// The number, or one that it cannot exceed; `None` when nothing was given.
    pub number: Option<u64>,
    /// Whether it is that number, and not a bound.
    pub is_exact: bool,
}

impl KeyName {
    /// Takes these for the names of a sequence and of a key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] says which bound one of them breaks.
    pub fn parse(tag: &str, key: &str) -> Result<Self, Error> {
        let tag = BizTag::parse(tag)?;
        let key = SequenceKey::parse(key)
            .map_err(|error| Error::InvalidArgument { field: "key", detail: error.to_string() })?;
        Ok(Self { tag, key: key.as_str().into() })
    }
}

impl LastNumber {
    /// What is known of a key whose numbers all lie below `end`.
    pub(in crate::service) fn below(end: u64) -> Self {
        match end {
            // The lowest number is 1.
            0..=1 => Self { number: None, is_exact: true },
            end => Self { number: Some(end - 1), is_exact: false },
        }
    }
}
