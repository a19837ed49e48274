//! The errors of a call.

use std::fmt;

/// Why a call returned no id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A node refused, as every node would: the tag is unknown or frozen, or the token does not allow the call.
    Refused(Refusal),
    /// No node answered in time. The text names the endpoint of the last attempt, and what it met. A later call may succeed.
    Unavailable(String),
    /// 10,000 calls are waiting already. A later call may succeed.
    Overloaded,
    /// The client is closed.
    Closed,
    /// An argument that every node would reject. The text names it and its bounds.
    InvalidArgument(String),
    /// The tag's ids are texts, such as this one; use `next_text` for such tags. The id is wasted.
    NotANumber(String),
}

/// A node's refusal: a problem document (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code, such as `unknown_tag` or `frozen`.
    pub code: String,
    /// A sentence for people. May be empty.
    pub detail: String,
}

impl Error {
    /// Whether the same call may succeed later although no operator changes anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Overloaded => true,
            Self::Refused(refusal) => refusal.status == 429,
            Self::Closed | Self::InvalidArgument(_) | Self::NotANumber(_) => false,
        }
    }

    /// A stable word for the kind of error. For a refusal it is the node's own `code`.
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
        write!(f, "the node refused ({} {})", self.status, self.code)?;
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
