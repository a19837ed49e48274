//! What keeps callers from taking ids of a tag, and whether the tag exists: in four bytes.

use serde::{Deserialize, Serialize};

use crate::limits::RATE_LIMIT_MAX;

/// What keeps callers from taking ids of a tag. By default nothing does.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Protection {
    /// Ids that each node hands out in a second, 1 to [`RATE_LIMIT_MAX`]; any number when absent.
    pub rate_limit: Option<u32>,
    /// Whether no node hands out an id, nor reserves one.
    pub frozen: bool,
}

impl Protection {
    /// Whether its rate is within bounds.
    pub(super) fn is_sound(self) -> bool {
        self.rate_limit.is_none_or(|rate| (1..=RATE_LIMIT_MAX).contains(&rate))
    }
}

const LIVE: u32 = 1;
const FROZEN: u32 = 2;
/// The rate stands above the two flags; 0 means no rate limit.
const RATE_SHIFT: u32 = 2;
const _: () = assert!(RATE_LIMIT_MAX < 1 << (32 - RATE_SHIFT));

/// Whether a tag exists, and how it is protected. A tombstone has no protection.
///
/// The record of a condition is that of a number. For a tag without protection it is the record of a truth value: 0 for
/// a tombstone, 1 for a tag.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "u32")]
pub(super) struct Condition(u32);

impl Condition {
    /// The condition of a name without a tag.
    pub(super) const GONE: Self = Self(0);

    /// The condition of a tag that exists.
    ///
    /// # Panics
    /// If the rate is out of bounds.
    pub(super) fn live(protection: Protection) -> Self {
        assert!(protection.is_sound(), "{protection:?} is out of bounds");
        let frozen = if protection.frozen { FROZEN } else { 0 };
        Self(LIVE | frozen | (protection.rate_limit.unwrap_or(0) << RATE_SHIFT))
    }

    /// Its number.
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    pub(super) fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    pub(super) fn protection(self) -> Protection {
        let rate = self.0 >> RATE_SHIFT;
        Protection { rate_limit: (rate > 0).then_some(rate), frozen: self.0 & FROZEN != 0 }
    }
}

impl TryFrom<u32> for Condition {
    type Error = &'static str;

    fn try_from(bits: u32) -> Result<Self, Self::Error> {
        let condition = Self(bits);
        let is_sound = condition.protection().is_sound() && (condition.is_live() || bits == 0);
        if is_sound { Ok(condition) } else { Err("the condition of a tag is out of bounds") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protection_survives_its_number() {
        for frozen in [false, true] {
            for rate_limit in [None, Some(1), Some(50_000), Some(RATE_LIMIT_MAX)] {
                let protection = Protection { rate_limit, frozen };
                let condition = Condition::live(protection);
                assert!(condition.is_live());
                assert_eq!(condition.protection(), protection);
                assert_eq!(Condition::try_from(condition.0), Ok(condition));
            }
        }
        assert_eq!(Condition::live(Protection::default()).0, 1);
    }

    #[test]
    fn a_number_that_no_tag_has_is_refused() {
        for bits in [FROZEN, 1 << RATE_SHIFT, LIVE | ((RATE_LIMIT_MAX + 1) << RATE_SHIFT)] {
            assert!(Condition::try_from(bits).is_err(), "{bits}");
        }
    }
}
