//! Ids that may have to be waited for, and how the reply tells them.

use std::ops::Range;

use super::reply::Reply;
use crate::limits::ORDINARY_ANSWER_BYTES;
use crate::metrics::Mode;
use crate::service::{Error, IdService};

/// Bytes of the longest id in a list, with its frame.
const ID_BYTES_MAX: usize = 26;

/// The ids that a command asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WantedIds {
    /// Ids of a tag.
    Tag(String, u64),
    /// Ids of a tag without a gap.
    Contiguous(String, u64),
    /// Snowflake ids.
    Snowflakes(u64),
}

/// How a reply tells ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyStyle {
    /// The highest one alone.
    Last,
    /// All of them.
    List,
}

/// A command whose ids are still to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PendingIds {
    pub(super) wanted: WantedIds,
    pub(super) style: ReplyStyle,
}

impl PendingIds {
    pub(super) fn mode(&self) -> Mode {
        match self.wanted {
            WantedIds::Tag(..) | WantedIds::Contiguous(..) => Mode::Segment,
            WantedIds::Snowflakes(_) => Mode::Snowflake,
        }
    }

    /// The bytes of the reply at most, if it is a long one.
    pub(super) fn long_bytes_max(&self) -> Option<usize> {
        let (WantedIds::Tag(_, count)
        | WantedIds::Contiguous(_, count)
        | WantedIds::Snowflakes(count)) = &self.wanted;
        let bytes = ID_BYTES_MAX * usize::try_from(*count).unwrap_or(usize::MAX / ID_BYTES_MAX);
        (self.style == ReplyStyle::List && bytes > ORDINARY_ANSWER_BYTES).then_some(bytes)
    }

    /// Waits for the ids. The service bounds the wait.
    ///
    /// # Errors
    /// Those of the service.
    pub(super) async fn take(&self, ids: &IdService) -> Result<Vec<Range<u64>>, Error> {
        match &self.wanted {
            WantedIds::Tag(tag, count) => ids.take(tag, *count).await,
            WantedIds::Contiguous(tag, count) => Ok(vec![ids.take_contiguous(tag, *count).await?]),
            &WantedIds::Snowflakes(count) => ids.take_snowflakes(count).await,
        }
    }

    /// Writes the reply. Snowflake ids are text, because they need more bits than a JavaScript number
    /// has; ids of a tag begin at 1 and are integers, as the replies of `INCR` have to be.
    pub(super) fn write(&self, ids: &[Range<u64>], reply: &mut Reply<'_>) {
        if self.style == ReplyStyle::List {
            reply.array(ids.iter().map(|range| (range.end - range.start) as usize).sum());
        }
        let last = ids.last().map(|last| last.end - 1..last.end);
        let shown = if self.style == ReplyStyle::List { ids } else { last.as_slice() };
        for id in shown.iter().cloned().flatten() {
            match self.wanted {
                WantedIds::Snowflakes(_) => reply.digits(id),
                WantedIds::Tag(..) | WantedIds::Contiguous(..) => reply.integer(id),
            }
        }
    }
}

/// Writes the reply that says why there are no ids; answers the code under which that is counted.
pub(super) fn refuse(error: &Error, reply: &mut Reply<'_>) -> &'static str {
    let (word, code) = match error {
        Error::UnknownTag => ("ERR", "unknown_tag"),
        Error::Exhausted => ("EXHAUSTED", "exhausted"),
        Error::TooManyTags { .. } => ("TOOMANYTAGS", "too_many_tags"),
        Error::RateLimited | Error::OverRateLimit { .. } => ("RATELIMITED", "rate_limited"),
        Error::Frozen => ("FROZEN", "frozen"),
        Error::Overloaded => ("OVERLOADED", "overloaded"),
        Error::Unavailable { .. } | Error::ClockBehind { .. } => ("UNAVAILABLE", "unavailable"),
        Error::NotFound { .. } => ("ERR", "not_found"),
        Error::TagExists => ("ERR", "tag_exists"),
        Error::Conflict { .. } => ("ERR", "conflict"),
        Error::WrongCluster { .. } => ("ERR", "wrong_cluster"),
        Error::Level { .. } => ("ERR", "level"),
        Error::InvalidArgument { .. } => ("ERR", "invalid_argument"),
    };
    match error {
        Error::UnknownTag => reply.error("ERR unknown tag"),
        error => reply.error(&format!("{word} {error}")),
    }
    code
}
