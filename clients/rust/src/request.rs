//! Requests to nodes: arguments within their bounds, the path and the body.

use std::ops::RangeInclusive;

use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use serde_json::json;

use crate::error::Error;

/// The most characters of a tag.
const TAG_CHARS_MAX: usize = 128;
/// The most bytes of a key of a sequence or register.
const KEY_BYTES_MAX: usize = 256;
/// How long a worker id may be leased at once, in seconds.
const SECONDS: RangeInclusive<u32> = 5..=3_600;
/// The most characters of a lease's holder.
const HOLDER_CHARS_MAX: usize = 128;
/// The most ids of one call, and of one answer that lists them.
pub(crate) const COUNT_MAX: usize = 10_000;
/// Characters that a path carries unescaped. The dot is escaped, so that no proxy takes `..` for the parent directory.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Ids of a tag, as a list or as ranges.
    Segment { tag: String, count: u64, as_ranges: bool },
    /// Snowflake ids, as a list or as ranges.
    Snowflakes { count: u64, as_ranges: bool },
    /// The next number of a key.
    Sequence { tag: String, key: String },
    /// The number that a key has for ever.
    Register { tag: String, key: String },
    /// A worker id of a pool, for some seconds.
    Lease { pool: String, seconds: u32, holder: String },
    /// More seconds of such a lease.
    Renewal { pool: String, lease: String, seconds: u32 },
    /// The end of such a lease.
    GiveBack { pool: String, lease: String, last_ms: u64 },
    /// The members of the cluster and their addresses.
    Cluster,
}

impl Request {
    /// Path and query.
    pub(crate) fn path(&self) -> String {
        let ranges = |as_ranges: bool| if as_ranges { "&format=ranges" } else { "" };
        match self {
            Self::Segment { tag, count, as_ranges } => {
                format!("/v1/segment/{}?count={count}{}", escaped(tag), ranges(*as_ranges))
            }
            Self::Snowflakes { count, as_ranges } => {
                format!("/v1/snowflake?count={count}{}", ranges(*as_ranges))
            }
            Self::Sequence { tag, key } => {
                format!("/v1/sequence/{}/{}?count=1", escaped(tag), escaped(key))
            }
            Self::Register { tag, key } => {
                format!("/v1/register/{}/{}", escaped(tag), escaped(key))
            }
            Self::Lease { pool, .. } => format!("/v1/pools/{}/leases", escaped(pool)),
            Self::Renewal { pool, lease, .. } | Self::GiveBack { pool, lease, .. } => {
                format!("/v1/pools/{}/leases/{}", escaped(pool), escaped(lease))
            }
            Self::Cluster => "/v1/cluster".to_owned(),
        }
    }

    pub(crate) fn method(&self) -> Method {
        match self {
            Self::Register { .. } | Self::Lease { .. } | Self::Renewal { .. } => Method::POST,
            Self::GiveBack { .. } => Method::DELETE,
            _ => Method::GET,
        }
    }

    /// The body, in JSON, of a request that has one.
    pub(crate) fn body(&self) -> Option<String> {
        let body = match self {
            Self::Lease { seconds, holder, .. } => json!({"seconds": seconds, "holder": holder}),
            Self::Renewal { seconds, .. } => json!({"seconds": seconds}),
            Self::GiveBack { last_ms, .. } => json!({"last_ms": last_ms.to_string()}),
            _ => return None,
        };
        Some(body.to_string())
    }

    pub(crate) fn is_renewal(&self) -> bool {
        matches!(self, Self::Renewal { .. })
    }

    /// How many ids are asked for.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Segment { count, .. } | Self::Snowflakes { count, .. } => *count,
            Self::Sequence { .. } => 1,
            _ => 0,
        }
    }

    /// Whether it asks for ranges.
    pub(crate) fn as_ranges(&self) -> bool {
        match self {
            Self::Segment { as_ranges, .. } | Self::Snowflakes { as_ranges, .. } => *as_ranges,
            _ => false,
        }
    }
}

fn escaped(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, ESCAPED)
}

/// Whether a node would take this tag.
pub(crate) fn check_tag(tag: &str) -> Result<(), Error> {
    check_name("tag", tag)
}

/// Whether a node would take this name of a tag or pool.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let chars = name.chars().count();
    if chars == 0 || chars > TAG_CHARS_MAX {
        let fault = format!("{what} must have 1 to {TAG_CHARS_MAX} characters, not {chars}");
        return Err(Error::InvalidArgument(fault));
    }
    if name.chars().any(char::is_control) {
        let fault = format!("{what} must not hold control characters");
        return Err(Error::InvalidArgument(fault));
    }
    Ok(())
}

/// Whether a node would lease a worker id for so long.
pub(crate) fn check_seconds(seconds: u32) -> Result<(), Error> {
    if SECONDS.contains(&seconds) {
        return Ok(());
    }
    let (least, most) = (SECONDS.start(), SECONDS.end());
    Err(Error::InvalidArgument(format!("seconds must be {least} to {most}, not {seconds}")))
}

/// Whether a node would take this holder of a lease.
pub(crate) fn check_holder(holder: &str) -> Result<(), Error> {
    let chars = holder.chars().count();
    if chars <= HOLDER_CHARS_MAX && !holder.chars().any(char::is_control) {
        return Ok(());
    }
    let fault =
        format!("holder must have at most {HOLDER_CHARS_MAX} characters, and none that controls");
    Err(Error::InvalidArgument(fault))
}

/// Whether a node would take this key of a sequence or register.
pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    let fault = format!("key must have 1 to {KEY_BYTES_MAX} bytes, not {}", key.len());
    Err(Error::InvalidArgument(fault))
}

/// Whether one call may ask for `count` ids.
pub(crate) fn check_count(count: usize) -> Result<u64, Error> {
    if (1..=COUNT_MAX).contains(&count) {
        return Ok(count as u64);
    }
    Err(Error::InvalidArgument(format!("count must be 1 to {COUNT_MAX}, not {count}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_keys_are_one_segment_of_the_path_each() {
        let segment = Request::Segment { tag: "a/b?c.d e%".into(), count: 5, as_ranges: true };
        assert_eq!(segment.path(), "/v1/segment/a%2Fb%3Fc%2Ed%20e%25?count=5&format=ranges");
        let up = Request::Segment { tag: "..".into(), count: 1, as_ranges: false };
        assert_eq!(up.path(), "/v1/segment/%2E%2E?count=1");
        let sequence = Request::Sequence { tag: "chat".into(), key: "Raum/17-ü".into() };
        assert_eq!(sequence.path(), "/v1/sequence/chat/Raum%2F17-%C3%BC?count=1");
        let snowflakes = Request::Snowflakes { count: 8, as_ranges: true };
        assert_eq!(snowflakes.path(), "/v1/snowflake?count=8&format=ranges");
    }

    #[test]
    fn arguments_out_of_bounds_are_refused_with_their_bounds() {
        assert_eq!(check_tag(&"ü".repeat(128)), Ok(()));
        for tag in ["", "a\nb", &"x".repeat(129)] {
            assert!(matches!(check_tag(tag), Err(Error::InvalidArgument(_))), "{tag}");
        }
        assert_eq!(check_key(&"k".repeat(256)), Ok(()));
        let fault = check_key(&"ü".repeat(129)).unwrap_err().to_string();
        assert_eq!(fault, "key must have 1 to 256 bytes, not 258");
        assert_eq!(check_count(10_000), Ok(10_000));
        for count in [0, 10_001] {
            let fault = check_count(count).unwrap_err().to_string();
            assert_eq!(fault, format!("count must be 1 to 10000, not {count}"));
        }
    }
}
