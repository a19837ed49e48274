//! Leaf's paths in other spellings: with doubled slashes, or with one at the end, as Leaf lets them through.
//!
//! A request is respelt before anything judges it, so that its rights, its route and its ids are those of one path.

use axum::http::request::Parts;
use axum::http::uri::{PathAndQuery, Uri};

/// What all paths of Leaf's interface begin with, except its pages.
const LEAF_API: &str = "/api/";
const LEAF_PAGES: [&str; 3] = ["/cache", "/db", "/decodeSnowflakeId"];

/// The path that a request came with, where that was another spelling.
#[derive(Clone, Debug)]
struct AskedPath(String);

/// Gives a request to one of Leaf's paths that path's own spelling.
#[inline]
pub(super) fn normalize(head: &mut Parts) {
    let path = head.uri.path();
    if path.ends_with('/') || path.contains("//") {
        normalize_odd(head);
    }
}

#[cold]
fn normalize_odd(head: &mut Parts) {
    let asked = head.uri.path().to_owned();
    let Some(mut target) = normalized(&asked) else { return };
    if let Some(query) = head.uri.query() {
        target = target + "?" + query;
    }
    let mut parts = head.uri.clone().into_parts();
    let Ok(path_and_query) = PathAndQuery::try_from(target) else { return };
    parts.path_and_query = Some(path_and_query);
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
        head.extensions.insert(AskedPath(asked));
    }
}

/// The path that a request with this head came with.
pub(super) fn asked_path(head: &Parts) -> &str {
    head.extensions.get::<AskedPath>().map_or(head.uri.path(), |asked| &asked.0)
}

/// Whether failures at a path are reported in Leaf's way.
pub(super) fn is_below_api(path: &str) -> bool {
    path.starts_with(LEAF_API)
}

/// The path of Leaf that another spelling stands for; `None` for any other path.
fn normalized(path: &str) -> Option<String> {
    let mut plain = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !plain.ends_with('/') {
            plain.push(character);
        }
    }
    let is_leafs = is_below_api(&plain);
    if plain.len() > 1 && plain.ends_with('/') {
        plain.pop();
    }
    (is_leafs || LEAF_PAGES.contains(&plain.as_str())).then_some(plain)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn slashes_that_are_doubled_or_last_are_let_through_on_leafs_paths_alone() {
        for (asked, plain) in [
            ("//api/segment/get/a", Some("/api/segment/get/a")),
            ("/api///segment//get//a//", Some("/api/segment/get/a")),
            ("/api/segment/get/a/", Some("/api/segment/get/a")),
            ("/api/segment/get/a%2F%2Fb/", Some("/api/segment/get/a%2F%2Fb")),
            ("/api/segment/get/", Some("/api/segment/get")),
            ("/db/", Some("/db")),
            ("//decodeSnowflakeId", Some("/decodeSnowflakeId")),
            ("/", None),
            ("//", None),
            ("//v1/snowflake", None),
            ("/v1/segment/a/", None),
            ("/livez/", None),
        ] {
            assert_eq!(normalized(asked).as_deref(), plain, "{asked}");
        }
    }

    #[test]
    fn a_request_is_respelt_with_its_query_and_remembers_its_path() {
        let normalized = |uri: &str| {
            let (mut head, ()) = Request::get(uri).body(()).unwrap().into_parts();
            normalize(&mut head);
            head
        };
        let odd = normalized("//api/segment/get/a/?x=//");
        assert_eq!(odd.uri, "/api/segment/get/a?x=//");
        assert_eq!(asked_path(&odd), "//api/segment/get/a/");
        let whole = normalized("http://host:1/api//segment/get/a");
        assert_eq!(whole.uri, "http://host:1/api/segment/get/a");
        let other = normalized("/v1//snowflake");
        assert_eq!((other.uri.path(), asked_path(&other)), ("/v1//snowflake", "/v1//snowflake"));
    }
}
