//! Small pieces of text: `HOST:PORT`, %-escapes in paths, fingerprints, and points in time.

pub(crate) mod address;
pub(crate) mod fingerprints;
pub(crate) mod path_segment;
pub(crate) mod timestamp;
