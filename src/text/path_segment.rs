//! One segment of a URL's path: text into %-escapes, and back.
//!
//! A segment may hold any UTF-8, `/` included when it was written as `%2F`; a plus sign is a plus
//! sign. Reading is stricter than the usual decoders: a stray `%` is an error, not a literal.

use std::borrow::Cow;

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode,
};

/// `text` as one segment of a path.
pub(crate) fn escape(text: &str) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED)
}

/// Decodes `raw`, one whole segment of a path; borrows unless there is something to undo.
/// `None` when it is empty, holds a bare `/`, or its escapes are malformed or not UTF-8.
#[inline]
pub(crate) fn decode(raw: &str) -> Option<Cow<'_, str>> {
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
pub(crate) fn unescape(raw: &str) -> Option<Cow<'_, str>> {
    let well_formed = raw.split('%').skip(1).all(|rest| {
        matches!(rest.as_bytes(), [high, low, ..]
            if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
    });
    if !well_formed {
        return None;
    }
    percent_decode_str(raw).decode_utf8().ok()
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
        assert_eq!(decode(&escape("订/%").to_string()).as_deref(), Some("订/%"));
    }

    #[test]
    fn malformed_keys_are_refused() {
        for raw in ["", "a/b", "/", "%", "%4", "%zz", "a%", "%ff", "%+1", "%C3%28", "%E8%AE"] {
            assert_eq!(decode(raw), None, "{raw}");
        }
    }
}
