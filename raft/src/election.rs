//! This crate's own elections: when a node campaigns, how it judges other candidates, and a leader's heartbeats.
//!
//! openraft counts votes and keeps terms, but it lets every voter stand for election as soon as its own timer fires.
//! So one node that lost contact, was paused, or was removed without learning of it can depose healthy leaders for
//! ever. openraft's timer is off, and these tasks replace it. Safety does not rest on them: every candidate needs the
//! votes of a quorum.

mod campaign;
mod heartbeat;
mod votes;

pub(crate) use campaign::run;
pub(crate) use heartbeat::run as send_heartbeats;
pub(crate) use votes::{is_transfer, pre_vote, timeout_now, would_elect_another};
