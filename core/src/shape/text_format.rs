//! The text that clients get instead of a bare number.
//!
//! A format is a text with places: `{id}`, and `{period}` in formats of tags with a period. `{id:06}` pads a number
//! with zeros, `{id:base36}` and `{id:base62}` write it in another base. Each format has exactly one place for the id,
//! so that no two numbers have one text, whatever stands around it.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::{FORMAT_CHARS_MAX, FORMAT_PAD_MAX};

/// The format of a tag with a period, when none is given.
const OF_PERIODS: &str = "{period}{id:06}";

/// A text that holds a place for an id: at most [`FORMAT_CHARS_MAX`] characters, none of them a control character.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String")]
pub struct TextFormat(Box<str>);

/// One part of a format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'a> {
    /// Text as it is, never empty.
    Text(&'a str),
    /// The number of the period.
    Period,
    /// The id.
    Id(IdStyle),
}

/// How a format writes an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdStyle {
    /// In decimal digits, with zeros in front of a number of fewer digits than this.
    Decimal {
        /// Fewest digits, 0 to [`FORMAT_PAD_MAX`].
        digits_min: u8,
    },
    /// In base 36.
    Base36,
    /// In base 62.
    Base62,
}

/// Why a text is not a format.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum FormatError {
    /// The text is too long.
    #[error("format must have at most {FORMAT_CHARS_MAX} characters")]
    TooLong,
    /// The text holds a control character.
    #[error("format must not contain control characters")]
    ControlCharacter,
    /// The text holds a brace that belongs to no place.
    #[error(
        "format knows {{id}}, {{id:06}} (pads up to {FORMAT_PAD_MAX} digits), {{id:base36}}, {{id:base62}} and \
         {{period}}, and no other braces"
    )]
    Brace,
    /// The text has no place for the id, or several.
    #[error("format must hold {{id}} exactly once")]
    Id,
    /// The text has several places for the period.
    #[error("format must hold {{period}} at most once")]
    Period,
}

impl TextFormat {
    /// Takes a text for a format.
    ///
    /// # Errors
    /// [`FormatError`] says what the text lacks.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        if text.chars().nth(FORMAT_CHARS_MAX).is_some() {
            return Err(FormatError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(FormatError::ControlCharacter);
        }
        let (mut ids, mut periods) = (0, 0);
        for piece in pieces(text) {
            match piece.ok_or(FormatError::Brace)? {
                Piece::Text(_) => {}
                Piece::Id(_) => ids += 1,
                Piece::Period => periods += 1,
            }
        }
        match (ids, periods) {
            (1, 0 | 1) => Ok(Self(text.into())),
            (1, _) => Err(FormatError::Period),
            _ => Err(FormatError::Id),
        }
    }

    /// The format of a tag with a period, when none is given.
    pub(super) fn of_periods() -> Self {
        Self(OF_PERIODS.into())
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts of the format, in their order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        pieces(&self.0).flatten()
    }

    /// Whether it has a place for the period.
    pub fn shows_period(&self) -> bool {
        self.pieces().any(|piece| piece == Piece::Period)
    }
}

impl TryFrom<String> for TextFormat {
    type Error = FormatError;

    fn try_from(text: String) -> Result<Self, FormatError> {
        Self::parse(&text)
    }
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The parts of a text; `None`, and nothing behind it, for a brace that belongs to no place.
fn pieces(text: &str) -> impl Iterator<Item = Option<Piece<'_>>> {
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some((piece, behind)) = first_piece(text) else { return Some(None) };
        rest = Some(behind).filter(|behind| !behind.is_empty());
        Some(Some(piece))
    })
}

/// The first part of a text that is not empty, and what stands behind it.
fn first_piece(text: &str) -> Option<(Piece<'_>, &str)> {
    match text.find(['{', '}']).unwrap_or(text.len()) {
        0 => {
            let (place, behind) = text.strip_prefix('{')?.split_once('}')?;
            Some((place_of(place)?, behind))
        }
        end => Some((Piece::Text(&text[..end]), &text[end..])),
    }
}

fn place_of(name: &str) -> Option<Piece<'static>> {
    let style = match name {
        "period" => return Some(Piece::Period),
        "id" => IdStyle::Decimal { digits_min: 0 },
        "id:base36" => IdStyle::Base36,
        "id:base62" => IdStyle::Base62,
        _ => {
            let digits = name.strip_prefix("id:0")?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let digits_min = digits.parse().ok().filter(|digits_min| {
                is_number && !digits.starts_with('0') && (1..=FORMAT_PAD_MAX).contains(digits_min)
            })?;
            IdStyle::Decimal { digits_min }
        }
    };
    Some(Piece::Id(style))
}
