//! The client side of a node: HTTP/1.1, Leaf's paths and version 1.
//!
//! ```text
//! connection        one connection: its bounds, its end
//!   date_cache      the date of hyper's answers, which a thread has before it serves anybody
//!   fast_path       plain requests for ids, answered from the bytes
//!   write_buffer    for hyper, which takes all else: one write for many answers
//!   dispatch        ids that are buffered at once, else the router; problems get their bodies here
//!     host          what a request's `Host` must be
//!     access        whether its sender may make a request, and under which name
//!     router        the handler of every route
//!       legacy, ids, snowflake, tags, import, audit, backup, cluster, pages, ops    one group of paths each
//!         key, query, body    what clients send, read strictly
//!         decimal             numbers, read strictly and written fast
//!         problem             what goes wrong: status and code
//! ```
//!
//! Each handler is given the one of the [`Services`](crate::service::Services) that it needs, and sees
//! nothing behind it. `openapi.json` describes every route of `access/matrix.rs`; a test holds the
//! two together.

mod access;
mod audit;
mod backup;
mod body;
mod cluster;
mod connection;
pub(crate) mod date_cache;
mod decimal;
mod dispatch;
mod fast_path;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod host;
mod ids;
mod import;
mod key;
mod legacy;
mod ops;
mod pages;
mod paths;
mod problem;
mod query;
mod router;
mod snowflake;
mod tags;
mod write_buffer;

pub(crate) use connection::{TURNED_AWAY, WITHOUT_TLS, serve};
pub(crate) use dispatch::Dispatch;

#[cfg(test)]
mod tests;
