//! Which bytes are a plain request for ids, and which one.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use http_body_util::Empty;
use httparse::Status;

use super::TOGETHER_MAX;
use crate::http::connection::HEADERS_MAX;
use crate::http::ids::Wanted;
use crate::http::{LEAF_SEGMENT, LEAF_SNOWFLAKE, V1_SEGMENT, V1_SNOWFLAKE, ids, key};

/// A longer head is not for the lane. The next bytes of one that is incomplete make it be read anew,
/// so this also bounds what a client can have read by sending it in small pieces.
const HEAD_BYTES_MAX: usize = 4 * 1024;

const METHOD: &[u8] = b"GET ";
const VERSION: &[u8] = b" HTTP/1.1\r\n";

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The same request as the last one.
    Again,
    /// Another plain request.
    New,
    /// The beginning of what may become one.
    Partial,
    /// Something else.
    Foreign,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    /// The next id of a tag.
    Segment(&'a str),
    /// Many ids of a tag.
    Batch(&'a str, &'a Wanted),
    /// A snowflake id.
    Snowflake,
    /// Many snowflake ids, or what may be an error.
    Other,
}

/// In which words an id is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    LeafSegment,
    LeafSnowflake,
    Segment,
    Snowflake,
    Other,
}

/// A plain request: a `GET` of one of the id paths, without a body, on a connection that stays open
/// behind it. Its header block is judged once: while a client sends the same block again, which
/// nearly all do, comparing the bytes is all it costs.
#[derive(Debug)]
pub(super) struct Request {
    /// All of it; empty before the first.
    bytes: Vec<u8>,
    /// Where its path ends, and where its headers begin.
    path_end: usize,
    block_start: usize,
    headers: HeaderMap,
    text: bool,
    kind: Kind,
    /// The tag; empty where none is named.
    tag: String,
    /// How many ids of it, where that is not one.
    batch: Option<Wanted>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            path_end: 0,
            block_start: 0,
            headers: HeaderMap::new(),
            text: false,
            kind: Kind::Other,
            tag: String::new(),
            batch: None,
        }
    }
}

impl Request {
    /// Reads the request that `bytes` begin with. This one is the last that was read before; it stays
    /// so unless there is a new one.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8]) -> Read {
        if !self.bytes.is_empty() && bytes.starts_with(&self.bytes) {
            return Read::Again;
        }
        match self.read_new(bytes) {
            Ok(()) => Read::New,
            Err(Read::Partial) if bytes.len() >= HEAD_BYTES_MAX => Read::Foreign,
            Err(other) => other,
        }
    }

    fn read_new(&mut self, bytes: &[u8]) -> Result<(), Read> {
        let path_end = path_end(bytes)?;
        let path =
            std::str::from_utf8(&bytes[METHOD.len()..path_end]).map_err(|_| Read::Foreign)?;
        let (kind, tag, query) = asked(path).ok_or(Read::Foreign)?;
        let block_start = path_end + VERSION.len();
        let block = &bytes[block_start..];
        let known = &self.bytes[self.block_start..];
        let length = if !known.is_empty() && block.starts_with(known) {
            known.len()
        } else {
            let (length, headers) = plain_headers(block)?;
            (self.text, self.headers) = (ids::wants_text(&headers), headers);
            length
        };
        // Beyond that no head is partial either.
        if block_start + length > HEAD_BYTES_MAX {
            return Err(Read::Foreign);
        }
        self.batch = query.and_then(|query| Wanted::many(query, &self.headers));
        self.kind = kind;
        self.tag.clear();
        self.tag.push_str(&tag);
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes[..block_start + length]);
        (self.path_end, self.block_start) = (path_end, block_start);
        Ok(())
    }

    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// How many requests like this one `bytes` begin with, up to a bound.
    #[inline]
    pub(super) fn equals(&self, bytes: &[u8]) -> u64 {
        let next = bytes.chunks_exact(self.bytes.len()).take(TOGETHER_MAX);
        next.take_while(|next| *next == self.bytes).count() as u64
    }

    #[inline]
    pub(super) fn asked(&self) -> Asked<'_> {
        match self.kind {
            Kind::LeafSegment | Kind::Segment => Asked::Segment(&self.tag),
            Kind::LeafSnowflake | Kind::Snowflake => Asked::Snowflake,
            Kind::Other => match &self.batch {
                Some(wanted) => Asked::Batch(&self.tag, wanted),
                None => Asked::Other,
            },
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// Whether ids are wanted as text, where there is a choice.
    pub(super) fn wants_text(&self) -> bool {
        self.text
    }

    /// The request as hyper would give it to the front door.
    pub(super) fn to_http(&self) -> axum::http::Request<Empty<Bytes>> {
        let mut request = axum::http::Request::new(Empty::new());
        let path = Bytes::copy_from_slice(&self.bytes[METHOD.len()..self.path_end]);
        // The bytes of `is_plain` can stand in any path and query.
        *request.uri_mut() = Uri::from_maybe_shared(path).unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// Where the path of a request line ends whose method and version are those of a plain request.
#[inline]
fn path_end(bytes: &[u8]) -> Result<usize, Read> {
    begins(bytes, METHOD)?;
    let path = &bytes[METHOD.len()..];
    let length = path.iter().position(|&byte| !is_plain(byte)).ok_or(Read::Partial)?;
    begins(&path[length..], VERSION)?;
    Ok(METHOD.len() + length)
}

#[inline]
fn begins(bytes: &[u8], with: &[u8]) -> Result<(), Read> {
    match bytes.starts_with(with) {
        true => Ok(()),
        false if with.starts_with(bytes) => Err(Read::Partial),
        false => Err(Read::Foreign),
    }
}

/// Whether it means itself in every path and query.
#[inline]
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/?".contains(&byte)
}

/// What a path asks for: of which tag, and the query where that may ask for many ids of it. `None`
/// when it is none of the id paths.
#[inline]
fn asked(path: &str) -> Option<(Kind, Cow<'_, str>, Option<&str>)> {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let (kind, raw) = if let Some(raw) = path.strip_prefix(LEAF_SEGMENT) {
        (Kind::LeafSegment, raw)
    } else if let Some(raw) = path.strip_prefix(LEAF_SNOWFLAKE) {
        (Kind::LeafSnowflake, raw)
    } else if let Some(raw) = path.strip_prefix(V1_SEGMENT) {
        (Kind::Segment, raw)
    } else if path == V1_SNOWFLAKE {
        (Kind::Snowflake, "-")
    } else {
        return None;
    };
    match key::decode(raw) {
        Some(tag) if query.is_none() => Some((kind, tag, None)),
        Some(tag) if kind == Kind::Segment => Some((Kind::Other, tag, query)),
        _ => Some((Kind::Other, "".into(), None)),
    }
}

/// The headers that `block` begins with and their length, if they are those of a plain request.
fn plain_headers(block: &[u8]) -> Result<(usize, HeaderMap), Read> {
    let mut parsed = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (length, parsed) = match httparse::parse_headers(block, &mut parsed) {
        Ok(Status::Complete(complete)) => complete,
        Ok(Status::Partial) => return Err(Read::Partial),
        Err(_) => return Err(Read::Foreign),
    };
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for header in parsed {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| Read::Foreign)?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| Read::Foreign)?;
        headers.append(name, value);
    }
    if is_for_hyper(&headers) { Err(Read::Foreign) } else { Ok((length, headers)) }
}

/// Whether headers say more than that a request without a body is there.
fn is_for_hyper(headers: &HeaderMap) -> bool {
    let closes = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    let hosts = headers.get_all(HOST).iter().count();
    let framing = [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, UPGRADE];
    hosts != 1
        || framing.iter().any(|name| headers.contains_key(name))
        || headers.get_all(CONNECTION).iter().any(closes)
}

/// Where the requests end that `bytes` begin with, and where hyper's parser ends them.
#[cfg(feature = "fuzzing")]
pub(in crate::http) fn ends(bytes: &[u8]) -> [Vec<usize>; 2] {
    let (mut known, mut ends, mut start) = (Request::default(), [vec![], vec![]], 0);
    while matches!(known.read(&bytes[start..]), Read::New | Read::Again) {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        if let Ok(Status::Complete(length)) =
            httparse::Request::new(&mut headers).parse(&bytes[start..])
        {
            ends[1].push(start + length);
        }
        ends[0].push(start + known.length());
        start += known.length();
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: &str = "GET /api/segment/get/a HTTP/1.1\r\nHost: x\r\n\r\n";

    fn read(bytes: &str) -> Read {
        Request::default().read(bytes.as_bytes())
    }

    fn get(path: &str, headers: &str) -> Read {
        read(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n"))
    }

    #[test]
    fn the_same_request_is_known_again() {
        let mut request = Request::default();
        assert_eq!(request.read(PLAIN.as_bytes()), Read::New);
        let three = format!("{PLAIN}{PLAIN}{PLAIN}GET");
        assert_eq!(request.read(three.as_bytes()), Read::Again);
        assert_eq!(request.equals(three.as_bytes()), 3);
        assert_eq!(request.asked(), Asked::Segment("a"));
        let other = PLAIN.replace("/a ", "/%62 ");
        assert_eq!(request.read(other.as_bytes()), Read::New);
        assert_eq!(request.asked(), Asked::Segment("b"));
        assert_eq!(request.equals(PLAIN.as_bytes()), 0);
    }

    #[test]
    fn every_beginning_of_a_plain_request_is_partial() {
        let mut known = Request::default();
        assert_eq!(known.read(PLAIN.as_bytes()), Read::New);
        for length in 0..PLAIN.len() {
            assert_eq!(read(&PLAIN[..length]), Read::Partial, "{length}");
            assert_eq!(known.read(&PLAIN.as_bytes()[..length]), Read::Partial, "{length}");
        }
    }

    #[test]
    fn a_batch_is_known_by_its_count_and_anything_odd_is_left_to_the_front() {
        let mut request = Request::default();
        let mut asks = |path: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            assert_eq!(request.read(head.as_bytes()), Read::New, "{path}");
            match request.asked() {
                Asked::Batch(tag, wanted) => Some((tag.to_owned(), wanted.count)),
                Asked::Other => None,
                other => panic!("{path} asks for {other:?}"),
            }
        };
        assert_eq!(asks("/v1/segment/%61?count=5"), Some(("a".to_owned(), 5)));
        assert_eq!(asks("/v1/segment/b?count=7&format=ranges"), Some(("b".to_owned(), 7)));
        for odd in ["/v1/segment/a?count=1", "/v1/segment/a?count=0", "/v1/segment/a?count=x"] {
            assert_eq!(asks(odd), None, "{odd}");
        }
        for odd in ["/v1/segment/a?", "/v1/segment/a?n=5", "/v1/segment/%zz?count=5"] {
            assert_eq!(asks(odd), None, "{odd}");
        }
        for odd in ["/api/segment/get/a?count=5", "/v1/snowflake?count=5"] {
            assert_eq!(asks(odd), None, "{odd}");
        }
    }

    #[test]
    fn id_paths_are_plain_and_others_are_not() {
        for path in [
            "/api/segment/get/a.b",
            "/api/segment/get/",
            "/api/snowflake/get/%zz",
            "/v1/segment/%E8%AE%A2?count=5&format=ranges",
            "/v1/segment/a/b",
            "/v1/snowflake",
            "/v1/snowflake?count=3",
        ] {
            assert_eq!(get(path, ""), Read::New, "{path}");
        }
        for path in [
            "/livez",
            "/v1/snowflake/5",
            "/v1/snowflakes",
            "/v1/segment",
            "/v1/segment/a#b",
            "/v1/segment/\"",
            "/v1/segment/订",
            "http://x/v1/snowflake",
            "*",
            "",
            "/v1/snowflake ",
        ] {
            assert_eq!(get(path, ""), Read::Foreign, "{path}");
        }
    }

    #[test]
    fn headers_that_hyper_acts_on_are_foreign() {
        for headers in ["", "connection: Keep-Alive\r\n", "accept: text/plain\r\nx: \u{fc}\r\n"] {
            assert_eq!(get("/v1/snowflake", headers), Read::New, "{headers}");
        }
        for headers in [
            "connection: close\r\n",
            "connection: keep-alive, x\r\n",
            "connection: keep-alive\r\nConnection: upgrade\r\n",
            "content-length: 0\r\n",
            "Transfer-Encoding: chunked\r\n",
            "expect: 100-continue\r\n",
            "upgrade: h2c\r\n",
            "host: y\r\n",
            "x : y\r\n",
            " x: y\r\n",
            "x: y\r\n z\r\n",
            "x\r\n",
            "x: \0\r\n",
            "x: a\rb\r\n",
        ] {
            assert_eq!(get("/v1/snowflake", headers), Read::Foreign, "{headers:?}");
        }
        assert_eq!(read("GET /v1/snowflake HTTP/1.1\r\n\r\n"), Read::Foreign, "no host");
        assert_eq!(read("GET /v1/snowflake HTTP/1.0\r\nhost: a\r\n\r\n"), Read::Foreign);
        assert_eq!(read("HEAD /v1/snowflake HTTP/1.1\r\nhost: a\r\n\r\n"), Read::Foreign);
        assert_eq!(read("\r\nGET /v1/snowflake HTTP/1.1\r\nhost: a\r\n\r\n"), Read::Foreign);
    }

    #[test]
    fn long_heads_are_foreign_whole_or_not() {
        let many = "x: y\r\n".repeat(HEADERS_MAX);
        assert_eq!(get("/v1/snowflake", &many), Read::Foreign);
        let long = format!("x: {}\r\n", "y".repeat(HEAD_BYTES_MAX));
        assert_eq!(get("/v1/snowflake", &long), Read::Foreign);
        let begun = format!("GET /v1/segment/{}", "y".repeat(HEAD_BYTES_MAX));
        assert_eq!(read(&begun), Read::Foreign);
    }

    /// Pieces of requests, most of them right.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let right = || {
            prop::sample::select(vec![
                "GET /v1/segment/a",
                "GET /api/snowflake/get/",
                "%41",
                "?count=2",
                " HTTP/1.1\r\n",
                "host: x\r\n",
                "Accept: text/plain\r\n",
                "connection: keep-alive\r\n",
                "\r\n",
                PLAIN,
                "GET /v1/snowflake HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n",
            ])
        };
        let wrong = prop::sample::select(vec![
            "\n",
            "\r",
            "\n\n",
            " ",
            ":",
            "\t",
            "content-length: 3\r\n",
            "HTTP/1.0\r\n",
            "\0",
            "POST ",
            "transfer-encoding: chunked\r\n",
            "connection: close\r\n",
            "host: y\n",
            "#",
            "x",
        ]);
        prop_oneof![
            6 => right().prop_map(|text| text.as_bytes().to_vec()),
            1 => wrong.prop_map(|text| text.as_bytes().to_vec()),
            1 => any::<u8>().prop_map(|byte| vec![byte]),
        ]
    }

    proptest! {
        /// What was read before must not matter, and where a request ends is where hyper's parser
        /// ends it.
        #[test]
        fn the_lane_reads_what_hyper_reads(pieces in prop::collection::vec(piece(), 1..24)) {
            let bytes = pieces.concat();
            let (mut known, mut rest) = (Request::default(), &bytes[..]);
            while matches!(known.read(rest), Read::New | Read::Again) {
                let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
                let mut parsed = httparse::Request::new(&mut headers);
                prop_assert_eq!(parsed.parse(rest), Ok(Status::Complete(known.length())));
                prop_assert_eq!((parsed.method, parsed.version), (Some("GET"), Some(1)));
                let request = known.to_http();
                prop_assert_eq!(request.uri().to_string(), parsed.path.unwrap_or_default());
                prop_assert_eq!(request.headers().len(), parsed.headers.len());
                let mut fresh = Request::default();
                prop_assert_eq!(fresh.read(rest), Read::New);
                prop_assert_eq!(fresh.asked(), known.asked());
                rest = &rest[known.length()..];
            }
            prop_assert_eq!(known.read(rest), Request::default().read(rest));
        }
    }
}
