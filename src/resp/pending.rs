//! Ids that may have to be waited for, and how the reply shows them.

use std::borrow::Cow;

use mintleaf_core::shape::Kind;
use mintleaf_core::shape::id_text::IdText;

use super::reply::Reply;
use crate::limits::ORDINARY_ANSWER_BYTES;
use crate::metrics::Mode;
use crate::service::{Error, IdService, NOT_CONSECUTIVE, SingleIds, TakenIds};

/// Bytes of the longest id in a list, with its frame.
const ID_BYTES_MAX: usize = 26;

/// How a reply shows ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyStyle {
    /// Each as an integer in a separate reply, to one of several commands that came together.
    Each,
    /// The highest one alone, as an integer, of ids without a gap.
    LastOfRun,
    /// The only one.
    One,
    /// All of them.
    List,
}

/// A command whose ids are still to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PendingIds {
    /// The tag that they belong to; `None`: they are snowflake ids.
    pub(super) tag: Option<String>,
    pub(super) count: u64,
    pub(super) style: ReplyStyle,
}

impl PendingIds {
    pub(super) fn mode(&self) -> Mode {
        match self.tag {
            Some(_) => Mode::Segment,
            None => Mode::Snowflake,
        }
    }

    /// How many commands it answers.
    pub(super) fn commands(&self) -> u64 {
        if self.style == ReplyStyle::Each { self.count } else { 1 }
    }

    /// The bytes of the reply at most, if it is a long one.
    pub(super) fn long_bytes_max(&self, ids: &IdService) -> Option<usize> {
        if self.style != ReplyStyle::List {
            return None;
        }
        let shape = self.tag.as_ref().and_then(|tag| ids.shape(tag));
        let text = shape.map_or(0, |shape| IdText::json_bytes_max(&shape.format));
        let bytes = usize::try_from(self.count).ok()?.saturating_mul(ID_BYTES_MAX + text);
        (bytes > ORDINARY_ANSWER_BYTES).then_some(bytes)
    }

    /// Waits for the ids. The service bounds the wait.
    ///
    /// # Errors
    /// The errors of the service; [`Error::InvalidArgument`] if the command cannot answer with such ids.
    pub(super) async fn take(&self, ids: &IdService) -> Result<SingleIds, Error> {
        let all = |taken| SingleIds { taken: vec![taken], refused: None };
        let Some(tag) = &self.tag else {
            return Ok(all(TakenIds::plain(ids.take_snowflakes(self.count).await?)));
        };
        let is_run = match self.style {
            ReplyStyle::One | ReplyStyle::List => {
                return Ok(all(ids.take(tag, self.count).await?));
            }
            ReplyStyle::Each => false,
            ReplyStyle::LastOfRun => true,
        };
        // Whether its numbers belong to keys shows when they are asked for.
        if let Some(shape) = ids.shape(tag).filter(|shape| !shape.giver().gives_to_keys()) {
            integers_only(shape.format.is_some(), shape.has_consecutive_ids(), is_run)?;
        }
        let taken = match self.count {
            count if is_run => all(ids.take_contiguous(tag, count).await?),
            1 => all(ids.take(tag, 1).await?),
            count => ids.take_singles(tag, count).await,
        };
        // The tag may have been unknown here before.
        for text in taken.taken.iter().filter_map(|taken| taken.text.as_deref()) {
            integers_only(text.is_formatted(), text.has_consecutive_ids(), is_run)?;
        }
        Ok(taken)
    }

    /// Writes the replies: the ids for the commands that have got some, and the reason for the rest. Returns the code
    /// that counts the refused commands, and how many there are.
    pub(super) fn write_all(
        &self,
        taken: Result<SingleIds, Error>,
        reply: &mut Reply<'_>,
    ) -> Option<(&'static str, u64)> {
        let got =
            taken.unwrap_or_else(|error| SingleIds { taken: Vec::new(), refused: Some(error) });
        got.taken.iter().for_each(|ids| self.write(ids, reply));
        let error = got.refused.as_ref()?;
        let rest = self.commands() - got.count();
        let mut code = None;
        for _ in 0..rest {
            code = Some(refuse(error, reply));
        }
        Some((code?, rest))
    }

    /// Writes the reply. Snowflake ids are text, because they need more bits than a JavaScript number
    /// has; ids of a tag begin at 1 and are integers, as the replies of `INCR` have to be, unless the tag has a format.
    fn write(&self, ids: &TakenIds, reply: &mut Reply<'_>) {
        if self.style == ReplyStyle::List {
            reply.array(ids.count() as usize);
        }
        let numbers = ids.numbers.as_slice();
        let last = numbers.last().map(|last| last.end - 1..last.end);
        let shown = if self.style == ReplyStyle::LastOfRun { last.as_slice() } else { numbers };
        let mut text = Vec::new();
        for number in shown.iter().cloned().flatten() {
            match (&ids.text, &self.tag) {
                (Some(of), _) if of.is_formatted() => {
                    text.clear();
                    of.append(number, &mut text);
                    reply.bulk(&text);
                }
                (Some(of), _) => reply.integer(of.id(number)),
                (None, None) => reply.digits(number),
                (None, Some(_)) => reply.integer(number),
            }
        }
    }
}

/// Whether a command that answers with an integer can answer with an id, and with the last of a run of them.
fn integers_only(is_formatted: bool, is_consecutive: bool, is_run: bool) -> Result<(), Error> {
    let detail = match (is_formatted, is_consecutive || !is_run) {
        (true, _) => "tag has a format: MINT answers with its texts",
        (false, false) => NOT_CONSECUTIVE,
        (false, true) => return Ok(()),
    };
    Err(Error::InvalidArgument { field: "tag", detail: detail.to_owned() })
}

/// Writes the reply that says why there are no ids; returns the code that counts it.
pub(super) fn refuse(error: &Error, reply: &mut Reply<'_>) -> &'static str {
    let word = word(error);
    match error {
        Error::UnknownTag => reply.error("ERR unknown tag"),
        Error::OfKeys { tag, kind } => {
            let command = match kind {
                Kind::Register => format!("REGISTER {tag} KEY numbers a key"),
                Kind::Segment | Kind::Sequence => format!("HINCRBY {tag} KEY 1 takes a number"),
            };
            reply.error(&format!("{word} the tag {tag} is a {}: {command}", kind.name()));
        }
        error => reply.error(&format!("{word} {error}")),
    }
    error.code()
}

/// The first word of the reply: `ERR` where the command itself is at fault, as in Redis, otherwise what makes a client
/// wait or an operator act.
fn word(error: &Error) -> Cow<'static, str> {
    match error {
        Error::InvalidArgument { .. }
        | Error::UnknownTag
        | Error::NotFound(_)
        | Error::OfKeys { .. }
        | Error::TagExists
        | Error::Conflict(_)
        | Error::WrongCluster(_)
        | Error::Level(_) => Cow::Borrowed("ERR"),
        error => Cow::Owned(error.code().replace('_', "").to_ascii_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_begins_with_the_word_that_clients_know() {
        for (error, begins) in [
            (Error::UnknownTag, "ERR"),
            (Error::TagExists, "ERR"),
            (Error::Conflict(String::new()), "ERR"),
            (Error::Level(String::new()), "ERR"),
            (Error::Exhausted, "EXHAUSTED"),
            (Error::TooManyKeys { keys_max: 1 }, "TOOMANYKEYS"),
            (Error::TooManyTags { tags_max: 1 }, "TOOMANYTAGS"),
            (Error::RateLimited, "RATELIMITED"),
            (Error::OverRateLimit { after_s: 1 }, "RATELIMITED"),
            (Error::CountOverRateLimit { count_max: 1 }, "COUNTOVERRATELIMIT"),
            (Error::Frozen, "FROZEN"),
            (Error::Overloaded, "OVERLOADED"),
            (Error::ClockBehind { by_ms: 1 }, "UNAVAILABLE"),
        ] {
            assert_eq!(word(&error), begins, "{error:?}");
        }
    }
}
