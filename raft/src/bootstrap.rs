//! How a new node becomes a member: it founds a cluster with others by a two-phase commit, or joins an existing one.
//! Also how a restarted member comes back.

mod enter;
mod founders;
pub(crate) mod handshake;
mod join;
pub(crate) mod rejoin;
mod waiting_log;

pub(crate) use enter::enter_cluster;
pub(crate) use founders::prepare_for_coordinator;
