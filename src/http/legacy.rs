//! Leaf's own paths: the bare id on success, Leaf's answer on failure.
//!
//! Programs written for Leaf read the status and the media type and, some of them, the `id=-n` inside `message`, so all
//! of that is the same as in Leaf.

mod decode;
mod failure;

use std::ops::Range;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Response};
use axum::response::IntoResponse;
use mintleaf_core::limits::DOUBLE_EXACT_MAX;
use mintleaf_core::shape::id_text::IdText;

pub(super) use decode::decode;
pub(super) use failure::Failure;

/// The answer with one id, bare and in this media type; without an id its body is empty. `text` makes the id of a shaped
/// tag from its number.
pub(super) fn answer(
    media_type: HeaderValue,
    text: Option<&IdText>,
    taken: &[Range<u64>],
) -> Response<Bytes> {
    let id = taken.first().map(|range| range.start);
    let body = match (id, text) {
        (None, _) => Bytes::new(),
        (Some(id), None) => Bytes::copy_from_slice(itoa::Buffer::new().format(id).as_bytes()),
        (Some(id), Some(text)) => {
            let mut body = Vec::new();
            text.append(id, &mut body);
            body.into()
        }
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if text.is_some() {
        // A browser must not run what a format may hold: the caller names the media type, which may be one that
        // browsers show as a page.
        let nothing = HeaderValue::from_static("default-src 'none'; sandbox");
        headers.insert(CONTENT_SECURITY_POLICY, nothing);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// Whether an id is a number that readers of JSON may round: all digits, and more than a double holds.
pub(super) fn may_be_rounded(id: &[u8]) -> bool {
    let digits =
        std::str::from_utf8(id).ok().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
    digits.is_some_and(|digits| {
        // A longer number than 64 bits have does not parse.
        !digits.is_empty() && digits.parse().map_or(true, |number: u64| number > DOUBLE_EXACT_MAX)
    })
}

/// The answer to OPTIONS: the methods that a path takes.
pub(super) fn options(methods: &'static str) -> Response<Body> {
    [(ALLOW, methods)].into_response()
}

#[cfg(test)]
mod tests {
    use mintleaf_core::shape::{Shape, TextFormat};

    use super::*;

    #[test]
    fn success_is_the_bare_number() {
        let json = HeaderValue::from_static("application/json;charset=UTF-8");
        let last = i64::MAX as u64;
        let response = answer(json.clone(), None, std::slice::from_ref(&(last..last + 1)));
        assert_eq!(response.body(), "9223372036854775807");
        assert_eq!(response.headers()[CONTENT_TYPE], json);
        assert!(!response.headers().contains_key(CONTENT_SECURITY_POLICY));
    }

    #[test]
    fn only_numbers_above_what_a_double_holds_may_be_rounded() {
        for rounded in ["9007199254740992", "9223372036854775807", "20261124000000000000000001"] {
            assert!(may_be_rounded(rounded.as_bytes()), "{rounded}");
        }
        for exact in
            ["", "1", "9007199254740991", "0000000000000000000042", "INV-9223372036854775807"]
        {
            assert!(!may_be_rounded(exact.as_bytes()), "{exact}");
        }
    }

    #[test]
    fn a_browser_runs_nothing_of_an_id_with_a_format() {
        let format = Some(TextFormat::parse("<script>{id}</script>").unwrap());
        let text = IdText::new(&Shape { format, ..Shape::default() }, None);
        let html = HeaderValue::from_static("text/html;charset=UTF-8");
        let response = answer(html, Some(&text), std::slice::from_ref(&(7..8)));
        assert_eq!(response.body(), "<script>7</script>");
        assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], "default-src 'none'; sandbox");
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
}
