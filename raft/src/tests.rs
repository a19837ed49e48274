//! Whole nodes over real directories and real sockets of this machine.

mod addresses;
mod cluster;
mod copies;
mod leadership;
mod levels;
mod offline;
mod poison;
mod single_node;
mod speakers;
mod removed;
mod support;

pub(crate) use support::{ELECTION_MAX, StoppedClock, Sum, first_release};
