//! What this node has heard of its peers: their clocks, when it was last in contact with a leader or a
//! quorum, and who can be reached.

mod clocks;
mod heard;
mod leader_contact;
mod reachability;

pub use clocks::PeerClock;
pub(crate) use heard::Heard;
pub(crate) use leader_contact::LATE;
pub(crate) use reachability::Reachability;
