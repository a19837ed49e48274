//! What is held of strict tags, for people who monitor it.

use mintleaf_core::segment::BufferView;
use mintleaf_core::tag::BizTag;

use super::{HeldLine, Holdings, LineName};
use crate::service::local::slot::SlotStatus;

impl Holdings {
    /// How many strict tags have something held, or waited for.
    pub(in crate::service::leader) fn tags_held(&self) -> usize {
        self.tags.len()
    }

    /// What is held of the line that a tag is drawn from now, while `waiting` requests wait for more of the tag.
    pub(in crate::service::leader) fn status(
        &self,
        tag: &str,
        waiting: usize,
        now_ms: u64,
    ) -> Option<SlotStatus> {
        let (name, held) = self.drawn_from(tag)?;
        let outlook = held.buffer.as_ref()?.outlook(now_ms);
        Some(SlotStatus {
            handed_out: held.installed - outlook.remaining,
            outlook,
            waiting,
            is_open: true,
            exhausted: held.exhausted,
            period: name.period().map(|number| number.0),
        })
    }

    /// The first buffers, at most `limit`, in the order of their tags.
    pub(in crate::service::leader) fn views(&self, limit: usize) -> Vec<(BizTag, BufferView)> {
        let view = |tag: &BizTag| {
            let (_, held) = self.drawn_from(tag.as_str())?;
            Some((tag.clone(), held.buffer.as_ref()?.view()))
        };
        self.tags.keys().take(limit).filter_map(view).collect()
    }

    /// At most `limit` tags, among them the ones whose callers wait soonest: all tags, or the tags with a grab under
    /// way, because little of these is left.
    pub(in crate::service::leader) fn watched(&self, limit: usize) -> Vec<BizTag> {
        if self.tags.len() <= limit {
            return self.tags.keys().cloned().collect();
        }
        let grabbed = self.in_flight.values().filter(|(_, name)| !name.is_section());
        grabbed.take(limit).map(|(tag, _)| tag.clone()).collect()
    }

    /// The latest line of a tag that was ever held, or else the latest that is waited for.
    fn drawn_from(&self, tag: &str) -> Option<(LineName, &HeldLine)> {
        let lines = self.tags.get(tag)?;
        let opened = lines.iter().rev().find(|(_, held)| held.opened);
        opened.or_else(|| lines.last_key_value()).map(|(name, held)| (*name, held))
    }
}
