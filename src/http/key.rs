//! The tag or the node that the last segment of a path names.

use std::borrow::Cow;

use mintleaf_core::tag::BizTag;

use super::decimal;
use super::problem::Problem;
use crate::text::path_segment;

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
        .and_then(|text| decimal::parse(&text))
        .filter(|&id| id >= 1)
        .ok_or_else(|| Problem::invalid("id", "must be an integer of 1 or more"))
}

/// The last segment of `path`, its escapes undone; `None` when it is empty or malformed.
pub(super) fn last(path: &str) -> Option<Cow<'_, str>> {
    path_segment::decode(path.rsplit('/').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
