//! The id that belongs to each number of a line, before it is written: the number itself, or a hidden id.
//!
//! Two numbers of a line never have one id: the safety argument speaks of numbers, and holds for ids only because of that.

use super::ff1::HiddenIds;
use super::hidden::Hidden;
use super::{Kind, Shape};
use crate::limits::ID_END;

/// How ids follow from the numbers of a line.
enum IdsAre<'a> {
    /// Ids are the numbers.
    Numbers,
    /// Ids are numbers of a fixed length in another order.
    Hidden(&'a Hidden),
}

/// Makes ids of the numbers of a line.
#[derive(Debug)]
pub(super) enum IdOf {
    Number,
    Hidden(Box<HiddenIds>),
}

impl Shape {
    fn ids_are(&self) -> IdsAre<'_> {
        match (self.kind, &self.hidden) {
            (Kind::Segment | Kind::Sequence | Kind::Register, None) => IdsAre::Numbers,
            (Kind::Segment | Kind::Sequence | Kind::Register, Some(hidden)) => {
                IdsAre::Hidden(hidden)
            }
        }
    }

    /// Whether consecutive numbers of a line stand for consecutive ids, so that a range stands for all of them.
    pub fn has_consecutive_ids(&self) -> bool {
        match self.ids_are() {
            IdsAre::Numbers => true,
            IdsAre::Hidden(_) => false,
        }
    }

    /// First number past the last one that a line of the tag has, at most [`ID_END`].
    pub fn line_end(&self) -> u64 {
        match self.ids_are() {
            IdsAre::Numbers => ID_END,
            IdsAre::Hidden(hidden) => hidden.line_end(),
        }
    }

    /// How many numbers are left of a line with this mark.
    pub fn left(&self, mark: u64) -> u64 {
        self.line_end().saturating_sub(mark)
    }
}

impl IdOf {
    pub(super) fn new(shape: &Shape) -> Self {
        match shape.ids_are() {
            IdsAre::Numbers => Self::Number,
            IdsAre::Hidden(Hidden { digits, key }) => {
                Self::Hidden(Box::new(HiddenIds::new(*digits, &key.0)))
            }
        }
    }

    /// The id that belongs to a number of the line.
    #[inline]
    pub(super) fn id(&self, number: u64) -> u64 {
        match self {
            Self::Number => number,
            Self::Hidden(hidden) => hidden.id(number),
        }
    }
}
