//! The client side of a node: HTTP/1.1, Leaf's paths and version 1.
//!
//! ```text
//! connection        one connection: its bounds, its end
//!   date_cache      the date of hyper's answers, which each thread reads before it serves requests
//!   fast_path       plain requests for ids, answered from the bytes
//!   write_buffer    for hyper, which takes all else: one write for many answers
//!   unread_request  the answer to a client whose request hyper could not read
//!   dispatch        ids, else the router; problems get their bodies here
//!     spelling      Leaf's paths with more slashes than they need
//!     host          what a request's `Host` must be
//!     access        whether the sender of a request may make it, and the sender's name
//!     id_answers    ids, at once or after a wait
//!       id_request  the one reading of a request for them
//!       ids         how version 1 writes them
//!     request_id    the id of a request that is not for ids
//!     trace         the trace that a request belongs to
//!     failure_log   what the log says of requests that failed
//!     router        every other request
//!       routes      every route: who may use it, and its handler
//!       console, legacy, tinyid, sequences, registers, snowflake, pools, tags (tag_shape), buffers, import, audit,
//!       backup, cluster, pages, ops          one group of paths each
//!         key, query, body    what clients send, read strictly
//!         parameters          what clients of peers send, read as servlets do
//!         decimal             numbers, read strictly and written fast
//!         pieces              short copies and comparisons
//!         media_type          which of the media types that a client accepts an answer has
//!         problem             what goes wrong: status and code
//! ```
//!
//! Each handler is given the one of the [`Services`](crate::service::Services) that it needs, and sees nothing behind
//! it. `openapi.json` describes every route of `http/routes.rs`; a test checks that the two agree.

mod access;
mod audit;
mod backup;
mod body;
mod buffers;
mod cluster;
mod connection;
mod console;
pub(crate) mod date_cache;
mod decimal;
mod dispatch;
mod failure_log;
mod fast_path;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod host;
mod id_answers;
mod id_request;
mod ids;
mod import;
mod key;
mod legacy;
mod media_type;
mod ops;
mod pages;
mod parameters;
mod pieces;
mod pools;
mod problem;
mod query;
mod registers;
mod request_id;
mod router;
pub(crate) mod routes;
mod sequences;
mod snowflake;
mod spelling;
mod tag_shape;
mod tags;
mod tinyid;
mod trace;
mod unread_request;
mod write_buffer;

pub(crate) use connection::{TURNED_AWAY, WITHOUT_TLS, serve};
pub(crate) use dispatch::Dispatch;

#[cfg(test)]
mod tests;
