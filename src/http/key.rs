//! The last segment of a path, undone from its %-escapes.
//!
//! A key may hold any UTF-8, `/` included when it was written as `%2F`; a plus sign is a plus
//! sign. Stricter than the usual decoders: a stray `%` is an error, not a literal.

use std::borrow::Cow;
use std::str;

use percent_encoding::percent_decode_str;

use super::problem::Problem;
use crate::tag::BizTag;

/// Decodes `raw`, one whole path segment; borrows unless there is something to undo.
/// `None` when it is empty, holds a bare `/`, or its escapes are malformed or not UTF-8.
#[inline]
pub(super) fn decode(raw: &str) -> Option<Cow<'_, str>> {
    let (mut escaped, mut bare) = (false, !raw.is_empty());
    for byte in raw.bytes() {
        escaped |= byte == b'%';
        bare &= byte != b'/';
    }
    match (bare, escaped) {
        (false, _) => None,
        (true, false) => Some(Cow::Borrowed(raw)),
        (true, true) => unescape(raw),
    }
}

/// Undoes the escapes of `raw`; `None` when one is malformed or the outcome is not UTF-8.
pub(super) fn unescape(raw: &str) -> Option<Cow<'_, str>> {
    let well_formed = raw.split('%').skip(1).all(|rest| {
        matches!(rest.as_bytes(), [high, low, ..]
            if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
    });
    if !well_formed {
        return None;
    }
    percent_decode_str(raw).decode_utf8().ok()
}

/// The tag that ends `path`.
///
/// # Errors
/// `invalid_argument` when it cannot be decoded or is not a tag.
pub(super) fn tag(path: &str) -> Result<BizTag, Problem> {
    let text = last(path)
        .ok_or_else(|| Problem::invalid("tag", "has %-escapes that are malformed or not UTF-8"))?;
    BizTag::parse(&text).map_err(|error| Problem::invalid_argument(error.to_string()))
}

/// The node id that ends `path`.
///
/// # Errors
/// `invalid_argument` when it is not an integer of 1 or more.
pub(super) fn node_id(path: &str) -> Result<u64, Problem> {
    last(path)
        .and_then(|text| super::query::digits(&text))
        .filter(|&id| id >= 1)
        .ok_or_else(|| Problem::invalid("id", "must be an integer of 1 or more"))
}

fn last(path: &str) -> Option<Cow<'_, str>> {
    decode(path.rsplit('/').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_keys_are_borrowed() {
        assert!(matches!(decode("a.b-c+d"), Some(Cow::Borrowed("a.b-c+d"))));
    }

    #[test]
    fn escapes_are_undone_to_utf8() {
        assert_eq!(decode("%E8%AE%A2%E5%8D%95").as_deref(), Some("订单"));
        assert_eq!(decode("a%2Fb%25").as_deref(), Some("a/b%"));
    }

    #[test]
    fn malformed_keys_are_refused() {
        for raw in ["", "a/b", "/", "%", "%4", "%zz", "a%", "%ff", "%+1", "%C3%28", "%E8%AE"] {
            assert_eq!(decode(raw), None, "{raw}");
        }
    }

    #[test]
    fn tags_are_checked_after_decoding() {
        assert_eq!(tag("/v1/tags/a%2Fb").unwrap().as_str(), "a/b");
        let longest = format!("/v1/tags/{}", "%E8%AE%A2".repeat(128));
        assert!(tag(&longest).is_ok());
        assert!(tag(&format!("{longest}x")).is_err());
        assert!(tag("/v1/tags/a%00b").is_err());
        assert!(tag("/v1/tags/%zz").is_err());
    }

    #[test]
    fn node_ids_are_positive_integers() {
        assert_eq!(node_id("/v1/cluster/nodes/12").unwrap(), 12);
        for id in ["0", "-1", "+1", "x", "1e3", "18446744073709551616"] {
            assert!(node_id(&format!("/v1/cluster/nodes/{id}")).is_err(), "{id}");
        }
    }
}
