//! What went wrong, in the words and the shapes of Spring Boot 1.5, which Leaf runs on: JSON, a page for browsers, or
//! nothing except a status for a client that accepts neither.

use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use jiff::Timestamp;
use serde::Serialize;

use crate::http::media_type::{self, MediaType};
use crate::http::pages::HTML_HEADERS;
use crate::http::problem::{FailedWith, Problem};
use crate::service::Error;

const LEAF_EXCEPTION: &str = "com.sankuai.inf.leaf.server.exception.LeafServerException";
const NO_KEY: &str = "com.sankuai.inf.leaf.server.exception.NoKeyException";
const MISSING_PARAMETER: &str =
    "org.springframework.web.bind.MissingServletRequestParameterException";
const NOT_ACCEPTABLE: &str = "org.springframework.web.HttpMediaTypeNotAcceptableException";

/// A failed request to one of Leaf's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Failure {
    status: StatusCode,
    /// The class of Java's exception, where Leaf throws one.
    exception: Option<&'static str>,
    message: String,
    /// The code that counts it.
    code: &'static str,
}

/// The body of a failure; its members and their order are Spring's.
#[derive(Serialize)]
struct SpringError<'a> {
    timestamp: u64,
    status: u16,
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'static str>,
    message: &'a str,
    path: &'a str,
}

/// The form that reports a failure to the client.
#[derive(Debug, PartialEq)]
enum ErrorFormat {
    /// As JSON of this media type.
    Json(HeaderValue),
    /// As a page.
    Html,
    /// By the status 406 alone.
    NotAcceptable,
}

impl Failure {
    /// The failure of an id of a tag: Leaf's -1 where the node is in no cluster yet, -2 for an unknown key, -3 where no
    /// id could be had.
    pub(in crate::http) fn of_segment(error: Error, key: &str, bootstrapped: bool) -> Self {
        let leaf_code = match error {
            // Leaf cuts a key at its last dot, and reports an empty key if nothing is left.
            Error::UnknownTag if key.rfind('.') == Some(0) => return Self::no_key(),
            Error::UnknownTag
            | Error::NotFound { .. }
            | Error::OfKeys { .. }
            | Error::InvalidArgument { .. } => -2,
            _ if !bootstrapped => -1,
            _ => -3,
        };
        Self::result(StatusCode::INTERNAL_SERVER_ERROR, leaf_code, error)
    }

    /// The failure of a snowflake id. Leaf's -3 is a clock that went back too far. A failure that Leaf has no code
    /// for, above all that no worker id is free, is a 503 with the same members.
    pub(in crate::http) fn of_snowflake(error: Error) -> Self {
        match error {
            Error::ClockBehind { .. } => Self::result(StatusCode::INTERNAL_SERVER_ERROR, -3, error),
            _ => Self::result(StatusCode::SERVICE_UNAVAILABLE, -1, error),
        }
    }

    fn result(status: StatusCode, leaf_code: i8, error: Error) -> Self {
        let message = format!("Result{{id={leaf_code}, status=EXCEPTION}}");
        let code = Problem::from(error).code();
        Self { status, exception: Some(LEAF_EXCEPTION), message, code }
    }

    fn no_key() -> Self {
        let code = Problem::from(Error::UnknownTag).code();
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self { status, exception: Some(NO_KEY), message: "Key is none".to_owned(), code }
    }

    /// A client that accepts no media type that the answer could have.
    pub(in crate::http) fn not_acceptable() -> Self {
        Self {
            status: StatusCode::NOT_ACCEPTABLE,
            exception: Some(NOT_ACCEPTABLE),
            message: "Could not find acceptable representation".to_owned(),
            code: "invalid_argument",
        }
    }

    /// A request that lacks a required parameter.
    pub(super) fn missing_parameter(name: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            exception: Some(MISSING_PARAMETER),
            message: format!("Required String parameter '{name}' is not present"),
            code: "invalid_argument",
        }
    }

    /// A path below `/api/` that leads nowhere.
    pub(in crate::http) fn not_found() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            exception: None,
            message: "No message available".to_owned(),
            code: "not_found",
        }
    }

    /// The answer to a request with these headers at `path`.
    pub(in crate::http) fn answer(
        &self,
        headers: &HeaderMap,
        path: &str,
        now_ms: u64,
    ) -> Response<Bytes> {
        let negotiated = negotiated(headers);
        let status = if negotiated == ErrorFormat::NotAcceptable {
            StatusCode::NOT_ACCEPTABLE
        } else {
            self.status
        };
        let mut headers = HeaderMap::new();
        let body = match negotiated {
            ErrorFormat::Json(media_type) => {
                headers.insert(CONTENT_TYPE, media_type);
                self.json(path, now_ms)
            }
            ErrorFormat::Html => {
                let of_page =
                    HTML_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
                headers.extend(of_page);
                Bytes::from(self.page(now_ms))
            }
            ErrorFormat::NotAcceptable => Bytes::new(),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(FailedWith(self.code));
        response
    }

    fn reason(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or_default()
    }

    fn json(&self, path: &str, now_ms: u64) -> Bytes {
        let body = SpringError {
            timestamp: now_ms,
            status: self.status.as_u16(),
            error: self.reason(),
            exception: self.exception,
            message: &self.message,
            path,
        };
        // Strings and numbers always serialize.
        Bytes::from(serde_json::to_vec(&body).unwrap_or_default())
    }

    /// The page of a failure. Nothing in it comes from the request.
    fn page(&self, now_ms: u64) -> String {
        let time = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let time = time.unwrap_or_default().strftime("%a %b %d %H:%M:%S UTC %Y");
        format!(
            "<html><body><h1>Whitelabel Error Page</h1>\
             <p>This application has no explicit mapping for /error, so you are seeing this as a fallback.</p>\
             <div id='created'>{time}</div>\
             <div>There was an unexpected error (type={}, status={}).</div>\
             <div>{}</div></body></html>",
            self.reason(),
            self.status.as_u16(),
            self.message.replace('\'', "&#39;"),
        )
    }
}

/// The media type of an answer in JSON; `None` when the client accepts none.
pub(super) fn json_type(headers: &HeaderMap) -> Option<HeaderValue> {
    json_among(&media_type::accepted(headers)?)
}

fn json_among(accepted: &[MediaType]) -> Option<HeaderValue> {
    let producible = ["json", "*+json"].map(|subtype| MediaType::new("application", subtype));
    let chosen = media_type::chosen(accepted, &producible)?;
    HeaderValue::try_from(chosen.named()).ok()
}

/// The form of the failure for this client. It is the page if the client names HTML before everything else.
fn negotiated(headers: &HeaderMap) -> ErrorFormat {
    let Some(accepted) = media_type::accepted(headers) else { return ErrorFormat::NotAcceptable };
    let named = accepted.iter().find_map(|range| {
        let is_html = range.is("text", "html") || range.is("text", "*");
        (is_html || range.is("*", "*")).then_some(is_html)
    });
    match named {
        Some(true) => ErrorFormat::Html,
        _ => json_among(&accepted).map_or(ErrorFormat::NotAcceptable, ErrorFormat::Json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::ACCEPT;

    fn message(failure: &Failure) -> (u16, String) {
        let response = failure.answer(&HeaderMap::new(), "/api/segment/get/x", 5);
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!((&body["timestamp"], &body["path"]), (&5.into(), &"/api/segment/get/x".into()));
        assert_eq!(body["status"], response.status().as_u16());
        assert_eq!(body["exception"], LEAF_EXCEPTION);
        (response.status().as_u16(), body["message"].as_str().unwrap().to_owned())
    }

    #[test]
    fn failures_carry_leafs_codes() {
        let negotiated =
            |error, bootstrapped| message(&Failure::of_segment(error, "x", bootstrapped));
        let with = |id: i8| (500, format!("Result{{id={id}, status=EXCEPTION}}"));
        assert_eq!(negotiated(Error::unavailable("no quorum"), false), with(-1));
        assert_eq!(negotiated(Error::UnknownTag, true), with(-2));
        assert_eq!(negotiated(Error::unavailable("no quorum"), true), with(-3));
        let over = Error::OverRateLimit { after_s: 7 };
        let refused = [Error::Exhausted, Error::TooManyTags { tags_max: 7 }, Error::RateLimited];
        for refused in refused.into_iter().chain([over, Error::Frozen]) {
            assert_eq!(negotiated(refused, true), with(-3));
        }
    }

    #[test]
    fn a_clock_that_went_back_is_leafs_and_no_worker_id_is_a_503() {
        let (behind, none) = (Error::ClockBehind { by_ms: 9 }, Error::unavailable("none"));
        let [behind, none] = [behind, none].map(|error| message(&Failure::of_snowflake(error)));
        assert_eq!(behind, (500, "Result{id=-3, status=EXCEPTION}".to_owned()));
        assert_eq!(none, (503, "Result{id=-1, status=EXCEPTION}".to_owned()));
    }

    #[test]
    fn a_key_of_which_leaf_would_leave_nothing_is_none() {
        let negotiated = |key| Failure::of_segment(Error::UnknownTag, key, true);
        assert_eq!(
            (negotiated(".x").exception, &*negotiated(".x").message),
            (Some(NO_KEY), "Key is none")
        );
        for key in ["x", "x.y", ".x.y", ""] {
            assert_eq!(negotiated(key).exception, Some(LEAF_EXCEPTION), "{key}");
        }
    }

    #[test]
    fn failures_are_told_to_programs_as_json_and_to_browsers_as_a_page() {
        let negotiated = |accept: &str| {
            negotiated(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]))
        };
        let json = |text: &'static str| ErrorFormat::Json(HeaderValue::from_static(text));
        for (accept, expected) in [
            ("*/*", json("application/json;charset=UTF-8")),
            ("application/json", json("application/json;charset=UTF-8")),
            ("application/*", json("application/json;charset=UTF-8")),
            ("application/vnd.x+json", json("application/vnd.x+json;charset=UTF-8")),
            ("text/html", ErrorFormat::Html),
            ("text/*", ErrorFormat::Html),
            ("application/json, text/html", ErrorFormat::Html),
            ("text/html, image/gif, *; q=.2, */*; q=.2", ErrorFormat::Html),
            ("text/plain", ErrorFormat::NotAcceptable),
            ("application/xml", ErrorFormat::NotAcceptable),
            ("text/plain, */*", json("application/json;charset=UTF-8")),
            ("nonsense", ErrorFormat::NotAcceptable),
        ] {
            assert_eq!(negotiated(accept), expected, "{accept}");
        }
    }
}
