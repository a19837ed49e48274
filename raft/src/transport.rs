//! How frames travel between nodes: the trait, and TCP.
//!
//! This module carries bytes and does not read them. A connection begins with the protocol version and the
//! cluster secret, which are judged before anything else is read; frames have a bounded length. `Channel`
//! speaks over any byte stream, so encryption is a stream between it and the socket.

mod channel;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod interface;
mod server;
mod tcp;
#[cfg(test)]
mod tests;

pub(crate) use interface::PROTOCOL;
pub use interface::{Door, Wire, WireError};
pub(crate) use tcp::TcpWire;
