//! The lines of a sequence: the marks of the sections that its keys fall into.
//!
//! A section without used keys has no mark, so a sequence takes as much memory as it has sections in use.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::line_names::{LastNumbers, LineName};
use super::watermark::Watermark;
use crate::limits::SECTIONS;

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct SectionLines(BTreeMap<u16, Watermark>);

impl SectionLines {
    /// Reserves `size` numbers of a section, or all that are left before `line_end` if these are fewer; `None` when
    /// none is left. A section that has no mark yet begins `advance` numbers above 1.
    pub(super) fn grab(
        &mut self,
        section: u16,
        size: u32,
        advance: u64,
        line_end: u64,
    ) -> Option<Range<u64>> {
        let mark = self.0.entry(section).or_insert_with(|| Watermark::beginning(advance));
        mark.grab(size, line_end)
    }

    /// The mark of a section; of one that has none yet, the number that it would begin at.
    pub(super) fn mark(&self, section: u16, advance: u64) -> u64 {
        let mark = self.0.get(&section).copied();
        mark.unwrap_or_else(|| Watermark::beginning(advance)).get()
    }

    /// The highest mark of a section; that of a new line when none was used.
    pub(super) fn highest(&self) -> u64 {
        self.0.values().map(|mark| mark.get()).max().unwrap_or(Watermark::LOWEST.get())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sections in use, with their marks.
    pub(super) fn marks(&self) -> impl Iterator<Item = (LineName, u64)> {
        self.0.iter().map(|(section, mark)| (LineName::Section(*section), mark.get()))
    }

    /// Raises every mark, that of a section whose last number is known to behind that.
    pub(super) fn rise(&mut self, by: u64, lasts: &LastNumbers) {
        let Self(marks) = self;
        for (section, mark) in marks.iter_mut() {
            mark.rise_behind(lasts.get(&LineName::Section(*section)).copied(), by);
        }
        for (line, last) in lasts {
            if let LineName::Section(section) = *line {
                marks.entry(section).or_insert(Watermark::LOWEST).rise_behind(Some(*last), 0);
            }
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.0.keys().all(|section| *section < SECTIONS)
    }
}
