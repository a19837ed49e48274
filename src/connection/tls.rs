//! TLS 1.2 and 1.3 for clients of both protocols: how a node proves itself, and how a connection begins.
//!
//! ```text
//! handshake       from a socket to a stream of TLS, within bounds
//!   crowd         how many handshakes are in flight
//!   credentials   certificate, key and client CAs, as the operator's files hold them
//!     time        the clock for certificates and tickets
//! proof           how a client has proved itself, for as long as its connection lasts
//! client_stream   a client's connection, with TLS or without
//! ```
//!
//! A connection keeps the credentials that it began with, but comes to its end once its client is not trusted any more.
//! A later one begins with what the files hold by then.

mod client_stream;
mod credentials;
mod crowd;
mod handshake;
mod proof;
mod time;

pub(crate) use client_stream::{ClientStream, close_gracefully};
pub use credentials::{ClientTls, PemContents, TlsError};
pub(crate) use crowd::Handshakes;
pub(crate) use handshake::{Handshake, Terms, begin};

#[cfg(test)]
mod tests;
