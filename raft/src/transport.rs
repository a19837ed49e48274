//! How frames travel between nodes: the trait, and TCP.
//!
//! This module carries bytes and does not read them. A connection begins with the protocol version and the
//! cluster secret, which are judged before anything else is read; frames have a bounded length. `Channel`
//! speaks over any byte stream, and a `Layer` makes that stream of a TCP connection, at either end. So an
//! encrypted transport is another `Layer` (`DESIGN.md`, "Transport", says what it has to bring).

mod channel;
mod connect;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod interface;
mod layer;
mod server;
mod tcp;
#[cfg(test)]
mod tests;

pub(crate) use interface::PROTOCOL;
pub use interface::{FrameHandler, Peer, Reply, Target, Transport, TransportError};
pub(crate) use layer::Plain;
pub(crate) use tcp::TcpTransport;
