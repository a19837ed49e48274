//! The paths that ids are asked for at, and taken apart.

/// Leaf's path of ids of a tag, which follows.
pub(super) const LEAF_SEGMENT: &str = "/api/segment/get/";
/// The path of ids of a tag, which follows.
pub(super) const V1_SEGMENT: &str = "/v1/segment/";
/// Leaf's path of a snowflake id; any key follows.
pub(super) const LEAF_SNOWFLAKE: &str = "/api/snowflake/get/";
/// The path of snowflake ids.
pub(super) const V1_SNOWFLAKE: &str = "/v1/snowflake";
