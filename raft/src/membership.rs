//! Changes of the membership, of the leader and of the cluster's level, one at a time, on the leader.

mod change;
mod consent;
mod level;
mod openraft_change;
mod progress;
mod requests;
mod transfer;

pub(crate) use level::{ask_description, ask_release};
pub(crate) use requests::Membership;
