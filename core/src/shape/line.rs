//! The number lines of a shaped tag, and the leadership that a grab of some of them needs.

use serde::{Deserialize, Serialize};

use super::period::PeriodNumber;
use crate::limits::{PERIOD_MS_MAX, SECTIONS};

/// One number line of a shaped tag, as a grab names it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Line {
    /// The one line of a tag without periods.
    Whole,
    /// The line of one period. The node that asks has computed where the period begins and ends; the number alone
    /// says which line it is.
    Period {
        /// Which period.
        number: PeriodNumber,
        /// First millisecond of the period, in Unix time.
        start_ms: u64,
        /// First millisecond past it.
        end_ms: u64,
    },
    /// The line of the keys that fall into one section of a sequence, below [`SECTIONS`].
    Section(u16),
}

impl Line {
    /// The period that it is the line of.
    pub fn period(&self) -> Option<PeriodNumber> {
        match *self {
            Self::Period { number, .. } => Some(number),
            Self::Whole | Self::Section(_) => None,
        }
    }

    /// Whether its numbers are within their bounds.
    pub fn is_sound(&self) -> bool {
        match *self {
            Self::Whole => true,
            Self::Period { number: _, start_ms, end_ms } => end_ms
                .checked_sub(start_ms)
                .is_some_and(|length_ms| (1..=PERIOD_MS_MAX).contains(&length_ms)),
            Self::Section(section) => section < SECTIONS,
        }
    }
}

/// One leadership of one process start: what a strict tag or a sequence is handed out under.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Leadership {
    /// The node that leads.
    pub node_id: u64,
    /// Names the process start, at random.
    pub nonce: u128,
    /// The term that it leads in.
    pub term: u64,
}
