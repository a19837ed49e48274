//! What is proposed and what is answered, and their bytes.
//!
//! Commands are in every log and responses cross between nodes of different releases: variants are
//! only ever appended, any other change of shape takes a new format, and tests hold the bytes.

use mintleaf_storage::codec::{self, CodecError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{AHEAD_MS_MAX, TagRow};
use crate::snowflake::Format;
use crate::tag::{self, BizTag, DESCRIPTION_CHARS_MAX, ID_END, ID_MAX, OutOfBounds, STEP_MAX};

/// The one format of commands and responses so far.
const FORMAT: u8 = 1;

/// One change of the state, as it is proposed to the log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Creates a tag. Its ids begin at `start`, or above every id the name was ever given.
    CreateTag {
        /// The name, not in use by an existing tag.
        tag: BizTag,
        /// Ids per grab, 1 to [`STEP_MAX`].
        step: u32,
        /// First id, 1 to [`ID_MAX`].
        start: u64,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`] characters.
        description: String,
    },
    /// Changes what is given of an existing tag: all of it or, when rejected, nothing.
    UpdateTag {
        /// The name of an existing tag.
        tag: BizTag,
        /// Ids per grab from the next grab on, 1 to [`STEP_MAX`].
        step: Option<u32>,
        /// The new watermark, up to [`ID_END`]. It may stand still or rise.
        max_id: Option<u64>,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`] characters.
        description: Option<String>,
    },
    /// Deletes a tag. The name remembers how far its ids went.
    DeleteTag {
        /// The name of an existing tag.
        tag: BizTag,
    },
    /// Reserves the next ids of a tag: the larger of `size` and its step, or all that is left when
    /// that is fewer.
    Grab {
        /// The name of an existing tag.
        tag: BizTag,
        /// Ids wanted, at most [`STEP_MAX`]; 0 leaves it to the tag's step.
        size: u32,
    },
    /// Settles how the cluster makes snowflake ids, unless that was settled before.
    FixFormat {
        /// How this node would make them.
        format: Format,
    },
    /// Notes what a node's clock shows.
    ReportClock {
        /// Whose.
        node_id: u64,
        /// Unix milliseconds.
        clock_ms: u64,
    },
    /// Reserves milliseconds of a worker id for one process start.
    AcquireWorker {
        /// The node that asks.
        node_id: u64,
        /// Names the grant, for as long as it lasts; no other, of any process start, has the same.
        nonce: u128,
        /// A certain worker id; by default the first that was never used, else the one whose fence
        /// is lowest.
        worker_id: Option<u16>,
        /// Milliseconds wanted, 1 to [`AHEAD_MS_MAX`].
        window_ms: u64,
    },
    /// Reserves more milliseconds of a worker id, for the grant that holds it.
    RenewWorker {
        /// Which worker id.
        worker_id: u16,
        /// Which grant.
        nonce: u128,
        /// How far the window shall reach from now on, 1 to [`AHEAD_MS_MAX`] milliseconds.
        window_ms: u64,
    },
    /// Gives a worker id back, with all of its milliseconds that were not used.
    ReleaseWorker {
        /// Which worker id.
        worker_id: u16,
        /// Which grant.
        nonce: u128,
        /// It has stamped nothing from here on, and never will.
        unused_from_ms: u64,
    },
    /// Raises the cluster's level, unless it is as high already. Nobody proposes it: a leader that has
    /// asked every member appends it by itself.
    RaiseLevel {
        /// The level from here on. A build that does not support it stops here.
        to: u32,
        /// The first version that supports it.
        version: String,
    },
    /// Leaves a note, which does nothing: what levels are tested with.
    #[cfg(feature = "next-level")]
    Note {
        /// At most [`DESCRIPTION_CHARS_MAX`] characters.
        text: String,
    },
}

/// What a command came to. Those from [`UnknownTag`](Self::UnknownTag) to
/// [`Invalid`](Self::Invalid), and from [`NoFormat`](Self::NoFormat) on, are rejections: they
/// changed nothing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// The tag as it is now, created or changed.
    Tag(TagRow),
    /// The tag is gone.
    Deleted,
    /// The ids `[start, end)` are reserved for the one who asked.
    Segment {
        /// First id of the segment.
        start: u64,
        /// First id past it, at most [`ID_END`]: what was really reserved.
        end: u64,
        /// The tag's own step at this moment.
        step: u32,
    },
    /// There is no such tag, or it was deleted.
    UnknownTag,
    /// A tag of this name exists.
    TagExists,
    /// The watermark asked for lies below the tag's own.
    MaxIdBehind {
        /// The tag's own.
        max_id: u64,
    },
    /// Every id up to [`ID_MAX`] is reserved.
    Exhausted,
    /// A value is out of its bounds.
    Invalid {
        /// Which one.
        what: OutOfBounds,
    },
    /// This is how the cluster makes snowflake ids.
    Format {
        /// Whether or not it was the one proposed.
        format: Format,
    },
    /// The milliseconds `[floor_ms, fence_ms)` of a worker id are reserved for the one who asked.
    Window {
        /// Which worker id.
        worker_id: u16,
        /// First millisecond of the window. An extended window still begins where it began.
        floor_ms: u64,
        /// First millisecond past it.
        fence_ms: u64,
    },
    /// It is done, and there is nothing to say about it.
    Noted,
    /// Nobody has settled yet how snowflake ids are made.
    NoFormat,
    /// Every worker id, or the one asked for, is reserved past this moment.
    NoWorkerFree {
        /// When the first of them is free, in Unix milliseconds.
        free_from_ms: u64,
    },
    /// The format has no such worker id.
    NoSuchWorker,
    /// The grant does not hold the worker id, or no longer.
    NotHolder,
    /// Ids cannot show the time that the window would have: it lies before the epoch, or past the
    /// last bit.
    OutOfTime,
    /// The note is left.
    #[cfg(feature = "next-level")]
    NoteTaken {
        /// How long it is.
        characters: u64,
    },
}

impl Command {
    /// Checks every bound that does not depend on the state. [`State::apply`](super::State::apply)
    /// does so again; asking first spares a trip through the log.
    ///
    /// # Errors
    /// The first bound that is broken.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        match self {
            Self::CreateTag { step, start, description, .. } => {
                check_step(*step)?;
                require((1..=ID_MAX).contains(start), OutOfBounds::Start)?;
                check_description(description)
            }
            Self::UpdateTag { step, max_id, description, .. } => {
                step.map_or(Ok(()), check_step)?;
                let max_id_fits = max_id.is_none_or(|max_id| (1..=ID_END).contains(&max_id));
                require(max_id_fits, OutOfBounds::MaxId)?;
                description.as_deref().map_or(Ok(()), check_description)
            }
            Self::DeleteTag { .. } => Ok(()),
            Self::Grab { size, .. } => require(*size <= STEP_MAX, OutOfBounds::Size),
            Self::AcquireWorker { window_ms, .. } | Self::RenewWorker { window_ms, .. } => {
                require((1..=AHEAD_MS_MAX).contains(window_ms), OutOfBounds::Window)
            }
            Self::FixFormat { .. }
            | Self::ReportClock { .. }
            | Self::ReleaseWorker { .. }
            | Self::RaiseLevel { .. } => Ok(()),
            #[cfg(feature = "next-level")]
            Self::Note { text } => check_description(text),
        }
    }

    /// The lowest level of a cluster that has this command.
    pub fn level(&self) -> u32 {
        match self {
            Self::CreateTag { .. }
            | Self::UpdateTag { .. }
            | Self::DeleteTag { .. }
            | Self::Grab { .. }
            | Self::FixFormat { .. }
            | Self::ReportClock { .. }
            | Self::AcquireWorker { .. }
            | Self::RenewWorker { .. }
            | Self::ReleaseWorker { .. }
            | Self::RaiseLevel { .. } => 1,
            #[cfg(feature = "next-level")]
            Self::Note { .. } => 2,
        }
    }

    /// The command as one record.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(FORMAT, self)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`DecodeError`]: the record is damaged, or of a format that this release does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(FORMAT, bytes)
    }
}

impl Response {
    /// The response as one record, for members of a cluster of this level.
    ///
    /// # Panics
    /// When a member could not read it: a command above the level was applied.
    pub fn encode(&self, level: u32) -> Vec<u8> {
        assert!(self.level() <= level, "{self:?} is answered in a cluster of level {level}");
        codec::encode(FORMAT, self)
    }

    /// The lowest level of a cluster in which it is answered.
    fn level(&self) -> u32 {
        match self {
            #[cfg(feature = "next-level")]
            Self::NoteTaken { .. } => 2,
            _ => 1,
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`DecodeError`]: the record is damaged, or of a format that this release does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(FORMAT, bytes)
    }
}

/// Why a record is not a command or a response.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The record is of a later release.
    #[error("record of unknown format {0}")]
    Format(u8),
    /// The record is damaged, or something else.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Reads a record of `format`.
pub(super) fn decode<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    match codec::format_of(bytes) {
        Some(other) if other != format => Err(DecodeError::Format(other)),
        _ => Ok(codec::decode(bytes)?.1),
    }
}

fn require(holds: bool, bound: OutOfBounds) -> Result<(), OutOfBounds> {
    if holds { Ok(()) } else { Err(bound) }
}

fn check_step(step: u32) -> Result<(), OutOfBounds> {
    require((1..=STEP_MAX).contains(&step), OutOfBounds::Step)
}

fn check_description(description: &str) -> Result<(), OutOfBounds> {
    require(!tag::exceeds(description, DESCRIPTION_CHARS_MAX), OutOfBounds::Description)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::workers::format;
    use crate::state::tests::{hex, tag};

    #[test]
    fn every_command_keeps_its_bytes() {
        let create = Command::CreateTag {
            tag: tag("orders"),
            step: 1000,
            start: 1,
            description: "é".to_owned(),
        };
        let update = Command::UpdateTag {
            tag: tag("a"),
            step: Some(1),
            max_id: Some(ID_END),
            description: Some(String::new()),
        };
        let nothing =
            Command::UpdateTag { tag: tag("a"), step: None, max_id: None, description: None };
        let golden = [
            (create, "010a77815f00066f7264657273fbe8030102c3a9"),
            (update, "0143c9073b010161010101fd00000000000000800100"),
            (nothing, "01b9bebd4e010161000000"),
            (Command::DeleteTag { tag: tag("a") }, "01980cd2b9020161"),
            (Command::Grab { tag: tag("订"), size: STEP_MAX }, "0177d101d50303e8aea2fcffffff7f"),
            (
                Command::FixFormat { format: format("41+5+5+12") },
                "01d918928c042905050cfdc1038d142c010000",
            ),
            (
                Command::ReportClock { node_id: 3, clock_ms: 1_800_000_000_000 },
                "012898bc4b0503fd00505c18a3010000",
            ),
            (
                Command::AcquireWorker {
                    node_id: 3,
                    nonce: u128::MAX,
                    worker_id: Some(1023),
                    window_ms: 60_000,
                },
                "01baeb917f0603feffffffffffffffffffffffffffffffff01fbff03fb60ea",
            ),
            (
                Command::AcquireWorker { node_id: 3, nonce: 0, worker_id: None, window_ms: 1 },
                "01de186c900603000001",
            ),
            (
                Command::RenewWorker { worker_id: 7, nonce: 1, window_ms: AHEAD_MS_MAX },
                "016783b1bf070701fc80ee3600",
            ),
            (
                Command::ReleaseWorker { worker_id: 7, nonce: 1, unused_from_ms: 1 << 40 },
                "01bed96c74080701fd0000000000010000",
            ),
            (
                Command::RaiseLevel { to: 2, version: "0.2.0".to_owned() },
                "01a9f392c2090205302e322e30",
            ),
        ];
        for (command, bytes) in golden {
            assert_eq!(hex(&command.encode()), bytes, "{command:?}");
            assert_eq!(Command::decode(&command.encode()).unwrap(), command);
        }
    }

    #[test]
    fn every_response_keeps_its_bytes() {
        let row = TagRow {
            tag: tag("a"),
            max_id: 2,
            step: 3,
            description: "b".to_owned(),
            created_at_ms: 4,
            updated_at_ms: 5,
        };
        let golden = [
            (Response::Tag(row), "01fcd6a200000161020301620405"),
            (Response::Deleted, "012813c52f01"),
            (
                Response::Segment { start: 1, end: ID_END, step: 1000 },
                "01892894d30201fd0000000000000080fbe803",
            ),
            (Response::UnknownTag, "010472cbc103"),
            (Response::TagExists, "01a7e7af5f04"),
            (Response::MaxIdBehind { max_id: 7 }, "01c3d2901d0507"),
            (Response::Exhausted, "018b86a1b106"),
            (Response::Invalid { what: OutOfBounds::Step }, "01e225c2b10700"),
            (Response::Invalid { what: OutOfBounds::Start }, "017415c5c60701"),
            (Response::Invalid { what: OutOfBounds::MaxId }, "01ce44cc5f0702"),
            (Response::Invalid { what: OutOfBounds::Size }, "015874cb280703"),
            (Response::Invalid { what: OutOfBounds::Description }, "01fbe1afb60704"),
            (Response::Invalid { what: OutOfBounds::Window }, "016dd1a8c10705"),
            (
                Response::Format { format: format("41+10+12") },
                "01220a3cad0829000a0cfdc1038d142c010000",
            ),
            (
                Response::Window {
                    worker_id: 1023,
                    floor_ms: 1 << 40,
                    fence_ms: (1 << 40) + 60_000,
                },
                "016aeb9d6609fbff03fd0000000000010000fd60ea000000010000",
            ),
            (Response::Noted, "01a0ca17b80a"),
            (Response::NoFormat, "0136fa10cf0b"),
            (Response::NoWorkerFree { free_from_ms: 1 << 40 }, "0158c04ed60cfd0000000000010000"),
            (Response::NoSuchWorker, "01035f73260d"),
            (Response::NotHolder, "01b90e7abf0e"),
            (Response::OutOfTime, "012f3e7dc80f"),
        ];
        for (response, bytes) in golden {
            assert_eq!(hex(&response.encode(1)), bytes, "{response:?}");
            assert_eq!(Response::decode(&response.encode(1)).unwrap(), response);
        }
    }

    #[cfg(feature = "next-level")]
    #[test]
    fn what_level_two_brings_keeps_its_bytes() {
        let note = Command::Note { text: "é".to_owned() };
        assert_eq!(hex(&note.encode()), "016675a6d80a02c3a9");
        assert_eq!(Command::decode(&note.encode()).unwrap(), note);
        let taken = Response::NoteTaken { characters: 1 };
        assert_eq!(hex(&taken.encode(2)), "01e29146c31001");
        assert_eq!(Response::decode(&taken.encode(2)).unwrap(), taken);
        assert_eq!((note.level(), taken.level()), (2, 2));
    }

    #[cfg(feature = "next-level")]
    #[test]
    #[should_panic(expected = "is answered in a cluster of level 1")]
    fn nothing_is_answered_above_the_level_of_the_cluster() {
        Response::NoteTaken { characters: 1 }.encode(1);
    }

    #[test]
    fn a_record_of_a_later_format_is_named_as_such() {
        let later = codec::encode(FORMAT + 1, &Response::Deleted);
        assert!(matches!(Response::decode(&later), Err(DecodeError::Format(2))));
        assert!(matches!(Response::decode(&[]), Err(DecodeError::Codec(_))));
    }

    #[test]
    fn a_tag_that_breaks_its_bounds_does_not_decode() {
        #[derive(Serialize)]
        enum Forged {
            CreateTag { tag: &'static str, step: u32, start: u64, description: &'static str },
        }
        let forge = |tag| Forged::CreateTag { tag, step: 1, start: 1, description: "" };
        assert!(Command::decode(&codec::encode(FORMAT, &forge("a"))).is_ok());
        assert!(Command::decode(&codec::encode(FORMAT, &forge("a\n"))).is_err());
    }
}
