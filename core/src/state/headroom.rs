//! How much is left of the tag that is nearest to its end.

use super::apply::State;
use super::shaped_entry::ShapedEntry;
use super::tag_entry::NamedTag;
use crate::shape::Shape;
use crate::tag::BizTag;

/// Entries that one look reads while applying waits: some 20 microseconds.
const HEADROOM_VISITED: usize = 2_000;

/// The headroom of some tags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadroomPage {
    /// The tag that is nearest to its end, and the share of its ids that is left.
    pub lowest: Option<(f64, BizTag)>,
    /// The next look begins behind this name; `None` behind the last tag.
    pub next: Option<BizTag>,
}

impl State {
    /// The tag that is nearest to its end among `HEADROOM_VISITED` entries behind the name `after`.
    pub fn headroom_after(&self, after: Option<&str>) -> HeadroomPage {
        let mut page = HeadroomPage::default();
        for (at, tag) in self.entries.after(after).enumerate() {
            if at == HEADROOM_VISITED {
                break;
            }
            page.next = (at + 1 == HEADROOM_VISITED).then(|| tag.tag());
            let left = self.headroom(&tag);
            let is_lowest = page.lowest.as_ref().is_none_or(|(lowest, _)| left < *lowest);
            if tag.entry.is_live() && is_lowest {
                page.lowest = Some((left, tag.tag()));
            }
        }
        page
    }

    /// The share of its ids that is left of a tag: of its latest period, where it has periods.
    fn headroom(&self, tag: &NamedTag<&str, &str>) -> f64 {
        let shaped = self.shaped.get(tag.name);
        let max_id = shaped.and_then(ShapedEntry::max_id).unwrap_or(tag.entry.max_id());
        let shape = shaped.map_or(Shape::plain(), |shaped| shaped.shape());
        shape.left(max_id) as f64 / shape.line_end() as f64
    }
}
