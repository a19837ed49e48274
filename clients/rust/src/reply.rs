//! Turns a reply into what the call returns.

use crate::answer::number;
use crate::error::Error;
use crate::lease::line::Reply;

/// A reply that can be an error.
pub(crate) trait Fallible {
    fn failed(error: Error) -> Self;
}

impl Fallible for Reply {
    fn failed(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<T> Fallible for Result<T, Error> {
    fn failed(error: Error) -> Self {
        Err(error)
    }
}

/// One id.
pub(crate) fn one(reply: Reply) -> Result<u64, Error> {
    match reply {
        Reply::Ids(ids) => ids.into_iter().flatten().next().ok_or(Error::Closed),
        Reply::Listed(ids) => ids.into_iter().next().ok_or(Error::Closed).and_then(as_number),
        Reply::Failed(error) => Err(error),
    }
}

/// All ids.
pub(crate) fn many(reply: Reply) -> Result<Vec<u64>, Error> {
    match reply {
        Reply::Ids(ids) => Ok(ids.into_iter().flatten().collect()),
        Reply::Listed(ids) => ids.into_iter().map(as_number).collect(),
        Reply::Failed(error) => Err(error),
    }
}

/// One id as text.
pub(crate) fn text(reply: Reply) -> Result<String, Error> {
    match reply {
        Reply::Listed(ids) => ids.into_iter().next().ok_or(Error::Closed),
        numbers => one(numbers).map(|id| id.to_string()),
    }
}

fn as_number(id: String) -> Result<u64, Error> {
    number(&id).ok_or(Error::NotANumber(id))
}
