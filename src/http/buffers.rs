//! `GET /v1/buffers`: tags, and what the node that answers holds of them.

use std::ops::Range;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use super::problem::Problem;
use super::query::Query;
use super::tags::{TagBody, consistency, row_bytes};
use crate::limits::{PAGE_BYTES_MAX, TAGS_PAGE_DEFAULT, TAGS_PAGE_MAX};
use crate::service::{
    HoldingsPage, Refusal, RefusedFor, SlotStatus, TagHolding, TagRow, TagService,
};

/// Bytes of a buffer in answers, at most.
const BUFFER_BYTES: usize = 530;

pub(super) async fn list(
    State(service): State<Arc<TagService>>,
    uri: Uri,
) -> Result<Json<Page>, Problem> {
    let mut query = Query::parse(uri.query())?;
    let prefix = query.text("prefix").unwrap_or_default();
    let after = query.text("after");
    let limit = query.integer("limit", 1..=TAGS_PAGE_MAX)?.unwrap_or(TAGS_PAGE_DEFAULT);
    let by_need = query.choice("sort", [("name", false), ("need", true)])?.unwrap_or(false);
    let consistency = consistency(&mut query)?;
    query.finish()?;
    let mut bytes = 0;
    let mut has_room = |row: &TagRow| {
        bytes += row_bytes(row) + BUFFER_BYTES;
        bytes <= PAGE_BYTES_MAX
    };
    let after = after.as_deref();
    if !by_need {
        let page = service.holdings(&prefix, after, limit, has_room, consistency).await?;
        return Ok(Json(page.into()));
    }
    let mut page = service.soonest_to_wait(&prefix, after, limit, consistency).await?;
    let fit = page.rows.iter().take_while(|held| has_room(&held.row)).count();
    page.rows.truncate(fit);
    Ok(Json(page.into()))
}

/// A page of tags with what the node holds of them.
#[derive(Serialize)]
pub(super) struct Page {
    tags: Vec<Holding>,
    /// The next page begins after this tag; `None` on the last page.
    next: Option<String>,
    /// How many tags there are on all pages, whatever the prefix.
    total: usize,
    /// How many keys all registers have, and how many they may have.
    register_keys: String,
    register_keys_max: String,
    /// Tags that refused callers of this node within the last minute, the latest first.
    refused: Vec<RefusedTag>,
    /// The tag of the cluster that was nearest to its end at the last look, which is every 30 s, if it was near.
    nearest_end: Option<NearestEnd>,
}

#[derive(Serialize)]
struct RefusedTag {
    tag: String,
    code: &'static str,
    ago_ms: u64,
}

#[derive(Serialize)]
struct NearestEnd {
    tag: String,
    /// The share of its ids that is left, 0 to 1.
    left: f64,
}

impl From<Refusal> for RefusedTag {
    fn from(Refusal { tag, why, ago_ms }: Refusal) -> Self {
        let code = match why {
            RefusedFor::Exhausted => "exhausted",
            RefusedFor::Frozen => "frozen",
        };
        Self { tag: tag.to_string(), code, ago_ms }
    }
}

impl From<HoldingsPage> for Page {
    fn from(page: HoldingsPage) -> Self {
        Self {
            tags: page.rows.into_iter().map(Holding::from).collect(),
            next: page.next.map(|tag| tag.to_string()),
            total: page.total,
            register_keys: page.register_keys.to_string(),
            register_keys_max: page.register_keys_max.to_string(),
            refused: page.refused.into_iter().map(RefusedTag::from).collect(),
            nearest_end: page.nearest.map(|(left, tag)| NearestEnd { tag: tag.to_string(), left }),
        }
    }
}

/// A tag, and what the node holds of it.
#[derive(Serialize)]
struct Holding {
    #[serde(flatten)]
    tag: TagBody,
    /// `None` where the node holds nothing.
    buffer: Option<Buffer>,
    /// The leader, of a tag that it alone holds ids of.
    held_by: Option<u64>,
    /// How many ids of such a tag callers took at this node.
    taken_here: Option<String>,
    /// How many keys a register has.
    keys: Option<String>,
}

impl From<TagHolding> for Holding {
    fn from(TagHolding { row, status, held_by, taken_here, keys }: TagHolding) -> Self {
        let [taken_here, keys] =
            [taken_here, keys].map(|count| count.map(|count| count.to_string()));
        Self { tag: row.into(), buffer: status.map(Buffer::from), held_by, taken_here, keys }
    }
}

#[derive(Serialize)]
struct Buffer {
    /// The period that the ids are of, where there is one.
    period: Option<String>,
    /// The next id to be given, where a segment is held or was.
    next_id: Option<String>,
    current: Option<Span>,
    upcoming: Option<Span>,
    held: String,
    handed_out: String,
    ids_to_grab: String,
    grabbing: bool,
    waiting: usize,
    exhausted: bool,
    /// Ids a second.
    rate: f64,
    /// For how many seconds what is held lasts at that rate.
    lasts_s: Option<f64>,
}

#[derive(Serialize)]
struct Span {
    start: String,
    end: String,
}

impl From<Range<u64>> for Span {
    fn from(segment: Range<u64>) -> Self {
        Self { start: segment.start.to_string(), end: segment.end.to_string() }
    }
}

impl From<SlotStatus> for Buffer {
    fn from(status: SlotStatus) -> Self {
        let outlook = status.outlook;
        Self {
            period: status.period.map(|number| number.to_string()),
            rate: thousandths(outlook.rate()),
            lasts_s: outlook.lasts_s().map(thousandths),
            next_id: outlook.current.as_ref().map(|_| outlook.cursor.to_string()),
            current: outlook.current.map(Span::from),
            upcoming: outlook.next.map(Span::from),
            held: outlook.remaining.to_string(),
            handed_out: status.handed_out.to_string(),
            ids_to_grab: outlook.ids_to_grab.to_string(),
            grabbing: outlook.grab_in_flight,
            waiting: status.waiting,
            exhausted: status.exhausted,
        }
    }
}

fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use mintleaf_core::segment::Outlook;

    #[test]
    fn the_longest_buffer_has_as_many_bytes_as_a_page_counts_on() {
        let last = u64::MAX..u64::MAX;
        let outlook = Outlook {
            current: Some(last.clone()),
            cursor: u64::MAX,
            next: Some(last),
            remaining: u64::MAX,
            ids_to_grab: u64::MAX,
            grab_in_flight: false,
            used: u64::MAX / 3,
            used_in_ms: 1_007,
        };
        let status = SlotStatus {
            outlook,
            handed_out: u64::MAX,
            waiting: 10_000,
            is_open: true,
            exhausted: false,
            period: Some(u32::MAX),
        };
        let buffer = serde_json::to_vec(&Buffer::from(status)).unwrap().len();
        let led = format!(r#""buffer":,"held_by":{0},"taken_here":"{0}","keys":"{0}","#, u64::MAX);
        let bytes = buffer + led.len();
        assert!((BUFFER_BYTES - 80..=BUFFER_BYTES).contains(&bytes), "{bytes}");
    }
}
