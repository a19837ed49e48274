//! Recognizes plain requests for ids by their bytes.

use axum::body::Bytes;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, Version};
use httparse::Status;

use crate::http::id_request::{AcceptedType, Form, IdDemand, IdPath, IdRequest};
use crate::http::pieces::{are_same, begin_with};
use crate::http::routes::{self, Route};
use crate::http::{access, host};
use crate::limits::HEADERS_MAX;

/// Longest head on the fast path. Whenever more bytes come in, an incomplete head is read anew, so this also bounds the
/// work that a client can cause by sending a head in small pieces.
const PLAIN_HEAD_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of equal requests that are answered together.
const TOGETHER_MAX: usize = 256;

const METHOD: &[u8] = b"GET ";
const VERSION: &[u8] = b" HTTP/1.1\r\n";

/// The nature of the next bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// The same request as the last one.
    Again,
    /// Another plain request.
    New,
    /// The beginning of bytes that may become a plain request.
    Partial,
    /// A request that the fast path does not support.
    Unsupported,
}

/// A plain request: a `GET` of one of the id paths, without a body, on a connection that stays open behind it. Its
/// header block is judged once: nearly all clients send the same block again, and then comparing the bytes is all that
/// is needed.
#[derive(Debug)]
pub(super) struct PlainRequest {
    /// The whole request; empty before the first.
    bytes: Vec<u8>,
    /// Where its path ends.
    path_end: usize,
    /// Where its header block begins.
    block_start: usize,
    /// How many header blocks were read anew, up to this request's.
    block: u64,
    /// Its head, whose path is only that of the request when [`parts`](Self::parts) returns it.
    head: Parts,
    /// What its headers say about the answer.
    wish: AcceptedType,
    request: IdRequest<String>,
}

impl Default for PlainRequest {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            path_end: 0,
            block_start: 0,
            block: 0,
            head: Request::new(()).into_parts().0,
            wish: AcceptedType::of(&HeaderMap::new()),
            request: IdRequest {
                path: IdPath::LeafSegment,
                tag: String::new(),
                form: Form::Bare(None),
            },
        }
    }
}

impl PlainRequest {
    /// Reads the request that `bytes` begin with. A new plain request replaces this one, which is the
    /// last that was read; otherwise this one stays.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8]) -> ReadOutcome {
        if !self.bytes.is_empty() && begin_with(bytes, &self.bytes) {
            return ReadOutcome::Again;
        }
        match self.read_new(bytes) {
            Ok(()) => ReadOutcome::New,
            Err(ReadOutcome::Partial) if bytes.len() >= PLAIN_HEAD_BYTES_MAX => {
                ReadOutcome::Unsupported
            }
            Err(other) => other,
        }
    }

    fn read_new(&mut self, bytes: &[u8]) -> Result<(), ReadOutcome> {
        let path_end = path_end(bytes)?;
        let path = std::str::from_utf8(&bytes[METHOD.len()..path_end])
            .map_err(|_| ReadOutcome::Unsupported)?;
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        let (id_path, tag) = IdPath::read(path).ok_or(ReadOutcome::Unsupported)?;
        let block_start = path_end + VERSION.len();
        let block = &bytes[block_start..];
        let known = &self.bytes[self.block_start..];
        let length = if !known.is_empty() && begin_with(block, known) {
            known.len()
        } else {
            let (length, headers) = plain_headers(block)?;
            (self.wish, self.head.headers) = (AcceptedType::of(&headers), headers);
            self.block += 1;
            length
        };
        // A longer head is not partial either: see `read`.
        if block_start + length > PLAIN_HEAD_BYTES_MAX {
            return Err(ReadOutcome::Unsupported);
        }
        self.request.path = id_path;
        self.request.form = Form::of(id_path, query, &self.wish);
        self.request.tag.clear();
        self.request.tag.push_str(&tag);
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes[..block_start + length]);
        (self.path_end, self.block_start) = (path_end, block_start);
        Ok(())
    }

    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// How many requests equal to this one `bytes` begin with, up to a bound.
    #[inline]
    pub(super) fn repeats(&self, bytes: &[u8]) -> u64 {
        let next = bytes.chunks_exact(self.bytes.len()).take(TOGETHER_MAX);
        next.take_while(|next| are_same(next, &self.bytes)).count() as u64
    }

    /// What it asks for.
    #[inline]
    pub(super) fn request(&self) -> &IdRequest<String> {
        &self.request
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The number of its header block: requests of one connection with the same number have the same headers.
    #[inline]
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// Its row of the routes, and the tag that its path names; `None` when it asks for no ids that the fast path could
    /// answer with.
    #[inline]
    pub(super) fn route(&self) -> Option<(&'static Route, &str)> {
        match self.request.demand() {
            IdDemand::Invalid => None,
            _ => Some((routes::of_ids(self.request.path), &self.request.tag)),
        }
    }

    /// What it asks for, and its head as hyper would read it.
    pub(super) fn parts(&mut self) -> (&IdRequest<String>, &Parts) {
        let path = Bytes::copy_from_slice(&self.bytes[METHOD.len()..self.path_end]);
        // The bytes of `is_plain` can stand in any path and query.
        self.head.uri = Uri::from_maybe_shared(path).unwrap_or_default();
        (&self.request, &self.head)
    }
}

/// Where the path of a request line ends, if its method and version are those of a plain request.
#[inline]
fn path_end(bytes: &[u8]) -> Result<usize, ReadOutcome> {
    begins(bytes, METHOD)?;
    let path = &bytes[METHOD.len()..];
    let length = path.iter().position(|&byte| !is_plain(byte)).ok_or(ReadOutcome::Partial)?;
    begins(&path[length..], VERSION)?;
    Ok(METHOD.len() + length)
}

#[inline]
fn begins(bytes: &[u8], with: &[u8]) -> Result<(), ReadOutcome> {
    match bytes.starts_with(with) {
        true => Ok(()),
        false if with.starts_with(bytes) => Err(ReadOutcome::Partial),
        false => Err(ReadOutcome::Unsupported),
    }
}

/// Whether a byte means itself in every path and query.
#[inline]
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/?".contains(&byte)
}

/// The headers that `block` begins with and their length, if they are those of a plain request.
fn plain_headers(block: &[u8]) -> Result<(usize, HeaderMap), ReadOutcome> {
    let mut parsed = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (length, parsed) = match httparse::parse_headers(block, &mut parsed) {
        Ok(Status::Complete(complete)) => complete,
        Ok(Status::Partial) => return Err(ReadOutcome::Partial),
        Err(_) => return Err(ReadOutcome::Unsupported),
    };
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for header in parsed {
        let name =
            HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| ReadOutcome::Unsupported)?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| ReadOutcome::Unsupported)?;
        headers.append(name, value);
    }
    if is_for_hyper(&headers) { Err(ReadOutcome::Unsupported) } else { Ok((length, headers)) }
}

/// Whether headers mean more than that a request without a body has come in, or less: also that a page sends it, and of
/// which site, which [`access`] judges.
fn is_for_hyper(headers: &HeaderMap) -> bool {
    let closes = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    let framing = [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, UPGRADE];
    host::fault(Version::HTTP_11, headers).is_some()
        || access::is_of_a_page(headers)
        || framing.iter().any(|name| headers.contains_key(name))
        || headers.get_all(CONNECTION).iter().any(closes)
}

/// Where the plain requests end that `bytes` begin with; and where hyper's parser ends the ones that the dispatch would
/// answer.
#[cfg(feature = "fuzzing")]
pub(in crate::http) fn ends(bytes: &[u8]) -> [Vec<usize>; 2] {
    let (mut known, mut ends, mut start) = (PlainRequest::default(), [vec![], vec![]], 0);
    while matches!(known.read(&bytes[start..]), ReadOutcome::New | ReadOutcome::Again) {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        if let Ok(Status::Complete(length)) = parsed.parse(&bytes[start..])
            && let hosts =
                parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"))
            && let [host] = hosts.map(|header| header.value).collect::<Vec<_>>()[..]
            && host::name(host).is_some()
        {
            ends[1].push(start + length);
        }
        ends[0].push(start + known.length());
        start += known.length();
    }
    ends
}

#[cfg(test)]
mod tests;
