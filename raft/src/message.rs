//! All messages between nodes; this module knows nothing of what nodes do with them.
//!
//! Messages are encoded by position, so the order of fields and variants is the protocol; names are not.

mod append;
mod asked;
mod bootstrap;
mod frame;
mod header;
mod membership;
mod proposal;
mod refusal;

pub(crate) use asked::Unasked;
pub(crate) use bootstrap::{AskerKnown, Handshake, HandshakeReply, Prepare, Prepared, Purpose};
pub(crate) use frame::{Answer, Condition, Description, Frame, Lead, Request, Response};
pub(crate) use header::{Destination, Header, Incarnation, Origin};
pub use membership::MembershipError;
pub(crate) use membership::{Change, Precaution};
pub(crate) use proposal::{ForwardError, RefusedCommand};
pub(crate) use refusal::{KNOWN_OTHERWISE, Refusal};

#[cfg(test)]
mod tests;
