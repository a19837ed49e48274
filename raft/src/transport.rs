//! How frames travel between nodes: the trait, and TCP.
//!
//! This module carries bytes and does not read them. `Channel` sends frames of bounded length over any byte stream. A
//! `Layer` turns a TCP connection into that stream, at either end. With `Tls` both ends prove which node they are;
//! `Plain` proves nothing (`DESIGN.md`, "Transport").

mod channel;
mod connect;
mod credentials;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod interface;
mod kept;
mod layer;
mod pace;
mod places;
mod plain;
mod server;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;

pub use credentials::{
    Credentials, CredentialsError, PemBytes, SECRET_BYTES_MIN, SECRETS_MAX, Security,
};
pub(crate) use interface::PROTOCOL;
pub use interface::{FrameHandler, Peer, Reply, Target, Transport, TransportError};
pub(crate) use plain::Plain;
pub(crate) use tcp::TcpTransport;
pub(crate) use tls::Tls;
pub use tls::have_it_prove;
