//! How far the cluster has come: which commands, responses and kinds of snapshot sections it may use.
//!
//! Builds of two releases read one log while nodes are upgraded one by one, and the older build reads it again if they
//! are rolled back. So everything that an older build cannot read has a *level*, and is used only once the cluster has
//! that level. The level is part of the state and is raised by a command, which names the release that is needed from
//! there on. Every build reads that command and the section of a snapshot that says the same, even if it knows nothing
//! else of them.
//!
//! # How a variant and a level are added
//!
//! Variants of what stands in the log, in a snapshot, or in answers between nodes (commands, changes, responses,
//! sections, and the types that a [`Shape`] is made of) are only ever appended: never moved, changed or removed. An
//! older build cannot read a new one, so it belongs to a level, which an arm here or in the type's `level` names; the
//! format byte of its record stays. All else that changes how bytes are read, such as a new field, needs a new format.
//! The first such variant of a release brings the level: one more version below, a constant, and a row in
//! `docs/operating/upgrading.md`.

use serde::{Deserialize, Serialize};

use crate::shape::{Kind, Order, PeriodLength, Shape};
use crate::version::VERSION;

/// The first version that supports each level, from level 1 on.
const FIRST_VERSIONS: &[&str] = &["0.2.0", "0.3.0", "0.3.0"];

/// The level that has tags with a shape.
pub(super) const SHAPES: u32 = 2;

/// The level that has a root key of hidden ids, and that remembers when a restored cluster began and which windows may
/// outlast the hold of their worker ids.
pub(super) const ROOT_KEY: u32 = 3;

/// The level that has a bound of what a grab of a tag reserves.
pub(super) const STEP_BOUNDS: u32 = 3;

/// The level that has registers.
pub(super) const REGISTERS: u32 = 3;

/// The highest level that this build supports.
pub const LEVEL_MAX: u32 = FIRST_VERSIONS.len() as u32;

/// The lowest level of a cluster that has tags of this shape.
pub(super) fn level_of(shape: &Shape) -> u32 {
    // No pattern is `_`, so that a new variant does not compile before it has its level.
    match (shape.kind, shape.order, shape.period.as_ref().map(|period| period.length)) {
        (Kind::Segment, Order::Trend, None) if shape.is_plain() => 1,
        (
            Kind::Segment | Kind::Sequence,
            Order::Trend | Order::Strict,
            None | Some(PeriodLength::Day | PeriodLength::Month | PeriodLength::Year),
        ) => SHAPES,
        (
            Kind::Register,
            Order::Trend | Order::Strict,
            None | Some(PeriodLength::Day | PeriodLength::Month | PeriodLength::Year),
        ) => REGISTERS,
    }
}

/// The first version that supports a level; this build's own for a level that it does not know.
pub fn first_version_of(level: u32) -> &'static str {
    let at = usize::try_from(level).unwrap_or(usize::MAX).checked_sub(1);
    at.and_then(|at| FIRST_VERSIONS.get(at)).copied().unwrap_or(VERSION)
}

/// A cluster's level. It only rises.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Level {
    number: u32,
    /// The first version that supports this level.
    version: Box<str>,
}

impl Level {
    pub(super) fn new(number: u32, version: &str) -> Self {
        Self { number, version: version.into() }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Whether it is level 1, which a snapshot does not mention: such a state keeps the bytes that it always had.
    pub(super) fn is_first(&self) -> bool {
        self.number <= 1
    }

    pub(super) fn raise(&mut self, to: u32, version: &str) {
        if to > self.number {
            *self = Self::new(to, version);
        }
    }
}

impl Default for Level {
    /// The level of every cluster at its beginning, and of a cluster from before there were levels.
    fn default() -> Self {
        Self::new(1, FIRST_VERSIONS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_only_rises() {
        let mut level = Level::default();
        assert!(level.is_first());
        level.raise(3, "0.3.0");
        level.raise(2, "0.2.0");
        level.raise(3, "0.4.0");
        assert_eq!(level, Level::new(3, "0.3.0"));
    }

    #[test]
    fn every_supported_level_has_a_first_version() {
        assert_eq!(first_version_of(1), "0.2.0");
        assert_eq!(first_version_of(LEVEL_MAX), *FIRST_VERSIONS.last().unwrap());
        assert_eq!(first_version_of(LEVEL_MAX + 1), VERSION);
        assert_eq!(first_version_of(0), VERSION);
    }
}
