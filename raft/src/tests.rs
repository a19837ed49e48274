//! Whole nodes, with real directories and real sockets of this machine.

mod addresses;
mod cluster;
mod copies;
mod judged;
mod leadership;
mod levels;
mod lost_voters;
mod offline;
mod poison;
mod removed;
mod single_node;
mod speakers;
mod support;

pub(crate) use support::{StoppedClock, Sum, first_release};
