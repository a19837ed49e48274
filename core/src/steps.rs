//! How many ids one grab of a tag may reserve.

use serde::{Deserialize, Serialize};

use crate::limits::STEP_MAX;

/// The bounds of a grab, as a tag sets them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Steps {
    /// Fewest ids, 1 to [`STEP_MAX`].
    pub step: u32,
    /// Maximum number of ids, from `step` to [`STEP_MAX`]; as many as are wanted when absent.
    pub step_max: Option<u32>,
}

impl Steps {
    /// Grabs of at least `step` ids.
    pub fn from(step: u32) -> Self {
        Self { step, step_max: None }
    }

    /// How many ids a grab for `wanted` reserves.
    pub fn size(self, wanted: u32) -> u32 {
        wanted.max(self.step).min(self.step_max.unwrap_or(STEP_MAX))
    }

    /// Whether both bounds are within their own, and go together.
    pub fn is_sound(self) -> bool {
        let Self { step, step_max } = self;
        step >= 1
            && step <= step_max.unwrap_or(STEP_MAX)
            && step_max.is_none_or(|max| max <= STEP_MAX)
    }
}
