//! The names of tags, and the error of a value that breaks its bound.
//!
//! Pure. A value is checked once where it enters and again when its command is applied: replicas may then trust their
//! state, no matter which node wrote the log. The bounds themselves stand in [`limits`](crate::limits).

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{
    ADDRESS_BYTES_MAX, AHEAD_MS_MAX, DESCRIPTION_CHARS_MAX, FLOOR_MS_MAX, HOLDER_CHARS_MAX, ID_END,
    ID_MAX, IMPORT_CHARS_MAX, KEY_BYTES_MAX, LEASE_MS_MIN, RATE_LIMIT_MAX, STEP_MAX, TAG_CHARS_MAX,
};

/// The name of one sequence of ids: 1 to [`TAG_CHARS_MAX`] characters, none of them a control
/// character.
///
/// A name that may be looked up is not always one that a tag may be created under: [`BizTag::check_new`].
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

    /// Checks that a tag may be created under this name. No other name may look like it: people cannot see a blank at
    /// an end or a character without a shape, and paths cannot hold `.` or `..`. Tags that were created under such a
    /// name before this check existed go on.
    ///
    /// # Errors
    /// [`InvalidTag`] says what is wrong with the name.
    pub fn check_new(&self) -> Result<(), InvalidTag> {
        let name = self.as_str();
        if name.trim() != name {
            return Err(InvalidTag::Blank);
        }
        if name.chars().any(is_format) {
            return Err(InvalidTag::FormatCharacter);
        }
        if matches!(name, "." | "..") {
            return Err(InvalidTag::Dots);
        }
        Ok(())
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
    /// The name of a new tag begins or ends with a blank.
    Blank,
    /// The name of a new tag holds a format character, such as a zero-width space.
    FormatCharacter,
    /// The name of a new tag is `.` or `..`.
    Dots,
}

impl InvalidTag {
    /// The bound, as a sentence about a name of this kind: other things than tags have names by the same rules.
    pub fn of(self, kind: &str) -> String {
        match self {
            Self::Empty => format!("{kind} must not be empty"),
            Self::TooLong => format!("{kind} must have at most {TAG_CHARS_MAX} characters"),
            Self::ControlCharacter => format!("{kind} must not contain control characters"),
            Self::Blank => format!("{kind} must not begin or end with a blank"),
            Self::FormatCharacter => format!(
                "{kind} must not contain format characters, such as zero-width ones or line separators"
            ),
            Self::Dots => format!("{kind} must not be . or .., which paths cannot hold"),
        }
    }
}

impl fmt::Display for InvalidTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of("tag"))
    }
}

impl Error for InvalidTag {}

/// Characters that have no shape of their own: the categories Cf, Zl and Zp of Unicode 16.0, first and last of each
/// run.
const FORMAT_CHARACTERS: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

fn is_format(character: char) -> bool {
    let is_in = |&(first, last): &(char, char)| (first..=last).contains(&character);
    character >= FORMAT_CHARACTERS[0].0 && FORMAT_CHARACTERS.iter().any(is_in)
}

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
    /// A step_max is at least the step, and at most [`STEP_MAX`].
    StepMax,
    /// A holder has at most [`HOLDER_CHARS_MAX`] characters, none of them a control character.
    Holder,
    /// A lease has [`LEASE_MS_MIN`] to [`AHEAD_MS_MAX`] milliseconds.
    Lease,
    /// A worker id that is taken does not belong to its pool.
    Taken,
    /// A key has 1 to [`KEY_BYTES_MAX`] bytes.
    Key,
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
            Self::StepMax => write!(f, "step_max must be at least step, and at most {STEP_MAX}"),
            Self::Line => f.write_str("line must be one that a tag may have"),
            Self::Holder => write!(
                f,
                "holder must have at most {HOLDER_CHARS_MAX} characters, none of them a control character"
            ),
            Self::Taken => f.write_str("taken worker ids must belong to the pool"),
            Self::Key => write!(f, "key must be 1 to {KEY_BYTES_MAX} bytes of UTF-8"),
            Self::Lease => write!(f, "a lease must last {LEASE_MS_MIN} to {AHEAD_MS_MAX} ms"),
            Self::Import => write!(
                f,
                "import must be 1 to {IMPORT_CHARS_MAX} characters without control characters"
            ),
        }
    }
}

impl Error for OutOfBounds {}

/// Whether `text` has more than `chars_max` characters, found without reading much further.
pub fn exceeds(text: &str, chars_max: usize) -> bool {
    text.len() > chars_max && text.chars().nth(chars_max).is_some()
}

/// Checks the name of an import.
///
/// # Errors
/// [`OutOfBounds::Import`].
pub fn check_import(name: &str) -> Result<(), OutOfBounds> {
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
    fn a_name_that_looks_like_another_is_found_and_not_created() {
        let refused = |name: &str| BizTag::parse(name).unwrap().check_new().unwrap_err();
        for name in [" ", " a", "a ", "a\u{a0}", "\u{3000}a", "a\u{2009}"] {
            assert_eq!(refused(name), InvalidTag::Blank, "{name:?}");
        }
        for character in "\u{ad}\u{61c}\u{200b}\u{200d}\u{202e}\u{2028}\u{feff}\u{e0041}".chars() {
            assert_eq!(
                refused(&format!("a{character}b")),
                InvalidTag::FormatCharacter,
                "{character:?}"
            );
        }
        for name in [".", ".."] {
            assert_eq!(refused(name), InvalidTag::Dots);
        }
        for name in ["a b", "...", ".a", "订 单", "é", "🙂", "a/b", "100%"] {
            assert_eq!(BizTag::parse(name).unwrap().check_new(), Ok(()), "{name:?}");
        }
        assert!(FORMAT_CHARACTERS.is_sorted_by(|one, next| one.1 < next.0));
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
