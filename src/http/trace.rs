//! The trace that a request belongs to, as its `traceparent` says (W3C Trace Context). The log lines of the request show
//! it, by a span that no other request has.

use axum::http::{HeaderMap, HeaderName};
use tracing::Span;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Characters of version 00. A later version may have more behind a hyphen, which are not shown.
const CHARACTERS: usize = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".len();

/// The span of a request, which a request without a valid `traceparent` lacks. `leader` is the node that leads: what a
/// request changes is appended there.
pub(super) fn span(headers: &HeaderMap, leader: impl FnOnce() -> Option<u64>) -> Span {
    match traceparent(headers) {
        // A span shows in lines of its own level and above: this one in all.
        Some(traceparent) => tracing::error_span!("request", traceparent, leader = leader()),
        None => Span::none(),
    }
}

fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let (Some(one), None) = (given.next(), given.next()) else { return None };
    let one = one.to_str().ok()?;
    let (known, rest) = one.split_at_checked(CHARACTERS)?;
    let mut fields = known.split('-');
    let mut field = |digits| fields.next().filter(|field| is_hex(field, digits));
    let (version, trace, parent) = (field(2)?, field(32)?, field(16)?);
    field(2)?;
    let ends = match version {
        "ff" => false,
        "00" => rest.is_empty(),
        _ => rest.is_empty() || rest.starts_with('-'),
    };
    let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
    (ends && !is_zero(trace) && !is_zero(parent)).then_some(known)
}

fn is_hex(field: &str, digits: usize) -> bool {
    field.len() == digits && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

    fn of(given: &[String]) -> Option<String> {
        let header = |it: &String| (TRACEPARENT, HeaderValue::from_str(it).unwrap());
        traceparent(&given.iter().map(header).collect()).map(str::to_owned)
    }

    #[test]
    fn a_traceparent_of_any_version_is_read_as_far_as_it_is_known() {
        let sampled = format!("00-{TRACE}-01");
        assert_eq!(of(std::slice::from_ref(&sampled)), Some(sampled.clone()));
        let later = format!("cc-{TRACE}-09");
        assert_eq!(of(std::slice::from_ref(&later)), Some(later.clone()));
        assert_eq!(of(&[format!("{later}-what-a-later-one-adds")]), Some(later));
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        assert_eq!(of(&[]), None);
        let sampled = format!("00-{TRACE}-01");
        assert_eq!(of(&[sampled.clone(), sampled.clone()]), None, "two of them");
        let no_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let no_parent = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
        for malformed in [
            String::new(),
            "x".repeat(4_000),
            format!("ff-{TRACE}-01"),
            format!("{sampled}-more"),
            format!("cc-{TRACE}-01more"),
            format!("00-{TRACE}-1"),
            format!("00-{TRACE}-0g"),
            sampled.to_uppercase(),
            sampled.replace('-', "_"),
            sampled.replacen("0af7", "0af-", 1),
            format!("00-{}-01", &TRACE[1..]),
            format!(" {sampled}"),
            no_trace,
            no_parent,
        ] {
            assert_eq!(of(std::slice::from_ref(&malformed)), None, "{malformed}");
        }
    }
}
