//! Why a request was not fulfilled, in words that belong to no protocol.

use mintleaf_core::shape::Kind;
use mintleaf_core::state::{Response, first_version_of};
use mintleaf_core::tag::{InvalidTag, OutOfBounds};
use mintleaf_raft::{MembershipError, ProposeError, Rejected};
use thiserror::Error as ThisError;

use crate::limits::FIRST_USES_PER_SECOND_MAX;
use crate::replica::Replica;
use crate::text::timestamp::rfc3339;

/// Why a request was not fulfilled.
#[derive(Clone, Debug, Eq, PartialEq, ThisError)]
pub enum Error {
    /// A value is impossible.
    #[error("{detail}")]
    InvalidArgument {
        /// The name of the field, which HTTP puts in front of a detail that does not begin with it; may be empty where
        /// the detail does.
        field: &'static str,
        /// The bounds of the field.
        detail: String,
    },
    /// There is no such tag.
    #[error("there is no such tag")]
    UnknownTag,
    /// There is no such thing as the request named; the text says what.
    #[error("{0}")]
    NotFound(String),
    /// The numbers of the tag belong to keys, so that the tag has no next id.
    #[error("the tag {tag} is a {0}: its numbers belong to keys, at /v1/{0}/", kind.name())]
    OfKeys {
        /// The tag's name.
        tag: String,
        /// Its kind: a sequence or a register.
        kind: Kind,
    },
    /// A tag of this name exists.
    #[error("a tag of this name exists")]
    TagExists,
    /// The request contradicts the present state; the text says how.
    #[error("{0}")]
    Conflict(String),
    /// A node of another cluster was named; the text says which cluster.
    #[error("{0}")]
    WrongCluster(String),
    /// The request needs another level of the cluster, or other versions of its nodes; the text says which, and what to
    /// do.
    #[error("{0}")]
    Level(String),
    /// The tag has fewer ids left than are asked for, and never gets more: up to 2^63-1, or as many as its digits
    /// allow.
    #[error("the tag has fewer ids left than are asked for")]
    Exhausted,
    /// Every worker id of a pool is leased, or taken by programs that lease none.
    #[error("every worker id of the pool is leased or taken; {}", free(*free_from_ms))]
    AllLeased {
        /// When the first of them is free, in Unix milliseconds; `None` if all are taken.
        free_from_ms: Option<u64>,
    },
    /// The cluster keeps as many names of tags as it shall.
    #[error(
        "the cluster keeps {tags_max} names of tags, those of deleted ones included, and --tags-max \
         allows no more"
    )]
    TooManyTags {
        /// The bound.
        tags_max: u64,
    },
    /// All registers together have as many keys as they shall.
    #[error(
        "the registers have {keys_max} keys, those of deleted registers included, and --register-keys-max allows no more"
    )]
    TooManyKeys {
        /// The bound.
        keys_max: u64,
    },
    /// This node has created too many tags on first use just now.
    #[error(
        "this node creates no more than {FIRST_USES_PER_SECOND_MAX} tags a second on first use: try \
         again soon, or create the tag beforehand"
    )]
    RateLimited,
    /// The tag's rate limit is used up on this node.
    #[error("the tag's rate_limit is used up on this node: try again in {after_s} s")]
    OverRateLimit {
        /// Seconds until the request can pass, rounded up, if no other request comes.
        after_s: u64,
    },
    /// One request asks for more ids than the tag's rate limit allows in ten seconds.
    #[error(
        "count must be 1 to {count_max} here: one request gets no more than ten seconds of the tag's rate_limit"
    )]
    CountOverRateLimit {
        /// Maximum number of ids of one request.
        count_max: u64,
    },
    /// The tag is frozen.
    #[error("the tag is frozen: no ids of it are given until that is changed")]
    Frozen,
    /// Too many requests wait already.
    #[error("too many requests are waiting")]
    Overloaded,
    /// The clock went back further than the held time window can ride out.
    #[error("the clock went back by {by_ms} ms, and every id up to where it was is given")]
    ClockBehind {
        /// How far, in milliseconds.
        by_ms: u64,
    },
    /// There was no quorum, or no segment in time; the text says what was missing.
    #[error("{0}")]
    Unavailable(String),
}

impl Error {
    /// The stable code, which answers and metrics name the error by.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument { .. } => "invalid_argument",
            Self::UnknownTag => "unknown_tag",
            Self::NotFound(_) | Self::OfKeys { .. } => "not_found",
            Self::TagExists => "tag_exists",
            Self::Conflict(_) => "conflict",
            Self::WrongCluster(_) => "wrong_cluster",
            Self::Level(_) => "level",
            Self::Exhausted | Self::AllLeased { .. } => "exhausted",
            Self::TooManyTags { .. } => "too_many_tags",
            Self::TooManyKeys { .. } => "too_many_keys",
            Self::RateLimited | Self::OverRateLimit { .. } => "rate_limited",
            Self::CountOverRateLimit { .. } => "count_over_rate_limit",
            Self::Frozen => "frozen",
            Self::Overloaded => "overloaded",
            Self::ClockBehind { .. } | Self::Unavailable(_) => "unavailable",
        }
    }

    /// Whether the same request may succeed later, without any change by an operator.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::OverRateLimit { .. }
                | Self::Overloaded
                | Self::ClockBehind { .. }
                | Self::Unavailable(_)
        )
    }

    pub(super) fn of_keys(tag: &str, kind: Kind) -> Self {
        Self::OfKeys { tag: tag.to_owned(), kind }
    }

    pub(super) fn invalid(field: &'static str, detail: impl Into<String>) -> Self {
        Self::InvalidArgument { field, detail: detail.into() }
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::Unavailable(detail.into())
    }

    /// The error for a response to a change of a tag that is a rejection.
    pub(super) fn rejected(replica: &Replica, response: &Response) -> Self {
        match response {
            Response::UnknownTag => Self::UnknownTag,
            Response::TagExists => Self::TagExists,
            Response::Exhausted => Self::Exhausted,
            Response::MaxIdBehind { max_id } => {
                Self::Conflict(format!("max_id only moves forward, and is {max_id} already"))
            }
            Response::OtherShape => Self::Conflict(
                "a tag of this name has or had another shape, which stays with the name for ever"
                    .to_owned(),
            ),
            Response::Invalid { what } => (*what).into(),
            Response::NoRootKey => {
                Self::unavailable("the cluster has no root key yet for the keys of hidden ids")
            }
            other => {
                replica.mixed_up("a change of a tag", other);
                Self::unavailable("the outcome is not known, and this node is stopping")
            }
        }
    }
}

impl From<OutOfBounds> for Error {
    fn from(what: OutOfBounds) -> Self {
        // The other messages begin with their fields.
        let field = if what == OutOfBounds::Lease { "seconds" } else { "" };
        Self::invalid(field, what.to_string())
    }
}

impl From<InvalidTag> for Error {
    fn from(error: InvalidTag) -> Self {
        Self::InvalidArgument { field: "tag", detail: error.to_string() }
    }
}

impl From<ProposeError> for Error {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::Overloaded => Self::Overloaded,
            // A node checks its own requests before it proposes them, so only a bound of an older leader
            // is left to refuse one.
            ProposeError::Rejected(Rejected::Unfit(detail)) => {
                Self::InvalidArgument { field: "request", detail }
            }
            ProposeError::Rejected(level @ Rejected::Level { needs, .. }) => Self::Level(format!(
                "{level}: once every node runs version {} or later, mintleaf cluster level raise",
                first_version_of(needs)
            )),
            error => Self::unavailable(error.to_string()),
        }
    }
}

impl From<MembershipError> for Error {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::Conflict(detail) => Self::Conflict(detail),
            MembershipError::WrongCluster(detail) => Self::WrongCluster(detail),
            MembershipError::Busy => Self::Conflict(error.to_string()),
            MembershipError::Unknown(_) => Self::NotFound(error.to_string()),
            MembershipError::Level(detail) => Self::Level(detail),
            MembershipError::Unavailable(detail) | MembershipError::NoLeader(detail) => {
                Self::Unavailable(detail)
            }
        }
    }
}

/// When the first worker id of a pool is free, in words.
fn free(from_ms: Option<u64>) -> String {
    let at = |ms| format!("the first is free at {}", rfc3339(ms));
    from_ms.map_or("none is ever free before one is freed".to_owned(), at)
}
