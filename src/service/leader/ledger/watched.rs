//! What is held and waited for, for people who monitor it.

use std::collections::BTreeMap;

use mintleaf_core::segment::BufferView;
use mintleaf_core::tag::BizTag;

use super::Ledger;
use crate::service::leader::confirmed::{Confirmed, Turn};
use crate::service::leader::request::Wanted;
use crate::service::local::slot::SlotStatus;

impl<T> Ledger<T> {
    /// How many strict tags and sequences this process holds anything of.
    pub(in crate::service) fn tags_held(&self) -> usize {
        self.holdings.tags_held() + self.holdings.counters().tags_held()
    }

    /// What is held of each of these tags; `None` of a tag that is not strict, or that nothing is held of.
    ///
    /// Every request waits for a round. The requests that are counted here wait longer: either a round has confirmed
    /// that they may be given ids, and there are none yet; or another round has to confirm that this node still leads.
    pub(in crate::service) fn statuses(
        &self,
        tags: &[BizTag],
        now_ms: u64,
    ) -> Vec<Option<SlotStatus>> {
        let mut waiting: BTreeMap<&str, usize> = tags.iter().map(|tag| (tag.as_str(), 0)).collect();
        let covered = self.confirmed.map_or(Turn::MAX, Confirmed::began);
        let batches = self.batches.range(..covered).flat_map(|(_, batch)| batch.open());
        for request in batches.filter(|request| matches!(request.wanted, Wanted::Ids { .. })) {
            if let Some(count) = waiting.get_mut(request.tag.as_str()) {
                *count += 1;
            }
        }
        let status = |tag: &BizTag| {
            let waiting = waiting.get(tag.as_str()).copied().unwrap_or(0);
            self.holdings.status(tag.as_str(), waiting, now_ms)
        };
        tags.iter().map(status).collect()
    }

    /// The first buffers of strict tags, at most `limit`, in the order of their tags.
    pub(in crate::service) fn views(&self, limit: usize) -> Vec<(BizTag, BufferView)> {
        self.holdings.views(limit)
    }

    /// At most `limit` strict tags that include those whose callers wait soonest.
    pub(in crate::service) fn watched(&self, limit: usize) -> Vec<BizTag> {
        self.holdings.watched(limit)
    }
}
