//! `/v1/tags`: create, read, list, change, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode, Uri};
use mintleaf_core::limits::{
    DESCRIPTION_CHARS_MAX, ID_END, ID_MAX, RATE_LIMIT_MAX, START_DEFAULT, STEP_MAX,
};
use mintleaf_core::tag::BizTag;
use serde::Serialize;

use super::access::Sender;
use super::body::{Fields, required};
use super::key;
use super::problem::Problem;
use super::query::Query;
use super::tag_shape::{self, ShapeBody};
use crate::limits::{PAGE_BYTES_MAX, TAGS_PAGE_DEFAULT, TAGS_PAGE_MAX};
use crate::service::{Consistency, Protection, TagChange, TagRow, TagService, TagSpec};
use crate::text::path_segment;
use crate::text::timestamp::rfc3339;

/// Bytes of a tag in answers besides its name, description and format, at most.
const ROW_BYTES: usize = 450;

type Tags = State<Arc<TagService>>;

pub(super) async fn create(
    State(service): Tags,
    sender: Sender,
    mut fields: Fields,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<TagBody>), Problem> {
    let tag = required("tag", fields.text("tag")?)?;
    let tag = BizTag::parse(&tag).map_err(|error| Problem::invalid_argument(error.to_string()))?;
    sender.check(&tag)?;
    let step = fields.integer("step", 1..=STEP_MAX)?;
    let step_max = fields.nullable_integer("step_max", 1..=STEP_MAX)?.flatten();
    let start = fields.big_integer("start", 1..=ID_MAX)?.unwrap_or(START_DEFAULT);
    let description = description(&mut fields)?.unwrap_or_default();
    let rate_limit = fields.nullable_integer("rate_limit", 1..=RATE_LIMIT_MAX)?.flatten();
    let frozen = fields.flag("frozen")?.unwrap_or(false);
    let shape = tag_shape::shape(&mut fields)?;
    fields.finish()?;
    let location = format!("/v1/tags/{}", path_segment::escape(tag.as_str()));
    let protection = Protection { rate_limit, frozen };
    let spec = TagSpec { step, step_max, start, description, protection, shape };
    let row = service.create(&sender.actor(), tag, spec).await?;
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(row.into())))
}

pub(super) async fn get(State(service): Tags, uri: Uri) -> Result<Json<TagBody>, Problem> {
    let tag = key::tag(uri.path())?;
    let mut query = Query::parse(uri.query())?;
    let consistency = consistency(&mut query)?;
    query.finish()?;
    Ok(Json(service.get(tag.as_str(), consistency).await?.into()))
}

pub(super) async fn list(State(service): Tags, uri: Uri) -> Result<Json<Page>, Problem> {
    let mut query = Query::parse(uri.query())?;
    let prefix = query.text("prefix").unwrap_or_default();
    let after = query.text("after");
    let limit = query.integer("limit", 1..=TAGS_PAGE_MAX)?.unwrap_or(TAGS_PAGE_DEFAULT);
    let consistency = consistency(&mut query)?;
    query.finish()?;
    let mut bytes = 0;
    let has_room = |row: &TagRow| {
        bytes += row_bytes(row);
        bytes <= PAGE_BYTES_MAX
    };
    let page = service.page(&prefix, after.as_deref(), limit, has_room, consistency).await?;
    let next = page.next.map(|tag| tag.to_string());
    Ok(Json(Page { tags: page.rows.into_iter().map(TagBody::from).collect(), next }))
}

/// Bytes of a tag in answers, at most.
pub(super) fn row_bytes(row: &TagRow) -> usize {
    let format = row.shape.as_ref().and_then(|shape| shape.format.as_ref());
    let texts = [row.tag.as_str(), &row.description];
    let format = format.map(|format| format.as_str());
    ROW_BYTES + texts.into_iter().chain(format).map(json_bytes).sum::<usize>()
}

/// The bytes that a text takes in JSON, without its quotes.
pub(super) fn json_bytes(text: &str) -> usize {
    let bytes = |byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(bytes).sum()
}

pub(super) async fn update(
    State(service): Tags,
    sender: Sender,
    uri: Uri,
    mut fields: Fields,
) -> Result<Json<TagBody>, Problem> {
    let tag = key::tag(uri.path())?;
    let step = fields.integer("step", 1..=STEP_MAX)?;
    let step_max = fields.nullable_integer("step_max", 1..=STEP_MAX)?;
    let max_id = fields.big_integer("max_id", 1..=ID_END)?;
    let description = description(&mut fields)?;
    let rate_limit = fields.nullable_integer("rate_limit", 1..=RATE_LIMIT_MAX)?;
    let frozen = fields.flag("frozen")?;
    let force = fields.flag("force")?.unwrap_or(false);
    fields.finish()?;
    let change = TagChange { step, step_max, max_id, description, rate_limit, frozen, force };
    if change == (TagChange { force, ..TagChange::default() }) {
        let must = "must change step, step_max, max_id, description, rate_limit or frozen";
        return Err(Problem::invalid("body", must));
    }
    Ok(Json(service.update(&sender.actor(), tag, change).await?.into()))
}

pub(super) async fn delete(
    State(service): Tags,
    sender: Sender,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Query::parse(uri.query())?.finish()?;
    service.delete(&sender.actor(), key::tag(uri.path())?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn description(fields: &mut Fields) -> Result<Option<String>, Problem> {
    let text = fields.text("description")?;
    if text.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        let bound = format_args!("must be at most {DESCRIPTION_CHARS_MAX} characters");
        return Err(Problem::invalid("description", bound));
    }
    Ok(text)
}

pub(super) fn consistency(query: &mut Query<'_>) -> Result<Consistency, Problem> {
    let choices = [("linearizable", Consistency::Linearizable), ("stale", Consistency::Stale)];
    Ok(query.choice("consistency", choices)?.unwrap_or(Consistency::Linearizable))
}

/// A tag in answers.
#[derive(Serialize)]
pub(super) struct TagBody {
    tag: String,
    max_id: String,
    step: u32,
    step_max: Option<u32>,
    description: String,
    rate_limit: Option<u32>,
    frozen: bool,
    #[serde(flatten)]
    shape: ShapeBody,
    created_at: String,
    updated_at: String,
}

impl From<TagRow> for TagBody {
    fn from(row: TagRow) -> Self {
        let shape = ShapeBody::from(&row);
        Self {
            tag: row.tag.to_string(),
            max_id: row.max_id.to_string(),
            step: row.step,
            step_max: row.step_max,
            description: row.description,
            rate_limit: row.protection.rate_limit,
            frozen: row.protection.frozen,
            shape,
            created_at: rfc3339(row.created_at_ms),
            updated_at: rfc3339(row.updated_at_ms),
        }
    }
}

/// A page of tags.
#[derive(Serialize)]
pub(super) struct Page {
    tags: Vec<TagBody>,
    /// The next page begins after this tag; `None` on the last page.
    next: Option<String>,
}
