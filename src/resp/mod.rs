//! The Redis protocol, versions 2 and 3: with it, any Redis client takes ids.
//!
//! ```text
//! connection  reads, answers, writes: one write for many answers
//!   parser    bytes into commands
//!   commands  what each command does; the table of them
//!     wait    ids that are not at hand, and how they look when they come
//!     session what clients say at connect
//!   reply     answers into bytes
//! ```
//!
//! Commands see [`IdService`](crate::service::IdService) and nothing behind it. Those for one id
//! of a tag whose segment is at hand allocate nothing. The commands of a connection are carried out
//! one after the other, so their answers come in order.

mod commands;
mod connection;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod parser;
mod reply;
mod session;
mod wait;

pub(crate) use connection::{TURNED_AWAY, serve};
