//! `GET /v1/audit`: who changed what.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use serde_json::{Map, Value};

use super::problem::Problem;
use super::query::Query;
use super::tags::{consistency, json_bytes};
use crate::limits::{AUDIT_PAGE_DEFAULT, AUDIT_PAGE_MAX, PAGE_BYTES_MAX};
use crate::service::{AuditEntry, AuditPart, AuditService, Fact, Facts};
use crate::text::timestamp::rfc3339;

/// Bytes of an entry in answers besides its texts, at most.
const ENTRY_BYTES: usize = 512;

pub(super) async fn list(
    State(service): State<Arc<AuditService>>,
    uri: Uri,
) -> Result<Json<Page>, Problem> {
    let mut query = Query::parse(uri.query())?;
    let after = query.integer("after", 0..=u64::MAX)?;
    let newest_first = query.choice("sort", [("oldest", false), ("newest", true)])?;
    let part = match newest_first.unwrap_or(false) {
        false => AuditPart::After(after.unwrap_or(0)),
        true => AuditPart::Before(after.unwrap_or(u64::MAX)),
    };
    let limit = query.integer("limit", 1..=AUDIT_PAGE_MAX)?.unwrap_or(AUDIT_PAGE_DEFAULT);
    let consistency = consistency(&mut query)?;
    query.finish()?;
    let mut bytes = 0;
    let has_room = |entry: &AuditEntry| {
        bytes += ENTRY_BYTES + entry.texts().map(json_bytes).sum::<usize>();
        bytes <= PAGE_BYTES_MAX
    };
    let page = service.page(part, limit, has_room, consistency).await?;
    let entries = page.entries.into_iter().map(EntryBody::from).collect();
    Ok(Json(Page { entries, next: page.next }))
}

/// One admin change in answers.
#[derive(Serialize)]
struct EntryBody {
    index: u64,
    time: String,
    actor: String,
    action: &'static str,
    target: Box<str>,
    before: Option<Map<String, Value>>,
    after: Option<Map<String, Value>>,
}

impl From<AuditEntry> for EntryBody {
    fn from(entry: AuditEntry) -> Self {
        Self {
            index: entry.index,
            time: rfc3339(entry.time_ms),
            actor: entry.actor.to_string(),
            action: entry.action.name(),
            target: entry.target,
            before: object(entry.before),
            after: object(entry.after),
        }
    }
}

/// A page of admin changes.
#[derive(Serialize)]
pub(super) struct Page {
    entries: Vec<EntryBody>,
    /// The next page begins after this number; `None` on the last page.
    next: Option<u64>,
}

/// Facts as an object; `None` where there are none.
fn object(facts: Facts) -> Option<Map<String, Value>> {
    let value = |fact| match fact {
        Fact::Nothing => Value::Null,
        Fact::Flag(flag) => flag.into(),
        Fact::Number(number) => number.into(),
        Fact::Id(id) => id.to_string().into(),
        Fact::Text(text) => String::from(text).into(),
    };
    let members = facts.into_iter().map(|(field, fact)| (field.name().to_owned(), value(fact)));
    let object = members.collect::<Map<_, _>>();
    (!object.is_empty()).then_some(object)
}
