//! Ids in an order that nobody can guess.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the ids of a tag are hidden.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hidden {
    /// Digits of every id, within [`HIDDEN_DIGITS`](crate::limits::HIDDEN_DIGITS).
    pub digits: u8,
    /// The key of the permutation.
    pub key: HiddenKey,
}

impl Hidden {
    /// First number past the last that has an id: the numbers begin at 1, and of a number of so many digits the first
    /// digit is not 0.
    ///
    /// # Panics
    /// If the digits are out of bounds.
    pub fn line_end(&self) -> u64 {
        9 * 10_u64.pow(u32::from(self.digits) - 1) + 1
    }
}

/// The key of hidden ids. It stands in the log and in the state, and is shown to nobody.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct HiddenKey(pub [u8; 32]);

impl fmt::Debug for HiddenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenKey")
    }
}
