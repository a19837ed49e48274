//! Tags with a shape of their own, on this node.
//!
//! ```text
//! tag     one shaped tag: which line is drawn from at a moment, what is held of it, how its ids are written
//! table   all that this node was asked for
//! take    takes ids of one
//! ```

mod table;
mod tag;
mod take;

pub(super) use table::ShapedTable;
pub(super) use tag::{ShapedTag, TagLine};
