//! Leaf's own id paths: the bare number on success, Leaf's 500 on failure.
//!
//! Programs written for Leaf read the status and, some of them, the `id=-n` inside `message`,
//! so both stay as Leaf had them. Everything else about errors belongs to version 1.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode, Uri};
use serde::Serialize;

use super::key;
use super::problem::{FailedWith, Problem};
use crate::service::{ClusterService, Error, IdService};

/// One id of a tag. A query is ignored, as in Leaf.
pub(super) async fn segment(
    State(ids): State<Arc<IdService>>,
    State(cluster): State<Arc<ClusterService>>,
    uri: Uri,
) -> Response<axum::body::Body> {
    let outcome = match key::tag(uri.path()) {
        Ok(tag) => ids.next(tag.as_str()).await,
        // Leaf treats a malformed key as one that it does not know.
        Err(_) => Err(Error::UnknownTag),
    };
    let response = match outcome {
        Ok(id) => number(id),
        Err(error) => {
            let bootstrapped = cluster.view().cluster_id.is_some();
            failure(segment_code(&error, bootstrapped), error, uri.path(), ids.now_ms())
        }
    };
    response.map(axum::body::Body::from)
}

/// The head of the answer that [`segment`] would give. Takes no id.
pub(super) async fn segment_head(
    State(ids): State<Arc<IdService>>,
    State(cluster): State<Arc<ClusterService>>,
    uri: Uri,
) -> Response<axum::body::Body> {
    let outcome = match key::tag(uri.path()) {
        Ok(tag) => ids.could_take(tag.as_str(), 1).await,
        Err(_) => Err(Error::UnknownTag),
    };
    let response = match outcome {
        Ok(()) => success(Bytes::new()),
        Err(error) => {
            let bootstrapped = cluster.view().cluster_id.is_some();
            failure(segment_code(&error, bootstrapped), error, uri.path(), ids.now_ms())
        }
    };
    response.map(axum::body::Body::from)
}

/// One snowflake id. The key is ignored, as in Leaf.
pub(super) async fn snowflake(
    State(ids): State<Arc<IdService>>,
    uri: Uri,
) -> Response<axum::body::Body> {
    let response = match ids.next_snowflake().await {
        Ok(id) => number(id),
        Err(error) => no_snowflake(error, uri.path(), ids.now_ms()),
    };
    response.map(axum::body::Body::from)
}

/// The head of the answer that [`snowflake`] would give. Takes no id.
pub(super) async fn snowflake_head(
    State(ids): State<Arc<IdService>>,
    uri: Uri,
) -> Response<axum::body::Body> {
    let response = match ids.could_take_snowflakes().await {
        Ok(()) => success(Bytes::new()),
        Err(error) => no_snowflake(error, uri.path(), ids.now_ms()),
    };
    response.map(axum::body::Body::from)
}

/// The answer without a snowflake id. Leaf's -3 is a clock that went back too far. A failure that Leaf
/// has no code for, above all that no worker id is free, is a 503 with the same members.
fn no_snowflake(error: Error, path: &str, now_ms: u64) -> Response<Bytes> {
    let outcome = match error {
        Error::ClockBehind { .. } => {
            LeafStatus { status: StatusCode::INTERNAL_SERVER_ERROR, leaf_code: -3 }
        }
        _ => LeafStatus { status: StatusCode::SERVICE_UNAVAILABLE, leaf_code: -1 },
    };
    failure(outcome, error, path, now_ms)
}

/// The bare decimal id.
#[inline]
pub(super) fn number(id: u64) -> Response<Bytes> {
    success(Bytes::copy_from_slice(itoa::Buffer::new().format(id).as_bytes()))
}

fn success(body: Bytes) -> Response<Bytes> {
    answer(body, "text/plain;charset=UTF-8")
}

fn answer(body: Bytes, content_type: &'static str) -> Response<Bytes> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body of a failure; its members and their order are Spring's.
#[derive(Serialize)]
struct SpringError<'a> {
    timestamp: u64,
    status: u16,
    error: &'static str,
    message: String,
    path: &'a str,
}

/// The status of a failure, and Leaf's code for it.
struct LeafStatus {
    status: StatusCode,
    leaf_code: i8,
}

fn segment_code(error: &Error, bootstrapped: bool) -> LeafStatus {
    let leaf_code = match error {
        Error::UnknownTag | Error::NotFound { .. } | Error::InvalidArgument { .. } => -2,
        _ if !bootstrapped => -1,
        _ => -3,
    };
    LeafStatus { status: StatusCode::INTERNAL_SERVER_ERROR, leaf_code }
}

fn failure(outcome: LeafStatus, error: Error, path: &str, now_ms: u64) -> Response<Bytes> {
    let LeafStatus { status, leaf_code } = outcome;
    let body = SpringError {
        timestamp: now_ms,
        status: status.as_u16(),
        error: status.canonical_reason().unwrap_or_default(),
        message: format!("Result{{id={leaf_code}, status=EXCEPTION}}"),
        path,
    };
    // Strings and numbers always serialize.
    let body = Bytes::from(serde_json::to_vec(&body).unwrap_or_default());
    let mut response = answer(body, "application/json;charset=UTF-8");
    *response.status_mut() = status;
    response.extensions_mut().insert(FailedWith(Problem::from(error).code()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(error: Error, bootstrapped: bool) -> String {
        let outcome = segment_code(&error, bootstrapped);
        let response = failure(outcome, error, "/api/segment/get/x", 5);
        assert_eq!(response.status(), 500);
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["timestamp"], 5);
        assert_eq!(body["path"], "/api/segment/get/x");
        body["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn failures_carry_leafs_codes() {
        let unavailable = || Error::Unavailable { detail: "no quorum".into() };
        assert_eq!(message(unavailable(), false), "Result{id=-1, status=EXCEPTION}");
        assert_eq!(message(Error::UnknownTag, true), "Result{id=-2, status=EXCEPTION}");
        assert_eq!(message(unavailable(), true), "Result{id=-3, status=EXCEPTION}");
        let over = Error::OverRateLimit { after_s: 7 };
        let refused = [Error::Exhausted, Error::TooManyTags { tags_max: 7 }, Error::RateLimited];
        for refused in refused.into_iter().chain([over, Error::Frozen]) {
            assert_eq!(message(refused, true), "Result{id=-3, status=EXCEPTION}");
        }
    }

    #[test]
    fn a_clock_that_went_back_is_leafs_and_no_worker_id_is_a_503() {
        let told = |error| {
            let response = no_snowflake(error, "/api/snowflake/get/x", 5);
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["status"], response.status().as_u16());
            (response.status().as_u16(), body["message"].as_str().unwrap().to_owned())
        };
        let (behind, none) = (Error::ClockBehind { by_ms: 9 }, Error::unavailable("none"));
        assert_eq!(told(behind), (500, "Result{id=-3, status=EXCEPTION}".to_owned()));
        assert_eq!(told(none), (503, "Result{id=-1, status=EXCEPTION}".to_owned()));
    }

    #[test]
    fn success_is_the_bare_number() {
        let response = number(i64::MAX as u64);
        assert_eq!(response.body(), "9223372036854775807");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain;charset=UTF-8");
    }
}
