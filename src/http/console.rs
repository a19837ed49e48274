//! The console at `/`: one page for people, with its style and its script, which are files of this folder.
//!
//! The page itself is the same for every reader and says nothing of the cluster. Its script gets that from the paths of
//! version 1, with the token that the reader has typed, and contacts no other host.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use ring::digest::{SHA256, digest};

use crate::text::fingerprints::hex;

/// Nothing but this node's own files, no script in the page, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static PAGE: LazyLock<File> =
    LazyLock::new(|| File::new("text/html;charset=UTF-8", include_str!("console/console.html")));
static STYLE: LazyLock<File> =
    LazyLock::new(|| File::new("text/css;charset=UTF-8", include_str!("console/console.css")));
static SCRIPT: LazyLock<File> = LazyLock::new(|| {
    let parts = concat!(
        include_str!("console/text.js"),
        include_str!("console/asking.js"),
        include_str!("console/overview.js"),
        include_str!("console/traffic.js"),
        include_str!("console/tags.js"),
        include_str!("console/pools.js"),
        include_str!("console/others.js"),
        include_str!("console/start.js"),
    );
    File::new("text/javascript;charset=UTF-8", parts)
});

/// A file of the console, as this build has it.
struct File {
    media_type: &'static str,
    text: &'static str,
    /// A browser compares it to find out whether its copy is still current.
    tag: HeaderValue,
}

impl File {
    fn new(media_type: &'static str, text: &'static str) -> Self {
        let tag = format!("\"{}\"", hex(&digest(&SHA256, text.as_bytes()).as_ref()[..8]));
        let tag = HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""));
        Self { media_type, text, tag }
    }

    /// Answers with the file, or with 304 if the browser's copy is the same. A browser asks each time, so that a page
    /// of one release is never shown with a script of another.
    fn answer(&self, asked: &HeaderMap) -> Response<Body> {
        let known = asked.get_all(IF_NONE_MATCH).iter().any(|tags| {
            tags.to_str().is_ok_and(|tags| tags.split(',').any(|tag| tag.trim() == self.tag))
        });
        let (status, body) = match known {
            true => (StatusCode::NOT_MODIFIED, Body::empty()),
            false => (StatusCode::OK, Body::from(self.text)),
        };
        let headers = [
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_TYPE, self.media_type),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ];
        (status, [(ETAG, self.tag.clone())], headers, body).into_response()
    }
}

pub(super) async fn page(headers: HeaderMap) -> Response<Body> {
    PAGE.answer(&headers)
}

pub(super) async fn style(headers: HeaderMap) -> Response<Body> {
    STYLE.answer(&headers)
}

pub(super) async fn script(headers: HeaderMap) -> Response<Body> {
    SCRIPT.answer(&headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_script_or_style_in_it_and_asks_no_other_host() {
        for file in [&PAGE, &STYLE, &SCRIPT] {
            for forbidden in [" style=", "<style", " onclick=", "eval(", "innerHTML", "https://"] {
                assert!(
                    !file.text.contains(forbidden),
                    "{forbidden} in a file of {}",
                    file.media_type
                );
            }
        }
        let scripts = PAGE.text.matches("<script").count();
        assert_eq!((scripts, PAGE.text.matches("<script src=\"/console.js\"").count()), (1, 1));
    }

    #[test]
    fn what_a_browser_has_already_is_not_sent_again() {
        let mut asked = HeaderMap::new();
        assert_eq!(PAGE.answer(&asked).status(), StatusCode::OK);
        for (tags, status) in [
            (PAGE.tag.to_str().unwrap().to_owned(), StatusCode::NOT_MODIFIED),
            (format!("\"a\", {}", PAGE.tag.to_str().unwrap()), StatusCode::NOT_MODIFIED),
            (STYLE.tag.to_str().unwrap().to_owned(), StatusCode::OK),
        ] {
            asked.insert(IF_NONE_MATCH, HeaderValue::try_from(tags).unwrap());
            assert_eq!(PAGE.answer(&asked).status(), status);
        }
    }
}
