//! What comes of a call for ids of a slot.

use std::ops::Range;

use tokio::sync::oneshot;

use crate::service::error::Error;

/// The answer to a waiting caller.
pub(in crate::service) type TakenNumbers = Result<Vec<Range<u64>>, Error>;

/// How the ids for one caller may lie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::service) enum Arrangement {
    /// In as many ranges as it takes: nothing is wasted.
    Ranges,
    /// Without a gap, whatever has to be skipped for it.
    Contiguous,
}

/// The outcome of a call for ids.
pub(in crate::service) enum TakeOutcome {
    /// The ids.
    Ids(Vec<Range<u64>>),
    /// A place in the queue.
    Wait(oneshot::Receiver<TakenNumbers>),
    /// The tag is gone.
    Closed,
    /// The tag is frozen.
    Frozen,
    /// The rate limit is used up, for so many seconds.
    OverRateLimit(u64),
    /// Fewer are held, and the tag has no more.
    Exhausted,
    /// Too many wait already.
    Overloaded,
}
