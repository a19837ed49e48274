//! Ids that were taken, as a face shows them.

use std::ops::Range;
use std::sync::Arc;

use mintleaf_core::shape::IdText;

/// Ids that were taken of a tag.
#[derive(Clone, Debug)]
pub struct TakenIds {
    /// The numbers of the tag's line, ascending. Those of a plain tag are its ids.
    pub numbers: Vec<Range<u64>>,
    /// How the ids of a shaped tag are made of their numbers; `None` of a plain tag.
    pub text: Option<Arc<IdText>>,
}

impl TakenIds {
    /// Ids that are bare numbers.
    pub fn plain(numbers: Vec<Range<u64>>) -> Self {
        Self { numbers, text: None }
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        self.numbers.iter().map(|range| range.end - range.start).sum()
    }
}
