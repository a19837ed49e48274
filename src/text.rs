//! Small pieces of text: `HOST:PORT`, %-escapes in paths, and points in time.

pub(crate) mod address;
pub(crate) mod path_segment;
pub(crate) mod timestamp;
