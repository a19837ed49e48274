//! Writes answers, byte for byte as hyper would write them.

use std::io::Write;
use std::ops::Range;

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, DATE};
use axum::http::response::Parts;

use super::date::{self, Date};
use crate::http::id_request::{Form, IdPath, IdRequest};
use crate::http::ids::IdQuery;
use crate::http::pieces::ChunkedBytes;

/// Digits of the largest id.
const DIGITS_MAX: usize = 19;

/// The answer to a request for one id: as a rule the last answer with other digits in it.
#[derive(Debug)]
pub(super) struct AnswerTemplate {
    content_type: HeaderValue,
    /// The body up to the id.
    before: Vec<u8>,
    /// The body behind the id.
    behind: &'static str,
    second: u64,
    date: Date,
    /// The whole answer, with an id of `digits` digits; stale when `digits` is 0.
    answer: ChunkedBytes,
    digits: usize,
}

impl Default for AnswerTemplate {
    fn default() -> Self {
        Self {
            content_type: HeaderValue::from_static(""),
            before: Vec::new(),
            behind: "",
            second: 0,
            date: date::at(0),
            answer: ChunkedBytes::default(),
            digits: 0,
        }
    }
}

impl AnswerTemplate {
    /// Makes answers say this Unix second in `date`.
    #[inline]
    pub(super) fn begin(&mut self, second: u64) {
        if second != self.second {
            (self.second, self.date, self.digits) = (second, date::at(second), 0);
        }
    }

    /// The value of the `date` header.
    pub(super) fn date(&self) -> &Date {
        &self.date
    }

    /// Makes answers fit what a request wants: its content type and the text around the id.
    pub(super) fn fit(&mut self, request: &IdRequest<String>) {
        self.digits = 0;
        self.before.clear();
        self.behind = "";
        match &request.form {
            Form::Bare(Some(media_type)) => self.content_type = media_type.clone(),
            Form::Listed(Ok(wanted)) => {
                self.content_type = wanted.media_type();
                self.behind = if wanted.is_text { "\n" } else { "\"]}" };
                if !wanted.is_text {
                    self.begin_json((request.path == IdPath::Segment).then_some(&request.tag));
                }
            }
            Form::Bare(None) | Form::Listed(Err(_)) => {}
        }
    }

    fn begin_json(&mut self, tag: Option<&String>) {
        self.before.push(b'{');
        if let Some(tag) = tag {
            self.before.extend_from_slice(br#""tag":"#);
            // A string always serializes, and writing to a `Vec` cannot fail.
            let _ = serde_json::to_writer(&mut self.before, tag);
            self.before.push(b',');
        }
        self.before.extend_from_slice(br#""ids":[""#);
    }

    /// Writes the answer with this id.
    #[inline]
    pub(super) fn write(&mut self, out: &mut Vec<u8>, id: u64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(id).as_bytes();
        if digits.len() != self.digits {
            self.write_anew(digits.len());
        }
        self.answer.append_to(out);
        let end = out.len() - self.behind.len();
        out[end - digits.len()..end].copy_from_slice(digits);
    }

    /// Writes the answer with these ids of a tag.
    pub(super) fn write_many(
        &self,
        out: &mut Vec<u8>,
        wanted: &IdQuery,
        tag: &str,
        ids: &[Range<u64>],
    ) {
        wanted.write(out, Some(tag), ids, |out, length| {
            write_head(out, wanted.content_type().as_bytes(), length, &self.date);
        });
    }

    #[cold]
    fn write_anew(&mut self, digits: usize) {
        let length = self.before.len() + digits + self.behind.len();
        self.digits = digits;
        let mut answer = Vec::new();
        write_head(&mut answer, self.content_type.as_bytes(), length, &self.date);
        answer.extend_from_slice(&self.before);
        answer.extend_from_slice(&[b'0'; DIGITS_MAX + 1][..digits]);
        answer.extend_from_slice(self.behind.as_bytes());
        self.answer.replace(&answer);
    }
}

/// Writes the head of an answer with ids.
fn write_head(out: &mut Vec<u8>, content_type: &[u8], length: usize, date: &Date) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    out.extend_from_slice(content_type);
    out.extend_from_slice(b"\r\ncache-control: no-store\r\n");
    write_end(out, Some(length), Some(date));
}

/// Writes a whole response.
pub(super) fn write_response(out: &mut Vec<u8>, head: &Parts, body: &[u8], date: &Date) {
    let reason = head.status.canonical_reason().unwrap_or("<none>");
    // Writing to a `Vec` cannot fail.
    let _ = write!(out, "HTTP/1.1 {} {reason}\r\n", head.status.as_str());
    for (name, value) in &head.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let length = (!head.headers.contains_key(CONTENT_LENGTH)).then_some(body.len());
    let date = (!head.headers.contains_key(DATE)).then_some(date);
    write_end(out, length, date);
    out.extend_from_slice(body);
}

/// Ends a head with the headers that every answer has.
fn write_end(out: &mut Vec<u8>, length: Option<usize>, date: Option<&Date>) {
    if let Some(length) = length {
        let _ = write!(out, "content-length: {length}\r\n");
    }
    if let Some(date) = date {
        out.extend_from_slice(b"date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
