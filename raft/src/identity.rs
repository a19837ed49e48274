//! Who this node is, what its store is prepared for, and whose messages it accepts.
//!
//! A member is a node id and a **store**: one data directory, with an identity of its own. A node stops
//! as soon as it learns of a doubt about either.

mod admission;
mod bootstrap_state;
mod incarnations;
mod node_identity;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use admission::{RequestKind, check_member, names};
pub(crate) use node_identity::NodeIdentity;
