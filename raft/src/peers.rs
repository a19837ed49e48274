//! What this node has learned from its peers' messages: their clocks, its last contact with a leader or a quorum,
//! which of them can be reached, and how long messages and syncs take.

mod clocks;
mod heard;
mod leader_contact;
mod reachability;
mod timers;
mod weather;

pub use clocks::PeerClock;
pub(crate) use heard::PeerObservations;
pub(crate) use leader_contact::{LATE, LeaderContact};
pub(crate) use reachability::Reachability;
pub(crate) use weather::Weather;
