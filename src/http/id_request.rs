//! The one reading of a request for ids: its path, its tag, its count, and the form of the answer.
//!
//! The fast path uses it to read requests from their bytes, and the dispatch for requests that hyper has read. Both
//! take and answer what [`IdDemand`] says.

use std::borrow::Cow;
use std::ops::Range;

use axum::body::Bytes;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue, Method, Response, Uri};
use mintleaf_core::shape::id_text::IdText;
use mintleaf_core::tag::BizTag;

use super::ids::{self, IdQuery};
use super::legacy;
use super::media_type::{self, MediaType};
use super::problem::Problem;
use crate::metrics::Mode;
use crate::text::path_segment;

const LEAF_SEGMENT: &str = "/api/segment/get/";
const LEAF_SNOWFLAKE: &str = "/api/snowflake/get/";
const SEGMENT: &str = "/v1/segment/";
const SNOWFLAKE: &str = "/v1/snowflake";

/// The methods of Leaf's paths, as the `allow` header lists them.
pub(super) const LEAF_METHODS: &str = "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS";

/// The media type of a bare id where the client has no wish.
const BARE_ID: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");

const BARE_ID_AS_JSON: HeaderValue = HeaderValue::from_static("application/json;charset=UTF-8");

/// The paths that give ids. Their rows of the routes stand in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdPath {
    /// `/api/segment/get/KEY`
    LeafSegment,
    /// `/api/snowflake/get/KEY`
    LeafSnowflake,
    /// `/v1/segment/TAG`
    Segment,
    /// `/v1/snowflake`
    Snowflake,
}

impl IdPath {
    /// The id path that a path is, if it is one.
    pub(super) fn of(path: &str) -> Option<Self> {
        Self::read(path).map(|(id_path, _)| id_path)
    }

    /// The id path that a path is, if it is one, and the tag or the key that it names, its escapes undone; that is empty
    /// where the path names none that can be read.
    #[inline]
    pub(super) fn read(path: &str) -> Option<(Self, Cow<'_, str>)> {
        let (id_path, raw) = if let Some(raw) = path.strip_prefix(LEAF_SEGMENT) {
            (Self::LeafSegment, raw)
        } else if let Some(raw) = path.strip_prefix(LEAF_SNOWFLAKE) {
            (Self::LeafSnowflake, raw)
        } else if let Some(raw) = path.strip_prefix(SEGMENT) {
            (Self::Segment, raw)
        } else if path == SNOWFLAKE {
            return Some((Self::Snowflake, Cow::Borrowed("")));
        } else {
            return None;
        };
        match path_segment::decode(raw) {
            Some(tag) => Some((id_path, tag)),
            None if raw.is_empty() || raw.contains('/') => None,
            None => Some((id_path, Cow::Borrowed(""))),
        }
    }

    /// Whether it is one of Leaf's, which have one id for an answer and ignore a query.
    #[inline]
    pub(super) fn is_leafs(self) -> bool {
        matches!(self, Self::LeafSegment | Self::LeafSnowflake)
    }

    /// The mode that counts its requests.
    #[inline]
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::LeafSegment | Self::Segment => Mode::Segment,
            Self::LeafSnowflake | Self::Snowflake => Mode::Snowflake,
        }
    }

    /// Its methods, as the `allow` header lists them.
    pub(super) fn methods(self) -> &'static str {
        if self.is_leafs() { LEAF_METHODS } else { "GET,HEAD" }
    }

    /// Whether a request of this method takes ids: Leaf looks at no method.
    pub(super) fn takes_by(self, method: &Method) -> bool {
        const LEAFS: [Method; 5] =
            [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        if self.is_leafs() { LEAFS.contains(method) } else { method == Method::GET }
    }
}

/// What the headers of a request say about its answer. They are judged once for all requests with the same headers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AcceptedType {
    /// Whether ids are wanted as text in version 1.
    text: bool,
    /// The media type of a bare id on Leaf's paths; `None` when the client accepts no possible one.
    bare: Option<HeaderValue>,
}

impl AcceptedType {
    /// Reads what a client accepts.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self { text: ids::wants_text(headers), bare: bare_type(headers) }
    }
}

/// The media type of a bare id, as Leaf chooses it. Types of images are skipped: browsers say that they take both, but
/// a number is not a picture.
fn bare_type(headers: &HeaderMap) -> Option<HeaderValue> {
    // Sorting is not worth it for what nearly all clients send.
    let mut values = headers.get_all(ACCEPT).iter();
    match (values.next().map(HeaderValue::as_bytes), values.next()) {
        (None | Some(b"" | b"*/*"), None) => return Some(BARE_ID),
        (Some(b"application/json"), None) => return Some(BARE_ID_AS_JSON),
        _ => {}
    }
    let mut accepted = media_type::accepted(headers)?;
    accepted.retain(|range| !range.is_of_kind("image"));
    if accepted.is_empty() {
        return Some(BARE_ID);
    }
    let types = [("text", "plain"), ("*", "*"), ("application", "json"), ("application", "*+json")];
    let producible = types.map(|(kind, subtype)| MediaType::new(kind, subtype));
    let chosen = media_type::chosen(&accepted, &producible)?;
    if chosen.is("application", "octet-stream") {
        return Some(BARE_ID);
    }
    HeaderValue::try_from(chosen.named()).ok()
}

/// The form of the ids in an answer, and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// One id as the whole body, of this media type; `None` when the client accepts no possible one.
    Bare(Option<HeaderValue>),
    /// This many ids, as version 1 writes them; or what is wrong with the query.
    Listed(Result<IdQuery, Problem>),
}

impl Form {
    /// The form of the answer to a request at `path`, with this query, by a client with this wish.
    #[inline]
    pub(super) fn of(path: IdPath, query: Option<&str>, wish: &AcceptedType) -> Self {
        match path.is_leafs() {
            true => Self::Bare(wish.bare.clone()),
            false => Self::Listed(IdQuery::of(query, wish.text)),
        }
    }

    /// The answer with these ids in this form, as [`IdQuery::answer`] and [`legacy::answer`] write them; `None` where
    /// the form has none.
    #[inline]
    pub(super) fn answer(
        &self,
        tag: Option<&str>,
        text: Option<&IdText>,
        taken: &[Range<u64>],
    ) -> Option<Response<Bytes>> {
        match self {
            Self::Bare(media_type) => Some(legacy::answer(media_type.clone()?, text, taken)),
            Self::Listed(wanted) => wanted.as_ref().ok()?.answer(tag, text, taken).ok(),
        }
    }
}

/// The ids that a request asks for, if there is nothing wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdDemand<'a> {
    /// The next id of a tag.
    Segment(&'a str),
    /// Many ids of a tag, or one id in another style than a request without a query gets.
    Segments(&'a str, &'a IdQuery),
    /// A snowflake id.
    Snowflake,
    /// Many snowflake ids.
    Snowflakes(&'a IdQuery),
    /// No ids: the answer is an error.
    Invalid,
}

/// A request for ids. `T` holds its tag, which is empty where the path has no readable tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IdRequest<T> {
    pub(super) path: IdPath,
    pub(super) tag: T,
    pub(super) form: Form,
}

impl<'a> IdRequest<Cow<'a, str>> {
    /// Reads a request whose path is in its own spelling; `None` when it asks for no ids.
    pub(super) fn read(uri: &'a Uri, headers: &HeaderMap) -> Option<Self> {
        let (path, tag) = IdPath::read(uri.path())?;
        let wish = match path.is_leafs() {
            true => AcceptedType { text: false, bare: bare_type(headers) },
            false => AcceptedType { text: ids::wants_text(headers), bare: None },
        };
        Some(Self { path, tag, form: Form::of(path, uri.query(), &wish) })
    }

    /// The same request, which owns its tag.
    pub(super) fn into_owned(self) -> IdRequest<String> {
        IdRequest { path: self.path, tag: self.tag.into_owned(), form: self.form }
    }
}

impl<T: AsRef<str>> IdRequest<T> {
    /// The ids that are asked for.
    #[inline]
    pub(super) fn demand(&self) -> IdDemand<'_> {
        let tag = self.tag.as_ref();
        match (self.path, &self.form) {
            (IdPath::LeafSegment, Form::Bare(Some(_))) if !tag.is_empty() => IdDemand::Segment(tag),
            (IdPath::LeafSnowflake, Form::Bare(Some(_))) => IdDemand::Snowflake,
            (IdPath::Segment, Form::Listed(Ok(wanted))) if !tag.is_empty() => {
                if wanted.is_one() {
                    IdDemand::Segment(tag)
                } else {
                    IdDemand::Segments(tag, wanted)
                }
            }
            (IdPath::Snowflake, Form::Listed(Ok(wanted))) => {
                if wanted.is_one() {
                    IdDemand::Snowflake
                } else {
                    IdDemand::Snowflakes(wanted)
                }
            }
            _ => IdDemand::Invalid,
        }
    }

    /// The tag, checked; `None` where the path has none to name.
    ///
    /// # Errors
    /// `invalid_argument` when it cannot be read or is not a tag.
    pub(super) fn biz_tag(&self) -> Result<Option<BizTag>, Problem> {
        match (self.path.mode(), self.tag.as_ref()) {
            (Mode::Segment, "") => {
                Err(Problem::invalid("tag", "has %-escapes that are malformed or not UTF-8"))
            }
            (Mode::Segment, tag) => match BizTag::parse(tag) {
                Ok(tag) => Ok(Some(tag)),
                Err(error) => Err(Problem::invalid_argument(error.to_string())),
            },
            _ => Ok(None),
        }
    }

    /// How many ids are wanted, and how they are written, in version 1.
    ///
    /// # Errors
    /// What is wrong with the query.
    pub(super) fn listed(&self) -> Result<&IdQuery, Problem> {
        match &self.form {
            Form::Listed(wanted) => wanted.as_ref().map_err(Problem::clone),
            Form::Bare(_) => Err(Problem::not_found()),
        }
    }
}

#[cfg(test)]
mod tests;
