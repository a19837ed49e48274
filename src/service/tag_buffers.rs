//! What this node holds of tags, for people who watch it: a page of tags by name, or those that wait soonest.
//!
//! Neither looks at all tags of a node, of which there may be a million. A page is a page of the state, and one
//! look-up for each of its rows. Those that wait soonest are found among a thousand at most.

use super::error::Error;
use super::log_access::{Consistency, refresh};
use super::slot::SlotStatus;
use super::tags::TagService;
use crate::state::TagRow;
use crate::tag::BizTag;

/// A tag, and what this node holds of it; `None` for a tag that it was not asked for since it started.
pub type TagHolding = (TagRow, Option<SlotStatus>);

/// One page of tags with what this node holds of them.
#[derive(Debug)]
pub struct HoldingsPage {
    /// The tags.
    pub rows: Vec<TagHolding>,
    /// The name after which the next page begins; `None` on the last page.
    pub next: Option<BizTag>,
    /// How many tags there are in this node's copy, on whatever page.
    pub total: usize,
}

impl TagService {
    /// One page of tags as [`TagService::page`] gives them, and what this node holds of each.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn holdings(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        has_room: impl FnMut(&TagRow) -> bool,
        consistency: Consistency,
    ) -> Result<HoldingsPage, Error> {
        let page = self.page(prefix, after, limit, has_room, consistency).await?;
        let slots = self.table.pin();
        let with_status = |row: TagRow| {
            let status = slots.get(&row.tag).map(|slot| slot.status());
            (row, status)
        };
        let rows = page.rows.into_iter().map(with_status).collect();
        Ok(HoldingsPage { rows, next: page.next, total: self.total() })
    }

    /// Up to `limit` tags whose names begin with `prefix` and lie behind `after`, and that are in use, those first whose callers wait or
    /// will wait soonest if no grab brings more ids: among all tags of this node, or where they are more than
    /// a thousand among those that lasted shortest when the node last looked, every 15 s.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn soonest_to_wait(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        consistency: Consistency,
    ) -> Result<HoldingsPage, Error> {
        refresh(&self.replica, consistency).await?;
        let mut found: Vec<(BizTag, SlotStatus)> = {
            let slots = self.table.pin();
            let watched = self.table.watched().into_iter();
            let watched = watched.filter(|tag| {
                let name = tag.as_str();
                name.starts_with(prefix) && after.is_none_or(|after| name > after)
            });
            let in_use = |tag: BizTag| {
                let status = slots.get(&tag)?.status();
                status.waits_in_s().map(|_| (tag, status))
            };
            watched.filter_map(in_use).collect()
        };
        found.sort_by(|(one, a), (other, b)| {
            let soonest = |status: &SlotStatus| status.waits_in_s().unwrap_or(f64::INFINITY);
            soonest(a).total_cmp(&soonest(b)).then_with(|| one.cmp(other))
        });
        found.truncate(limit);
        let row = |(tag, status): (BizTag, SlotStatus)| {
            let row = self.replica.read(|state| state.tag(tag.as_str()))?;
            Some((row, Some(status)))
        };
        let rows = found.into_iter().filter_map(row).collect();
        Ok(HoldingsPage { rows, next: None, total: self.total() })
    }

    fn total(&self) -> usize {
        self.replica.read(|state| state.len())
    }
}
