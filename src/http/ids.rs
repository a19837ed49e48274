//! Ids as version 1 writes them: as JSON strings, as ranges, or as text; those of a tag, and snowflake ids.

use std::ops::Range;
use std::slice;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response};
use mintleaf_core::shape::Shape;
use mintleaf_core::shape::id_text::IdText;

use super::decimal;
use super::problem::Problem;
use super::query::Query;
use crate::limits::{LISTED_IDS_MAX, ORDINARY_ANSWER_BYTES, RANGED_IDS_MAX};
use crate::service::NOT_CONSECUTIVE;

/// Bytes reserved for the head of an answer.
const HEAD_BYTES: usize = 256;
/// Bytes of an answer in JSON besides its ids or ranges and its tag.
const FRAME_BYTES: usize = 40;
/// The same of a shaped tag, whose answers may name a period, and say that the ids are for the call that asked.
const SHAPED_FRAME_BYTES: usize = 80;

/// Bytes of the longest id in a list, with what surrounds it.
const ID_BYTES_MAX: u64 = 19 + 3;
/// Bytes of the longest range in a list, with what surrounds it.
const RANGE_BYTES_MAX: u64 = 2 * 19 + r#"{"start":"","end":""},"#.len() as u64;

/// How many ids a request asks for, and the style of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdQuery {
    pub(super) count: u64,
    /// Ranges of ids rather than a list of them.
    pub(super) is_ranges: bool,
    /// Plain text rather than JSON.
    pub(super) is_text: bool,
}

impl IdQuery {
    /// Reads the parameters `count` and `format`, of a client that wants `text` or JSON.
    ///
    /// # Errors
    /// `invalid_argument`, for any other parameter too.
    #[inline]
    pub(super) fn of(query: Option<&str>, is_text: bool) -> Result<Self, Problem> {
        match query {
            None => Ok(Self { count: 1, is_ranges: false, is_text }),
            Some(query) => Self::parse(query, is_text),
        }
    }

    fn parse(query: &str, is_text: bool) -> Result<Self, Problem> {
        let mut query = Query::parse(Some(query))?;
        let format = query.choice("format", [("ids", false), ("ranges", true)])?;
        let is_ranges = format.unwrap_or(false);
        let count_max = if is_ranges { RANGED_IDS_MAX } else { LISTED_IDS_MAX };
        let count = query.integer("count", 1..=count_max)?.unwrap_or(1);
        query.finish()?;
        Ok(Self { count, is_ranges, is_text })
    }

    /// Whether one id is asked for, and is answered as one without a query is.
    #[inline]
    pub(super) fn is_one(&self) -> bool {
        self.count == 1 && !self.is_ranges
    }

    /// The bytes of the answer at most, if that may be a long one. Its ids belong to `tag` or to no tag, and come in
    /// runs of `run_min` ids, except for the first and the last.
    pub(super) fn long_bytes_max(&self, tag: Option<&str>, run_min: u64) -> Option<usize> {
        // JSON may write a character of a tag as two.
        let bytes = FRAME_BYTES + 2 * tag.map_or(0, str::len) + self.items_bytes_max(run_min);
        (bytes > ORDINARY_ANSWER_BYTES).then_some(bytes)
    }

    /// The same as [`long_bytes_max`](Self::long_bytes_max), for numbers of a key, which come in one run.
    pub(super) fn long_bytes_max_of_key(&self, tag: &str, key: &str) -> Option<usize> {
        // JSON may write a character of a key as `\u0000`.
        let names = FRAME_BYTES + 2 * tag.len() + 6 * key.len();
        let bytes = FRAME_BYTES + names + self.items_bytes_max(RANGED_IDS_MAX);
        (bytes > ORDINARY_ANSWER_BYTES).then_some(bytes)
    }

    fn items_bytes_max(&self, run_min: u64) -> usize {
        let items = match self.is_ranges {
            true => (self.count.div_ceil(run_min) + 1) * RANGE_BYTES_MAX,
            false => self.count * ID_BYTES_MAX,
        };
        items as usize
    }

    /// Checks whether the style of the answer suits ids that are consecutive, or are not.
    ///
    /// # Errors
    /// `invalid_argument` for ranges of ids that are not consecutive: their ends say nothing of the rest.
    pub(super) fn check(&self, are_consecutive: bool) -> Result<(), Problem> {
        if !self.is_ranges || are_consecutive {
            return Ok(());
        }
        Err(Problem::invalid("format", format_args!("must not be ranges: {NOT_CONSECUTIVE}")))
    }

    /// The same as [`long_bytes_max`](Self::long_bytes_max), for a tag of this shape, whose ids come in few runs.
    pub(super) fn long_bytes_max_shaped(&self, tag: Option<&str>, shape: &Shape) -> Option<usize> {
        if self.is_ranges {
            return self.long_bytes_max(tag, RANGED_IDS_MAX);
        }
        let ids = self.count as usize * (IdText::json_bytes_max(&shape.format) + 1);
        let bytes = SHAPED_FRAME_BYTES + 2 * tag.map_or(0, str::len) + ids;
        (bytes > ORDINARY_ANSWER_BYTES).then_some(bytes)
    }

    /// The content type of the answer.
    pub(super) fn content_type(&self) -> &'static str {
        if self.is_text { TEXT } else { JSON }
    }

    /// The content type as a header has it.
    #[inline]
    pub(super) fn media_type(&self) -> HeaderValue {
        const TEXT_TYPE: HeaderValue = HeaderValue::from_static(TEXT);
        const JSON_TYPE: HeaderValue = HeaderValue::from_static(JSON);
        if self.is_text { TEXT_TYPE } else { JSON_TYPE }
    }

    /// Writes the answer with these ids, of a tag or of none. `head` gets the length of the body and writes the head,
    /// then comes the body. A list of ids as text, the longest answer for its count, is written straight into `out`.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        tag: Option<&str>,
        taken: &[Range<u64>],
        head: impl FnOnce(&mut Vec<u8>, usize),
    ) {
        if self.is_ranges || !self.is_text {
            let body = self.body(tag, None, None, taken);
            head(out, body.len());
            return out.extend_from_slice(&body);
        }
        let line_ends = taken.iter().map(|range| range.end - range.start).sum::<u64>();
        let digits = taken.iter().cloned().map(decimal::digit_count).sum::<u64>();
        let length = (digits + line_ends) as usize;
        out.reserve(HEAD_BYTES + length + decimal::SLACK);
        head(out, length);
        taken.iter().for_each(|range| decimal::append(out, range.clone(), "", "\n"));
    }

    /// The answer with these ids, of a tag or of none. `text` makes the ids of a shaped tag from these numbers of its
    /// line. Ranges are of the numbers, where ids show them; otherwise they are refused.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn answer(
        &self,
        tag: Option<&str>,
        text: Option<&IdText>,
        taken: &[Range<u64>],
    ) -> Result<Response<Bytes>, Problem> {
        self.check(text.is_none_or(IdText::has_consecutive_ids))?;
        let mut response = Response::new(Bytes::from(self.body(tag, None, text, taken)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.media_type());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    /// The body of the answer with these numbers of a key of a tag.
    pub(super) fn body_of_key(&self, tag: &str, key: &str, numbers: Range<u64>) -> Vec<u8> {
        self.body(Some(tag), Some(key), None, slice::from_ref(&numbers))
    }

    /// The body, in one buffer that is large enough from the start for ids that are numbers.
    fn body(
        &self,
        tag: Option<&str>,
        key: Option<&str>,
        text: Option<&IdText>,
        taken: &[Range<u64>],
    ) -> Vec<u8> {
        let (items, item_bytes_max) = match self.is_ranges {
            true => (taken.len() as u64, RANGE_BYTES_MAX),
            false => (taken.iter().map(|range| range.end - range.start).sum(), ID_BYTES_MAX),
        };
        let items = (items * item_bytes_max) as usize + decimal::SLACK;
        let frame = if text.is_some() || key.is_some() { SHAPED_FRAME_BYTES } else { FRAME_BYTES };
        let names = tag.map_or(0, str::len) + key.map_or(0, str::len);
        let out = Vec::with_capacity(frame + names + items);
        let mut body = Writer { out, digits: itoa::Buffer::new(), tag, key, text };
        match (self.is_text, self.is_ranges) {
            (true, true) => body.text_ranges(taken),
            (true, false) => body.text_ids(taken),
            (false, true) => body.json_ranges(taken),
            (false, false) => body.json_ids(taken),
        }
        body.out
    }
}

/// The range of one id. An id is at most 2^63-1, so its end fits.
pub(super) fn only(id: u64) -> Range<u64> {
    id..id + 1
}

/// Whether the client named `text/plain` and prefers it: JSON wins where both are named alike.
pub(super) fn wants_text(headers: &HeaderMap) -> bool {
    let Some(Ok(accept)) = headers.get(ACCEPT).map(HeaderValue::to_str) else { return false };
    let quality = |media_type: &str| {
        let range = accept.split(',').find(|range| {
            range.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(media_type))
        })?;
        let weight = range.split(';').skip(1).find_map(|part| part.trim().strip_prefix("q="));
        Some(weight.map_or(1.0, |weight| weight.trim().parse::<f32>().unwrap_or(0.0)))
    };
    let text = quality("text/plain").unwrap_or(0.0);
    text > 0.0 && text > quality("application/json").unwrap_or(0.0)
}

const TEXT: &str = "text/plain;charset=UTF-8";
const JSON: &str = "application/json";

/// Writes a body.
struct Writer<'a> {
    out: Vec<u8>,
    digits: itoa::Buffer,
    tag: Option<&'a str>,
    key: Option<&'a str>,
    /// What makes the ids of a shaped tag.
    text: Option<&'a IdText>,
}

impl Writer<'_> {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.out.extend_from_slice(self.digits.format(number).as_bytes());
    }

    fn head(&mut self) {
        self.raw("{");
        for (member, name) in [(r#""tag":"#, self.tag), (r#""key":"#, self.key)] {
            if let Some(name) = name {
                self.raw(member);
                // A string always serializes, and writing to a `Vec` cannot fail.
                let _ = serde_json::to_writer(&mut self.out, name);
                self.raw(",");
            }
        }
        if let Some(period) = self.text.and_then(IdText::period) {
            self.raw(r#""period":""#);
            self.number(period.0.into());
            self.raw("\",");
        }
    }

    fn end(&mut self) {
        // Ids of a shaped tag and numbers of a key are for the call that asked, and not for later use.
        let is_lease = self.text.is_none() && self.key.is_none();
        self.raw(if is_lease { "]}" } else { r#"],"lease":false}"# });
    }

    fn json_ids(&mut self, taken: &[Range<u64>]) {
        self.head();
        self.raw(r#""ids":["#);
        for range in taken.iter().cloned() {
            match self.text {
                None => decimal::append(&mut self.out, range, "\"", "\","),
                Some(text) => range.for_each(|number| {
                    text.append_json(number, &mut self.out);
                    self.out.push(b',');
                }),
            }
        }
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.end();
    }

    fn json_ranges(&mut self, taken: &[Range<u64>]) {
        self.head();
        self.raw(r#""ranges":["#);
        for (at, range) in taken.iter().enumerate() {
            self.raw(if at == 0 { r#"{"start":""# } else { r#",{"start":""# });
            self.number(range.start);
            self.raw(r#"","end":""#);
            self.number(range.end);
            self.raw(r#""}"#);
        }
        self.end();
    }

    fn text_ids(&mut self, taken: &[Range<u64>]) {
        for range in taken.iter().cloned() {
            match self.text {
                None => decimal::append(&mut self.out, range, "", "\n"),
                Some(text) => range.for_each(|number| {
                    text.append(number, &mut self.out);
                    self.out.push(b'\n');
                }),
            }
        }
    }

    /// Writes one `start-end` a line, the end exclusive as in JSON.
    fn text_ranges(&mut self, taken: &[Range<u64>]) {
        for range in taken {
            self.number(range.start);
            self.raw("-");
            self.number(range.end);
            self.raw("\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use mintleaf_core::shape::{PeriodNumber, TextFormat};

    use super::*;

    fn written(
        tag: Option<&str>,
        text: Option<&IdText>,
        taken: &[Range<u64>],
        [is_ranges, is_text]: [bool; 2],
    ) -> String {
        let wanted = IdQuery { count: 1, is_ranges, is_text };
        String::from_utf8(wanted.body(tag, None, text, taken)).unwrap()
    }

    fn of_tag(taken: &[Range<u64>], ranges: bool, text: bool) -> String {
        written(Some("a\"b"), None, taken, [ranges, text])
    }

    #[test]
    fn ids_are_written_in_every_style() {
        let taken = [1..3, 10..11];
        assert_eq!(of_tag(&taken, false, false), r#"{"tag":"a\"b","ids":["1","2","10"]}"#);
        assert_eq!(
            of_tag(&taken, true, false),
            r#"{"tag":"a\"b","ranges":[{"start":"1","end":"3"},{"start":"10","end":"11"}]}"#
        );
        let tagless = written(None, None, &taken, [false, false]);
        assert_eq!(tagless, r#"{"ids":["1","2","10"]}"#);
        assert_eq!(of_tag(&taken, false, true), "1\n2\n10\n");
        assert_eq!(of_tag(&taken, true, true), "1-3\n10-11\n");
    }

    #[test]
    fn ids_of_a_shaped_tag_are_written_in_every_style() {
        let format = Some(TextFormat::parse("\"{period}-{id:03}").unwrap());
        let text = IdText::new(&Shape { format, ..Shape::default() }, Some(PeriodNumber(2026)));
        let taken = [1..3, 10..11];
        let shaped =
            |ranges, as_text| written(Some("a\"b"), Some(&text), &taken, [ranges, as_text]);
        assert_eq!(
            shaped(false, false),
            r#"{"tag":"a\"b","period":"2026","ids":["\"2026-001","\"2026-002","\"2026-010"],"lease":false}"#
        );
        assert_eq!(
            shaped(true, false),
            r#"{"tag":"a\"b","period":"2026","ranges":[{"start":"1","end":"3"},{"start":"10","end":"11"}],"lease":false}"#
        );
        assert_eq!(shaped(false, true), "\"2026-001\n\"2026-002\n\"2026-010\n");
        assert_eq!(shaped(true, true), "1-3\n10-11\n");
        let bare = IdText::new(&Shape::default(), None);
        assert_eq!(
            written(Some("a"), Some(&bare), slice::from_ref(&only(7)), [false, false]),
            r#"{"tag":"a","ids":["7"],"lease":false}"#
        );
    }

    #[test]
    fn numbers_of_a_key_are_written_in_every_style() {
        let of_key = |is_ranges, is_text| {
            let wanted = IdQuery { count: 2, is_ranges, is_text };
            String::from_utf8(wanted.body_of_key("a\"b", "\u{1}订", 7..9)).unwrap()
        };
        assert_eq!(
            of_key(false, false),
            r#"{"tag":"a\"b","key":"\u0001订","ids":["7","8"],"lease":false}"#
        );
        assert_eq!(
            of_key(true, false),
            r#"{"tag":"a\"b","key":"\u0001订","ranges":[{"start":"7","end":"9"}],"lease":false}"#
        );
        assert_eq!((of_key(false, true), of_key(true, true)), ("7\n8\n".into(), "7-9\n".into()));
    }

    #[test]
    fn the_largest_id_is_written_whole() {
        let last = i64::MAX as u64;
        let written = of_tag(slice::from_ref(&only(last)), false, true);
        assert_eq!(written, "9223372036854775807\n");
    }

    #[test]
    fn text_is_sent_only_to_those_who_prefer_it() {
        let wants =
            |accept: &str| wants_text(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]));
        assert!(wants("text/plain"));
        assert!(wants("text/plain, */*;q=0.5"));
        assert!(wants("application/json;q=0.5, text/plain;q=0.9"));
        assert!(!wants("*/*"));
        assert!(!wants("application/json, text/plain, */*"));
        assert!(!wants("text/plain;q=0"));
        assert!(!wants("text/html, image/gif, *; q=.2, */*; q=.2"));
        assert!(!wants_text(&HeaderMap::new()));
    }
}
