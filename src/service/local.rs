//! What one node holds of one tag, by itself: the ids, the callers that wait for more, and the tag's protection.
//!
//! ```text
//! rate_limit      a bucket that fills at the tag's rate
//!   guard         whether ids may be handed out now: frozen, or over the rate limit
//!     slot        the segments of one number line, and the callers that wait for ids of it
//!       lines     a shaped tag: the number lines that are drawn from now, each with its text and slot
//! first_segments  changes of tags whose first segment has no slot yet
//! cluster_time    the time that selects a period
//! ```
//!
//! Each tag has its own lock, which no task holds across a wait.

pub(super) mod cluster_time;
pub(super) mod first_segments;
pub(super) mod guard;
pub(super) mod lines;
mod rate_limit;
pub(super) mod slot;
