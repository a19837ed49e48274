//! `/v1/register/{tag}`: numbers without a gap, each given to a key for good.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use mintleaf_core::limits::ID_MAX;
use mintleaf_core::shape::PeriodNumber;
use mintleaf_core::state::RegisterEntry;
use serde::Serialize;

use super::key;
use super::problem::Problem;
use super::query::Query;
use super::sequences::name;
use super::tags::consistency;
use crate::service::{IdService, KeyName, Registered};
use crate::text::timestamp::rfc3339;

type Ids = State<Arc<IdService>>;

/// Keys on one page, by default and at most.
const PAGE_KEYS_DEFAULT: usize = 100;
const PAGE_KEYS_MAX: usize = 1_000;

/// Whether a path belongs to registers.
pub(super) fn is_taken_at(path: &str) -> bool {
    path.starts_with("/v1/register/")
}

/// The number of a key in answers.
#[derive(Serialize)]
pub(super) struct RegisteredBody {
    tag: String,
    key: String,
    id: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<String>,
    new: bool,
}

/// One page of a register in answers.
#[derive(Serialize)]
pub(super) struct RegisterBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<String>,
    entries: Vec<EntryBody>,
    next: Option<String>,
}

#[derive(Serialize)]
struct EntryBody {
    id: String,
    key: String,
    time: String,
}

/// Answers the number of a key, which gets the next one if it has none.
pub(super) async fn register(
    State(service): Ids,
    uri: Uri,
) -> Result<(StatusCode, Json<RegisteredBody>), Problem> {
    let of = name(&uri)?;
    Query::parse(uri.query())?.finish()?;
    let registered = service.register(&of).await?;
    let status = if registered.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(RegisteredBody::of(&of, registered))))
}

pub(super) async fn show(State(service): Ids, uri: Uri) -> Result<Json<RegisteredBody>, Problem> {
    let of = name(&uri)?;
    let mut query = Query::parse(uri.query())?;
    let consistency = consistency(&mut query)?;
    query.finish()?;
    let registered = service.registered(&of, consistency).await?;
    Ok(Json(RegisteredBody::of(&of, registered)))
}

pub(super) async fn list(State(service): Ids, uri: Uri) -> Result<Json<RegisterBody>, Problem> {
    let tag = key::tag(uri.path())?;
    let mut query = Query::parse(uri.query())?;
    let consistency = consistency(&mut query)?;
    let period = query.integer("period", 1..=u32::MAX)?.map(PeriodNumber);
    let after = query.integer("after", 0..=ID_MAX)?.unwrap_or(0);
    let limit = query.integer("limit", 1..=PAGE_KEYS_MAX)?.unwrap_or(PAGE_KEYS_DEFAULT);
    query.finish()?;
    let page = service.register_page(&tag, period, (after, limit), consistency).await?;
    let shown = page.entries.first().and_then(|first| first.period).or(period);
    Ok(Json(RegisterBody {
        period: shown.map(|period| period.0.to_string()),
        entries: page.entries.into_iter().map(EntryBody::from).collect(),
        next: page.next.map(|next| next.to_string()),
    }))
}

impl RegisteredBody {
    fn of(KeyName { tag, key }: &KeyName, registered: Registered) -> Self {
        let Registered { number, period, text, is_formatted: _, is_new } = registered;
        Self {
            tag: tag.to_string(),
            key: key.to_string(),
            id: number.to_string(),
            text,
            period: period.map(|period| period.0.to_string()),
            new: is_new,
        }
    }
}

impl From<RegisterEntry> for EntryBody {
    fn from(entry: RegisterEntry) -> Self {
        let RegisterEntry { key, number, period: _, time_ms } = entry;
        Self { id: number.to_string(), key: key.into(), time: rfc3339(time_ms) }
    }
}
