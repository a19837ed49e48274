//! Ids that may have to be waited for, and how they look when they come.

use std::ops::Range;

use super::reply::Reply;
use crate::metrics::Mode;
use crate::service::{Error, IdService};

/// What is asked of the service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Ids of a tag.
    Ids(String, u64),
    /// Ids of a tag in one piece.
    Piece(String, u64),
    /// Snowflake ids.
    Snowflakes(u64),
}

/// How the ids are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The highest one alone.
    Last,
    /// All of them.
    List,
}

/// A command whose ids are still to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) asked: Asked,
    pub(super) shape: Shape,
}

impl Wait {
    pub(super) fn mode(&self) -> Mode {
        match self.asked {
            Asked::Ids(..) | Asked::Piece(..) => Mode::Segment,
            Asked::Snowflakes(_) => Mode::Snowflake,
        }
    }

    /// Waits for the ids. Bounded by the service.
    ///
    /// # Errors
    /// The service's.
    pub(super) async fn ids(&self, service: &IdService) -> Result<Vec<Range<u64>>, Error> {
        match &self.asked {
            Asked::Ids(tag, count) => service.take(tag, *count).await,
            Asked::Piece(tag, count) => Ok(vec![service.take_piece(tag, *count).await?]),
            &Asked::Snowflakes(count) => service.take_snowflakes(count).await,
        }
    }

    /// Snowflake ids are told as text, because they need more bits than a JavaScript number has;
    /// a tag's begin at 1 and are integers, as those of `INCR` have to be.
    pub(super) fn tell(&self, ids: &[Range<u64>], reply: &mut Reply<'_>) {
        if self.shape == Shape::List {
            reply.array(ids.iter().map(|range| (range.end - range.start) as usize).sum());
        }
        let last = ids.last().map(|last| last.end - 1..last.end);
        let told = if self.shape == Shape::List { ids } else { last.as_slice() };
        for id in told.iter().cloned().flatten() {
            match self.asked {
                Asked::Snowflakes(_) => reply.digits(id),
                Asked::Ids(..) | Asked::Piece(..) => reply.integer(id),
            }
        }
    }
}

/// Tells a client why it gets no ids; answers the code under which that is counted.
pub(super) fn refuse(error: &Error, reply: &mut Reply<'_>) -> &'static str {
    let (word, code) = match error {
        Error::UnknownTag => ("ERR", "unknown_tag"),
        Error::Exhausted => ("EXHAUSTED", "exhausted"),
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
