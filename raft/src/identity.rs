//! Who this node is, what its store is prepared for, whose messages it accepts, and who may say what.
//!
//! A member is a node id and a **store**: one data directory, which has its own identity. A node stops as soon as
//! either is in doubt.

mod admission;
mod authority;
mod bootstrap_state;
mod incarnations;
mod node_identity;
mod records;
mod removal;
mod seen_incarnations;
#[cfg(test)]
mod tests;

pub(crate) use authority::Speaker;
pub(crate) use node_identity::NodeIdentity;
