//! Who this node is, what its store is prepared for, and whose messages it accepts.
//!
//! A member is a node id and a **store**: one data directory, with an identity of its own. The first doubt
//! about either stops the node.

mod admission;
mod bootstrap_state;
mod incarnations;
mod node_identity;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use admission::{RequestKind, check_member, names};
pub(crate) use node_identity::NodeIdentity;
