//! Errors as clients see them: RFC 9457 `application/problem+json` with a stable `code`.
//!
//! This is the one place that gives an error its status and code. Handlers answer with a [`Problem`];
//! the dispatch writes its body, because it knows the path and the mode.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::service::Error;

/// A refused or failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// When the same request may succeed, in seconds from now.
    retry_after_s: Option<u64>,
    /// The largest count that would not be refused for this reason.
    count_max: Option<u64>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let passes =
            matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        let retry_after_s = passes.then_some(1);
        Self { status, code, detail: detail.into(), retry_after_s, count_max: None }
    }

    /// An argument that is missing, malformed or out of bounds; `fault` continues the sentence after its name.
    pub(super) fn invalid(field: &str, fault: impl std::fmt::Display) -> Self {
        Self::invalid_argument(format!("{field} {fault}"))
    }

    /// An argument as for [`Problem::invalid`], with a sentence that names the argument itself.
    pub(super) fn invalid_argument(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_argument", detail)
    }

    /// A request whose sender has to show a valid token.
    pub(super) fn unauthenticated(why: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", why)
    }

    /// A request that its sender may not make; `why` says what to do instead.
    pub(super) fn forbidden(why: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", why)
    }

    /// A path that has no handler.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
    }

    /// A path that does not take this method.
    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path does not take that method; the allow header lists those it takes",
        )
    }

    /// A body that did not arrive in time.
    pub(super) fn stalled_body() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time")
    }

    /// A body above `bytes_max`.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body is longer than {bytes_max} bytes"),
        )
    }

    /// A request that is not HTTP.
    pub(super) fn unreadable() -> Self {
        Self::invalid_argument("this is no request of HTTP/1.1 that can be read")
    }

    /// A head that is too long, or has too many headers.
    pub(super) fn head_too_large() -> Self {
        Self::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "too_large",
            format!(
                "the head is longer than {HEAD_BYTES_MAX} bytes, or has more than {HEADERS_MAX} headers"
            ),
        )
    }

    /// A body that is not declared to be JSON.
    pub(super) fn not_json() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "send the body as content-type: application/json",
        )
    }

    /// An id that readers of JSON might round, on a node that does not give such ids as bare numbers.
    pub(super) fn json_number_too_large() -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "json_number_too_large",
            "the id is above 2^53 - 1, so a bare number would be rounded where numbers are doubles: ask /v1/, whose ids \
             are strings",
        )
    }

    /// A long answer that has no memory left, because clients do not read theirs.
    pub(super) fn unread_answers() -> Self {
        let detail = "too many answers wait to be read; try again soon";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", detail)
    }

    /// An answer that was not ready by its deadline.
    pub(super) fn too_late() -> Self {
        Self::unavailable("no answer could be had in time")
    }

    /// An answer that could not be had in time.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    /// The stable code.
    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    /// The status of the answer.
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The same problem for a tag. The detail names the tag where the problem is about the tag as such.
    pub(super) fn of_tag(error: Error, tag: &str) -> Self {
        let names_tag = matches!(error, Error::Exhausted | Error::UnknownTag);
        let mut problem = Self::from(error);
        if names_tag {
            problem.detail = format!("tag {tag}: {}", problem.detail);
        }
        problem
    }

    /// The sentence for people.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// The sentence for people.
    pub(super) fn into_detail(self) -> String {
        self.detail
    }

    /// Gives `response` this problem's headers and returns the body to send. `instance` is the path that was asked for,
    /// `request_id` the request's id, if it has one.
    pub(super) fn render(
        &self,
        response: &mut Response,
        instance: &str,
        request_id: Option<&str>,
    ) -> String {
        let headers = response.headers_mut();
        // A length that was computed for the body-less form would cut the body off.
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        self.json_of(Some(instance), request_id)
    }

    /// The body of a refusal of an unknown request.
    pub(super) fn json(&self) -> String {
        self.json_of(None, None)
    }

    fn json_of(&self, instance: Option<&str>, request_id: Option<&str>) -> String {
        let body = ProblemBody {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            count_max: self.count_max,
            instance,
            request_id,
        };
        // Strings and a number always serialize.
        serde_json::to_string(&body).unwrap_or_default()
    }
}

/// The members of RFC 9457 in the order that people read them, and `code`.
#[derive(Serialize)]
struct ProblemBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

fn status(error: &Error) -> StatusCode {
    match error {
        Error::InvalidArgument { .. } => StatusCode::BAD_REQUEST,
        Error::UnknownTag | Error::NotFound(_) | Error::OfKeys { .. } => StatusCode::NOT_FOUND,
        Error::TagExists | Error::Conflict(_) | Error::WrongCluster(_) | Error::Level(_) => {
            StatusCode::CONFLICT
        }
        Error::Exhausted
        | Error::AllLeased { .. }
        | Error::TooManyKeys { .. }
        | Error::TooManyTags { .. }
        | Error::CountOverRateLimit { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Error::Frozen => StatusCode::LOCKED,
        Error::RateLimited | Error::OverRateLimit { .. } | Error::Overloaded => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Error::ClockBehind { .. } | Error::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = match &error {
            Error::InvalidArgument { field, detail } if !detail.starts_with(field) => {
                format!("{field} {detail}")
            }
            Error::UnknownTag => "there is no such tag; POST /v1/tags creates one".to_owned(),
            Error::TagExists => "the tag exists already".to_owned(),
            Error::Overloaded => "too many requests are waiting; try again soon".to_owned(),
            error => error.to_string(),
        };
        let problem = Self::new(status(&error), error.code(), detail);
        match error {
            Error::OverRateLimit { after_s } => Self { retry_after_s: Some(after_s), ..problem },
            Error::CountOverRateLimit { count_max } => {
                Self { count_max: Some(count_max), ..problem }
            }
            _ => problem,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Marks an answer that failed with this code but has its own body, for the error counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedWith(pub(super) &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(error: Error) -> (u16, &'static str) {
        let problem = Problem::from(error);
        (problem.status.as_u16(), problem.code)
    }

    #[test]
    fn every_error_has_its_status_and_code() {
        let detail = String::new;
        assert_eq!(
            seen(Error::InvalidArgument { field: "step", detail: detail() }),
            (400, "invalid_argument")
        );
        assert_eq!(seen(Error::UnknownTag), (404, "unknown_tag"));
        assert_eq!(seen(Error::NotFound(detail())), (404, "not_found"));
        assert_eq!(seen(Error::TagExists), (409, "tag_exists"));
        assert_eq!(seen(Error::Conflict(detail())), (409, "conflict"));
        assert_eq!(seen(Error::WrongCluster(detail())), (409, "wrong_cluster"));
        assert_eq!(seen(Error::Level(detail())), (409, "level"));
        assert_eq!(seen(Error::Exhausted), (422, "exhausted"));
        assert_eq!(seen(Error::TooManyKeys { keys_max: 7 }), (422, "too_many_keys"));
        assert_eq!(seen(Error::TooManyTags { tags_max: 7 }), (422, "too_many_tags"));
        assert_eq!(seen(Error::Overloaded), (429, "overloaded"));
        assert_eq!(seen(Error::RateLimited), (429, "rate_limited"));
        assert_eq!(seen(Error::OverRateLimit { after_s: 7 }), (429, "rate_limited"));
        let much = Error::CountOverRateLimit { count_max: 7 };
        assert_eq!(seen(much), (422, "count_over_rate_limit"));
        assert_eq!(seen(Error::Frozen), (423, "frozen"));
        assert_eq!(seen(Error::ClockBehind { by_ms: 7 }), (503, "unavailable"));
        assert_eq!(seen(Error::Unavailable(detail())), (503, "unavailable"));
    }

    #[test]
    fn body_names_field_bound_and_path() {
        let problem = Problem::invalid("count", "must be 1 to 10000");
        let mut response = problem.clone().into_response();
        let body = problem.render(&mut response, "/v1/segment/orders", None);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["detail"], "count must be 1 to 10000");
        assert_eq!(body["title"], "Bad Request");
        assert_eq!(body["instance"], "/v1/segment/orders");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert!(response.headers().get(RETRY_AFTER).is_none());
    }

    #[test]
    fn a_count_over_the_rate_limit_is_refused_with_the_largest_one_that_is_not() {
        let body = Problem::from(Error::CountOverRateLimit { count_max: 70 }).json();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["count_max"], 70);
        assert!(body["detail"].as_str().unwrap().contains("1 to 70"), "{body}");
        assert!(!Problem::from(Error::Exhausted).json().contains("count_max"));
    }

    #[test]
    fn unavailable_and_overloaded_say_when_to_retry() {
        let unavailable = Error::Unavailable("no quorum".into());
        let over = Error::OverRateLimit { after_s: 7 };
        let cases =
            [(Error::Overloaded, "1"), (Error::RateLimited, "1"), (unavailable, "1"), (over, "7")];
        for (error, seconds) in cases {
            let problem = Problem::from(error);
            let mut response = problem.clone().into_response();
            problem.render(&mut response, "/", None);
            assert_eq!(response.headers()[RETRY_AFTER], seconds);
        }
    }
}
