//! `/v1/sequence/{tag}/{key}`: numbers of a key, and the last of them.

use std::slice;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, Response, Uri};
use axum::response::IntoResponse;
use serde::Serialize;

use super::id_answers::hold;
use super::ids::{IdQuery, wants_text};
use super::problem::Problem;
use super::query::Query;
use crate::connection::answer_budget::OriginBudget;
use crate::service::{IdService, KeyName, KeyRequest};
use crate::text::path_segment;

type Ids = State<Arc<IdService>>;

/// How many segments of the path precede the tag: the empty one, `v1`, and `sequence` or `register`.
const BEFORE_TAG: usize = 3;

/// Whether a path belongs to sequences.
pub(super) fn is_taken_at(path: &str) -> bool {
    path.starts_with("/v1/sequence/")
}

pub(super) async fn take(
    State(service): Ids,
    Extension(budget): Extension<OriginBudget>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let (of, wanted) = asked(&uri, &headers)?;
    let (tag, key) = (of.tag.to_string(), of.key.to_string());
    let reserved = match wanted.long_bytes_max_of_key(&tag, &key) {
        Some(bytes) => Some(budget.reserve(bytes).ok_or_else(Problem::unread_answers)?),
        None => None,
    };
    let numbers = service.take_of_key(KeyRequest { of, count: wanted.count }).await?;
    let answer = match wanted.is_text {
        true => wanted.answer(None, None, slice::from_ref(&numbers))?.map(Body::from),
        false => {
            let body = wanted.body_of_key(&tag, &key, numbers);
            ([(CONTENT_TYPE, wanted.content_type())], Body::from(body)).into_response()
        }
    };
    Ok(hold(&budget, reserved, answer).await)
}

/// The head of what [`take`] answers; it takes nothing.
pub(super) async fn head(
    State(service): Ids,
    uri: Uri,
    headers: HeaderMap,
) -> Result<[(HeaderName, &'static str); 1], Problem> {
    let (of, wanted) = asked(&uri, &headers)?;
    service.could_take_of_key(&KeyRequest { of, count: wanted.count }).await?;
    Ok([(CONTENT_TYPE, wanted.content_type())])
}

pub(super) async fn last(State(service): Ids, uri: Uri) -> Result<Json<LastBody>, Problem> {
    let of = name(&uri)?;
    Query::parse(uri.query())?.finish()?;
    let last = service.last_of_key(of).await?;
    Ok(Json(LastBody { last: last.number.map(|number| number.to_string()), exact: last.is_exact }))
}

fn asked(uri: &Uri, headers: &HeaderMap) -> Result<(KeyName, IdQuery), Problem> {
    Ok((name(uri)?, IdQuery::of(uri.query(), wants_text(headers))?))
}

/// The tag and the key that a path names.
pub(super) fn name(uri: &Uri) -> Result<KeyName, Problem> {
    let mut segments = uri.path().split('/').skip(BEFORE_TAG);
    let mut decoded = |field| {
        let text = segments.next().and_then(path_segment::decode);
        text.ok_or_else(|| Problem::invalid(field, "has %-escapes that are malformed or not UTF-8"))
    };
    let (tag, key) = (decoded("tag")?, decoded("key")?);
    Ok(KeyName::parse(&tag, &key)?)
}

/// The last number of a key in answers.
#[derive(Serialize)]
pub(super) struct LastBody {
    last: Option<String>,
    exact: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_is_reserved_is_enough_for_the_longest_names_and_numbers() {
        let (tag, key) = ("\"".repeat(128), "\u{1}".repeat(256));
        let wanted = IdQuery::of(Some("count=10000"), false).unwrap();
        let numbers = u64::MAX / 2 - wanted.count..u64::MAX / 2;
        let reserved = wanted.long_bytes_max_of_key(&tag, &key).unwrap();
        let length = wanted.body_of_key(&tag, &key, numbers).len();
        assert!(length <= reserved && reserved < 2 * length, "{length} of {reserved}");
    }
}
