//! Calls to peers, by this node's tasks and by openraft.

mod calls;
mod commit_notice;
mod early_appends;
mod follower;
mod network;
#[cfg(test)]
mod tests;

pub(crate) use calls::{CallError, Client};
pub(crate) use early_appends::EarlyAppends;
pub(crate) use network::NetworkFactory;
