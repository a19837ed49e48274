//! Ids from Mintleaf, leased in ranges and handed out in process.
//!
//! A client asks a node for many ids at once and hands them out from memory; the next ranges are on their way before
//! the present one is used up. It goes to another node when one fails, and never hands out an id twice.
//! `docs/clients.md` is the specification of this, and of what it wastes.
//!
//! ```no_run
//! use mintleaf_client::Client;
//!
//! # async fn example() -> Result<(), mintleaf_client::Error> {
//! let client = Client::builder()
//!     .endpoints(["http://a:8080", "http://b:8080", "http://c:8080"])
//!     .build()?;
//! let id = client.next_id("orders").await?; // nearly always at once
//! let mut orders = client.handle("orders")?; // for a loop that takes millions
//! let another = orders.next_id().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`blocking::Client`] is the same for threads. Both do their requests on one thread of their own, so no runtime is
//! needed, and none that is busy or ends disturbs them.
//!
//! **Outside the promise:** a copy of the process with its memory, by `fork()` without `exec`, a checkpoint that is
//! resumed twice, or a virtual machine that is cloned while it runs. Both copies hold the same ids.
//!
//! # The modules, from the bottom to the top
//!
//! | module | what it is |
//! | --- | --- |
//! | `sync` | Pure: the atomics of the cursor |
//! | `error` | Pure: what a call fails with |
//! | `endpoints` | Pure: which endpoint is asked next, and which rest |
//! | `lease` | Pure: what is held, who waits for it, and when more is asked for |
//! | `request` | What nodes are asked for |
//! | `answer` | What an answer means |
//! | `reply` | What a call's reply is to its caller |
//! | `settings` | What a client is told when it is made |
//! | `transport` | Requests on their way, over HTTP/1.1 |
//! | `engine` | Flights: attempts, deadlines, tasks |
//! | `client` | The client for async code, and how it is made |
//! | `handle` | Ids of one tag for one owner |
//! | [`blocking`] | The client for threads |
//!
//! # Words
//!
//! | word | meaning |
//! | --- | --- |
//! | line | One tag, or the snowflakes. |
//! | lease, held | The ids of one answer; what is left of them. |
//! | cursor | Where the ids of a lease are handed out, without a lock. |
//! | call | What the user called, and awaits. |
//! | flight, attempt | All requests for one lease or one call; one of them. |
//! | step | What is to be done after something happened to a line. |

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod answer;
pub mod blocking;
mod client;
mod endpoints;
mod engine;
mod error;
mod handle;
mod lease;
mod reply;
mod request;
mod settings;
mod sync;
#[cfg(test)]
mod tests;
mod transport;

pub use client::{Builder, Client, NextId};
pub use error::{Error, Refusal};
pub use handle::Handle;
