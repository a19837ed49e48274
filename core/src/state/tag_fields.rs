//! The fields of a tag that can be changed, and their bounds.

use serde::{Deserialize, Serialize};

use super::protection::Protection;
use crate::limits::{DESCRIPTION_CHARS_MAX, HOLDER_CHARS_MAX, ID_END, STEP_MAX};
use crate::tag::{self, OutOfBounds};

/// The fields of a tag that shall change; what is absent stays as it is.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct TagFields {
    /// Ids per grab from the next grab on, 1 to [`STEP_MAX`].
    pub step: Option<u32>,
    /// The new watermark, up to [`ID_END`]. It may stand still or rise.
    pub max_id: Option<u64>,
    /// Free text of at most [`DESCRIPTION_CHARS_MAX`] characters.
    pub description: Option<String>,
    /// Ids that each node hands out in a second, 1 to [`RATE_LIMIT_MAX`](crate::limits::RATE_LIMIT_MAX); any
    /// number for `Some(None)`.
    pub rate_limit: Option<Option<u32>>,
    /// Whether no node hands out an id.
    pub frozen: Option<bool>,
}

impl TagFields {
    /// Checks every bound that does not depend on the tag.
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        self.step.map_or(Ok(()), check_step)?;
        let max_id_fits = self.max_id.is_none_or(|max_id| (1..=ID_END).contains(&max_id));
        require(max_id_fits, OutOfBounds::MaxId)?;
        let protection = Protection { rate_limit: self.rate_limit.flatten(), frozen: false };
        require(protection.is_sound(), OutOfBounds::RateLimit)?;
        self.description.as_deref().map_or(Ok(()), check_description)
    }
}

pub(super) fn require(holds: bool, bound: OutOfBounds) -> Result<(), OutOfBounds> {
    if holds { Ok(()) } else { Err(bound) }
}

/// Whether the holder of a leased worker id may call itself this; no text is the default.
pub(super) fn is_holder(text: &str) -> bool {
    !tag::exceeds(text, HOLDER_CHARS_MAX) && !text.chars().any(char::is_control)
}

pub(super) fn check_step(step: u32) -> Result<(), OutOfBounds> {
    require((1..=STEP_MAX).contains(&step), OutOfBounds::Step)
}

pub(super) fn check_description(description: &str) -> Result<(), OutOfBounds> {
    require(!tag::exceeds(description, DESCRIPTION_CHARS_MAX), OutOfBounds::Description)
}
