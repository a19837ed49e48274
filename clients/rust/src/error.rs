//! What a call fails with.

use std::fmt;

/// Why a call has no id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A node refused, and every node would: an unknown or frozen tag, a token that does not allow it.
    Refused(Refusal),
    /// No node answered in time; the text says what the last attempt met. A later call may succeed.
    Unavailable(String),
    /// 10,000 calls wait already. A later call may succeed.
    Overloaded,
    /// The client is closed.
    Closed,
    /// An argument that no node would take; the text names it and its bounds.
    InvalidArgument(String),
    /// The tag's ids are texts, as this one is. `next_text` is for such tags. The id is wasted.
    NotANumber(String),
}

/// What a node said when it refused: a problem as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code, such as `unknown_tag` or `frozen`; empty when the answer had none.
    pub code: String,
    /// A sentence for people; may be empty.
    pub detail: String,
}

impl Error {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Overloaded => true,
            Self::Refused(refusal) => refusal.status == 429,
            Self::Closed | Self::InvalidArgument(_) | Self::NotANumber(_) => false,
        }
    }

    /// A stable word for the kind of error: the node's own `code` when it refused.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.code,
            Self::Unavailable(_) => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Closed => "closed",
            Self::InvalidArgument(_) => "invalid_argument",
            Self::NotANumber(_) => "not_a_number",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the node refused ({}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        f.write_str(")")?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unavailable(met) => write!(f, "no node answered in time: {met}"),
            Self::Overloaded => f.write_str("10,000 calls wait already; call again later"),
            Self::Closed => f.write_str("the client is closed"),
            Self::InvalidArgument(fault) => f.write_str(fault),
            Self::NotANumber(id) => {
                write!(f, "{id:?} is not a number: ids of this tag are texts, taken by next_text")
            }
        }
    }
}

impl std::error::Error for Error {}
