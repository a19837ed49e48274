//! Leaf's own paths: the bare id on success, Leaf's answer on failure.
//!
//! Programs written for Leaf read the status and the media type and, some of them, the `id=-n` inside `message`, so all
//! of that is the same as in Leaf.

mod decode;
mod failure;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Response};

pub(super) use decode::decode;
pub(super) use failure::Failure;

use super::id_request::{Asked, Form, IdPath, IdRequest};
use crate::service::{ClusterService, Error, IdService, TakenIds};

/// The answer to a request for an id. With `head` it takes none, and its body is empty.
///
/// # Errors
/// What Leaf says instead.
pub(super) async fn answer(
    ids: &IdService,
    cluster: &ClusterService,
    request: &IdRequest<String>,
    head: bool,
) -> Result<Response<Bytes>, Failure> {
    let key = request.tag.as_str();
    // Leaf treats a malformed key as one that it does not know.
    if request.path == IdPath::LeafSegment && key.is_empty() {
        return Err(Failure::of_segment(Error::UnknownTag, key, true));
    }
    let Form::Bare(Some(media_type)) = &request.form else {
        return Err(Failure::not_acceptable());
    };
    let refused = |error| match request.path {
        IdPath::LeafSegment => Failure::of_segment(error, key, cluster.view().cluster_id.is_some()),
        _ => Failure::of_snowflake(error),
    };
    if let (Asked::Segment(key), false) = (request.asked(), head) {
        let taken = ids.take(key, 1).await.map_err(refused)?;
        let mut answer = typed(shown(&taken), media_type.clone());
        if taken.text.is_some() {
            show_only(&mut answer);
        }
        return Ok(answer);
    }
    let taken = match (request.asked(), head) {
        (Asked::Segment(key), true) => ids.could_take(key, 1).await.map(|()| Bytes::new()),
        (_, false) => ids.next_snowflake().await.map(decimal),
        (_, true) => ids.could_take_snowflakes().await.map(|()| Bytes::new()),
    };
    Ok(typed(taken.map_err(refused)?, media_type.clone()))
}

/// Keeps browsers from running what a format may hold: the caller names the media type, which may be one that browsers
/// show as a page.
fn show_only(answer: &mut Response<Bytes>) {
    let nothing = HeaderValue::from_static("default-src 'none'; sandbox");
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, nothing);
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The one id that was taken: the bare number, or the text of a tag with a format.
fn shown(taken: &TakenIds) -> Bytes {
    let mut out = Vec::new();
    for number in taken.numbers.iter().cloned().flatten() {
        match &taken.text {
            Some(text) => text.append(number, &mut out),
            None => return decimal(number),
        }
    }
    out.into()
}

fn decimal(id: u64) -> Bytes {
    Bytes::copy_from_slice(itoa::Buffer::new().format(id).as_bytes())
}

/// The bare decimal id.
#[inline]
pub(super) fn number(id: u64, media_type: HeaderValue) -> Response<Bytes> {
    typed(decimal(id), media_type)
}

/// The id, in this media type.
pub(super) fn typed(body: Bytes, media_type: HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to OPTIONS: the methods that a path takes.
pub(super) fn options(methods: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_the_bare_number() {
        let json = HeaderValue::from_static("application/json;charset=UTF-8");
        let response = number(i64::MAX as u64, json.clone());
        assert_eq!(response.body(), "9223372036854775807");
        assert_eq!(response.headers()[CONTENT_TYPE], json);
    }
}
