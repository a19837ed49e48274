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
    /// Without a gap, even if ids have to be skipped for it.
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
    /// Why there are none: the tag is frozen or used up, its rate limit refuses the call, or too many wait already.
    Refused(Error),
}
