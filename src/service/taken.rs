//! Ids that were taken, as a face shows them.

use std::ops::Range;
use std::sync::Arc;

use mintleaf_core::shape::id_text::IdText;

use super::error::Error;
use super::local::lines::TagLine;

/// Why a range of ids of some tags, or the last of a run of them, is refused.
pub const NOT_CONSECUTIVE: &str = "tag has ids that are not consecutive";

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

    /// Ids of a line of a shaped tag.
    pub(super) fn of_line(line: &TagLine, numbers: Vec<Range<u64>>) -> Self {
        Self { numbers, text: Some(Arc::clone(line.text())) }
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        self.numbers.iter().map(|range| range.end - range.start).sum()
    }
}

/// The outcome of requests for one id each that came together.
#[derive(Debug, Default)]
pub struct SingleIds {
    /// The ids of the first of them, ascending within each part and from part to part, unless the tag hides them.
    pub taken: Vec<TakenIds>,
    /// Why the rest got none; `None` where all have one.
    pub refused: Option<Error>,
}

impl SingleIds {
    /// How many ids there are.
    pub fn count(&self) -> u64 {
        self.taken.iter().map(TakenIds::count).sum()
    }
}
