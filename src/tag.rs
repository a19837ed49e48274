//! The names of tags, and the error of a value that breaks its bound.
//!
//! Pure. A value is checked once where it enters and again when its command is applied: replicas may
//! then trust their state, whoever wrote the log. The bounds themselves stand in
//! [`limits`](crate::limits).

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{
    ADDRESS_BYTES_MAX, AHEAD_MS_MAX, DESCRIPTION_CHARS_MAX, FLOOR_MS_MAX, ID_END, ID_MAX,
    IMPORT_CHARS_MAX, RATE_LIMIT_MAX, STEP_MAX, TAG_CHARS_MAX,
};

/// The name of one sequence of ids: 1 to [`TAG_CHARS_MAX`] characters, none of them a control
/// character.
///
/// Ordered by its UTF-8 bytes, which is also the order of Unicode scalar values.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BizTag(Box<str>);

impl BizTag {
    /// Takes `name` for a tag.
    ///
    /// # Errors
    /// [`InvalidTag`] says which bound `name` breaks.
    pub fn parse(name: &str) -> Result<Self, InvalidTag> {
        Self::try_from(name.to_owned())
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BizTag {
    type Error = InvalidTag;

    fn try_from(name: String) -> Result<Self, InvalidTag> {
        if name.is_empty() {
            return Err(InvalidTag::Empty);
        }
        if exceeds(&name, TAG_CHARS_MAX) {
            return Err(InvalidTag::TooLong);
        }
        if name.chars().any(char::is_control) {
            return Err(InvalidTag::ControlCharacter);
        }
        Ok(Self(name.into_boxed_str()))
    }
}

impl Borrow<str> for BizTag {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for BizTag {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BizTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why a name cannot be a tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidTag {
    /// The name has no characters.
    Empty,
    /// The name has more than [`TAG_CHARS_MAX`] characters.
    TooLong,
    /// The name holds a control character, such as a line break or NUL.
    ControlCharacter,
}

impl fmt::Display for InvalidTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("tag must not be empty"),
            Self::TooLong => write!(f, "tag must have at most {TAG_CHARS_MAX} characters"),
            Self::ControlCharacter => f.write_str("tag must not contain control characters"),
        }
    }
}

impl Error for InvalidTag {}

/// Which bound a command breaks. The message names the field and the bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum OutOfBounds {
    /// A step is 1 to [`STEP_MAX`].
    Step,
    /// A start is 1 to [`ID_MAX`].
    Start,
    /// A watermark is 1 to [`ID_END`]; at [`ID_END`] the tag is exhausted.
    MaxId,
    /// A grab asks for at most [`STEP_MAX`] ids.
    Size,
    /// A description has at most [`DESCRIPTION_CHARS_MAX`] characters.
    Description,
    /// A window has 1 to [`AHEAD_MS_MAX`] milliseconds.
    Window,
    /// A rate limit is 1 to [`RATE_LIMIT_MAX`].
    RateLimit,
    /// An address has at most [`ADDRESS_BYTES_MAX`] bytes.
    Address,
    /// The snowflake floor is at most [`FLOOR_MS_MAX`].
    Floor,
    /// The name of an import has 1 to [`IMPORT_CHARS_MAX`] characters, none of them a control character.
    Import,
    /// A shape has fields that go together, each within its bounds, and is not that of a plain tag.
    Shape,
    /// A line is one that a tag may have.
    Line,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step => write!(f, "step must be 1 to {STEP_MAX}"),
            Self::Start => write!(f, "start must be 1 to {ID_MAX}"),
            Self::MaxId => write!(f, "max_id must be 1 to {ID_END}"),
            Self::Size => write!(f, "size must be at most {STEP_MAX}"),
            Self::Description => {
                write!(f, "description must have at most {DESCRIPTION_CHARS_MAX} characters")
            }
            Self::Window => write!(f, "window_ms must be 1 to {AHEAD_MS_MAX}"),
            Self::RateLimit => write!(f, "rate_limit must be 1 to {RATE_LIMIT_MAX}"),
            Self::Address => write!(f, "address must have at most {ADDRESS_BYTES_MAX} bytes"),
            Self::Floor => write!(f, "floor_ms must be at most {FLOOR_MS_MAX}"),
            Self::Shape => f.write_str("shape must have fields that go together"),
            Self::Line => f.write_str("line must be one that a tag may have"),
            Self::Import => write!(
                f,
                "import must be 1 to {IMPORT_CHARS_MAX} characters without control characters"
            ),
        }
    }
}

impl Error for OutOfBounds {}

/// Whether `text` has more than `chars_max` characters, found without reading much further.
pub(crate) fn exceeds(text: &str, chars_max: usize) -> bool {
    text.chars().nth(chars_max).is_some()
}

/// Checks what an import is called.
///
/// # Errors
/// [`OutOfBounds::Import`].
pub(crate) fn check_import(name: &str) -> Result<(), OutOfBounds> {
    let is_name =
        !name.is_empty() && !exceeds(name, IMPORT_CHARS_MAX) && !name.chars().any(char::is_control);
    if is_name { Ok(()) } else { Err(OutOfBounds::Import) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_counted_in_characters_not_bytes() {
        let longest = "订".repeat(TAG_CHARS_MAX);
        assert_eq!(BizTag::parse(&longest).unwrap().as_str(), longest);
        assert_eq!(BizTag::parse(&format!("{longest}x")), Err(InvalidTag::TooLong));
        assert_eq!(BizTag::parse(""), Err(InvalidTag::Empty));
    }

    #[test]
    fn control_characters_are_refused_and_everything_else_is_kept() {
        for name in ["a\nb", "\0", "a\u{7f}", "\u{85}"] {
            assert_eq!(BizTag::parse(name), Err(InvalidTag::ControlCharacter), "{name:?}");
        }
        for name in [".", "a/b", " ", "100%", "é", "🙂", "../etc"] {
            assert_eq!(BizTag::parse(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn decoding_checks_the_name_again() {
        let tag: BizTag = serde_json::from_str(r#""orders""#).unwrap();
        assert_eq!(serde_json::to_string(&tag).unwrap(), r#""orders""#);
        assert!(serde_json::from_str::<BizTag>(r#""a\nb""#).is_err());
    }

    #[test]
    fn messages_name_the_field_and_the_bound() {
        assert_eq!(OutOfBounds::Step.to_string(), "step must be 1 to 2147483647");
        assert_eq!(OutOfBounds::Start.to_string(), "start must be 1 to 9223372036854775807");
        assert_eq!(OutOfBounds::MaxId.to_string(), "max_id must be 1 to 9223372036854775808");
    }
}
