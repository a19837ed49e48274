//! What this node holds of tags, for people who monitor it: a page of tags by name, or the tags whose callers wait
//! soonest.
//!
//! Neither looks at all tags of a node, since there may be a million. A page is a page of the state, plus one look-up
//! for each row. The search for the soonest looks at a thousand tags at most.

use mintleaf_core::state::{State, TagRow};
use mintleaf_core::tag::BizTag;

use super::tags::TagService;
use crate::service::error::Error;
use crate::service::local::slot::SlotStatus;
use crate::service::log_access::{Consistency, refresh};
use crate::service::refusals::{Refusal, RefusedFor};
use crate::service::source::Source;
use crate::service::tag_table::{PinnedTags, WATCHED_MAX};

/// A tag, and what this node holds of it.
#[derive(Debug)]
pub struct TagHolding {
    /// The tag.
    pub row: TagRow,
    /// What this node holds of it; of a tag with periods, what it holds of the present one. `None` where it holds
    /// nothing: of a tag that it was not asked for since it started, of a strict tag while another node leads, and of a
    /// sequence, because its numbers are held by keys.
    pub status: Option<SlotStatus>,
    /// For a strict tag and a sequence: the leader, if this node knows one, because only the leader holds anything of
    /// it. `None` for all other tags, since each node holds its own ids of those.
    pub held_by: Option<u64>,
    /// For a strict tag and a sequence: how many ids callers took at this node since it was first asked for some.
    /// `None` for all other tags, and before the first.
    pub taken_here: Option<u64>,
    /// How many keys a register has; `None` for all other tags.
    pub keys: Option<u64>,
}

impl TagHolding {
    fn of(
        row: TagRow,
        status: Option<SlotStatus>,
        leader: Option<u64>,
        tags: &PinnedTags<'_>,
        state: &State,
    ) -> Self {
        let held_by = leader.filter(|_| is_led(&row));
        let taken_here = tags.get(&row.tag).and_then(Source::taken_here);
        let keys = row.giver().records_keys().then(|| state.register_keys_of(row.tag.as_str()));
        Self { row, status, held_by, taken_here, keys }
    }
}

/// Whether the leader alone holds anything of a tag.
fn is_led(row: &TagRow) -> bool {
    row.giver().is_leader()
}

/// One page of tags with what this node holds of them.
#[derive(Debug)]
pub struct HoldingsPage {
    /// The tags.
    pub rows: Vec<TagHolding>,
    /// The next page begins after this name; `None` on the last page.
    pub next: Option<BizTag>,
    /// How many tags there are in this node's copy, on all pages.
    pub total: usize,
    /// How many keys there are in this node's copy, in all registers.
    pub register_keys: u64,
    /// How many there may be.
    pub register_keys_max: u64,
    /// The tags that refused callers of this node in the last minute, and are still as they were then.
    pub refused: Vec<Refusal>,
    /// The tag that was nearest to its end when this node last looked, if it was near, and the share of its ids left.
    pub nearest: Option<(f64, BizTag)>,
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
        let rows = self.with_statuses(page.rows);
        Ok(self.holdings_page(rows, page.next))
    }

    /// Up to `limit` tags in use whose names begin with `prefix` and sort after `after`. First come the tags whose
    /// callers wait already, or will wait soonest if no grab brings more ids. If this node has more than a thousand
    /// tags, only those are considered that lasted shortest when it last looked, every 15 s.
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
        refresh(&self.parts.replica, consistency).await?;
        let mut found = self.in_use(|name: &str| {
            name.starts_with(prefix) && after.is_none_or(|after| name > after)
        });
        found.sort_by(|(one, a), (other, b)| {
            let soonest = |status: &SlotStatus| status.waits_in_s().unwrap_or(f64::INFINITY);
            soonest(a).total_cmp(&soonest(b)).then_with(|| one.cmp(other))
        });
        found.truncate(limit);
        let leader = self.parts.replica.node().leader_id();
        let tags = self.parts.table.pin();
        let holding = |(tag, status): (BizTag, SlotStatus)| {
            self.parts.replica.read(|state| {
                let row = state.tag(tag.as_str())?;
                Some(TagHolding::of(row, Some(status), leader, &tags, state))
            })
        };
        let rows = found.into_iter().filter_map(holding).collect();
        Ok(self.holdings_page(rows, None))
    }

    /// Among the tags that are watched, those in use whose names `is_wanted` accepts, with what is held of each.
    fn in_use(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(BizTag, SlotStatus)> {
        let now_ms = self.parts.replica.node().median_now_ms();
        let mut strict = self.parts.table.ledger().lock().watched(WATCHED_MAX);
        strict.retain(|tag| is_wanted(tag.as_str()));
        let statuses = self.strict_statuses(&strict);
        let strict = strict.into_iter().zip(statuses);
        let tags = self.parts.table.pin();
        let watched = self.parts.table.watched().into_iter().filter(|tag| is_wanted(tag.as_str()));
        let others = watched.map(|tag| {
            let status = tags.get(&tag).and_then(|source| source.status(now_ms));
            (tag, status)
        });
        let used = |(tag, status): (BizTag, Option<SlotStatus>)| {
            let status = status?;
            status.waits_in_s().map(|_| (tag, status))
        };
        others.chain(strict).filter_map(used).collect()
    }

    /// The rows with what this node holds of each.
    fn with_statuses(&self, rows: Vec<TagRow>) -> Vec<TagHolding> {
        let now_ms = self.parts.replica.node().median_now_ms();
        let led = rows.iter().filter(|row| is_led(row));
        let led: Vec<BizTag> = led.map(|row| row.tag.clone()).collect();
        let mut of_led = self.strict_statuses(&led).into_iter();
        let leader = self.parts.replica.node().leader_id();
        let tags = self.parts.table.pin();
        let holding = |row: TagRow| {
            let status = match is_led(&row) {
                true => of_led.next().flatten(),
                false => tags.get(&row.tag).and_then(|source| source.status(now_ms)),
            };
            self.parts.replica.read(|state| TagHolding::of(row, status, leader, &tags, state))
        };
        rows.into_iter().map(holding).collect()
    }

    /// What this node holds of strict tags; nothing of other ones.
    fn strict_statuses(&self, tags: &[BizTag]) -> Vec<Option<SlotStatus>> {
        if tags.is_empty() {
            return Vec::new();
        }
        let now_ms = self.parts.clock.monotonic_ms();
        let statuses = self.parts.table.ledger().lock().statuses(tags, now_ms);
        let both = tags.iter().zip(statuses);
        let with_gate = |(tag, status): (&BizTag, Option<SlotStatus>)| {
            let protection = self.parts.replica.read(|state| state.protection(tag.as_str()));
            let is_open = protection.is_some_and(|protection| !protection.frozen);
            status.map(|status| SlotStatus { is_open, ..status })
        };
        both.map(with_gate).collect()
    }

    fn holdings_page(&self, rows: Vec<TagHolding>, next: Option<BizTag>) -> HoldingsPage {
        let refusals = self.parts.table.refusals();
        let (mut refused, nearest) =
            (refusals.lately(self.parts.clock.monotonic_ms()), refusals.nearest());
        self.parts.replica.read(|state| {
            refused.retain(|refusal| {
                let now = state.protection(refusal.tag.as_str());
                now.is_some_and(|now| now.frozen == (refusal.why == RefusedFor::Frozen))
            });
            let nearest = nearest.filter(|(_, tag)| state.protection(tag.as_str()).is_some());
            HoldingsPage {
                rows,
                next,
                total: state.len(),
                register_keys: state.register_keys(),
                register_keys_max: self.parts.settings.register_keys_max,
                refused,
                nearest,
            }
        })
    }
}
