//! Ids from Mintleaf, leased in ranges and handed out in process.
//!
//! A client asks a node for many ids at once and hands them out from memory. It asks for the next ranges before the
//! current one is used up. When a node fails it asks another, and it never hands out an id twice.
//! `docs/clients.md` specifies this, and what a client may waste.
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
//! [`blocking::Client`] is the same for threads. Each client sends its requests from a thread that it owns. So it needs
//! no runtime, and a busy or ending runtime does not disturb it.
//!
//! **Not covered:** a copy of the process with its memory, made by `fork()` without `exec`, by resuming a checkpoint
//! twice, or by cloning a running virtual machine. Both copies hold the same ids.
//!
//! # The modules, from the bottom to the top
//!
//! | module | what it is |
//! | --- | --- |
//! | `sync` | Pure: the atomics of the cursor and of stamps |
//! | `clock` | A monotonic clock that is quick to read |
//! | `error` | Pure: the errors of a call |
//! | `endpoints` | Pure: which endpoint is asked next, and which rest |
//! | `lease` | Pure: what is held, which calls wait for it, and when more is asked for |
//! | `stamps` | Pure: which milliseconds of a worker id, and ids in them, are handed out |
//! | `request` | Requests to nodes |
//! | `registration` | What a register keeps of a key |
//! | `answer` | What an answer means |
//! | `reply` | Turns a reply into what the call returns |
//! | `pool` | What a worker id is leased from, and how |
//! | `settings` | The settings of a client |
//! | `transport` | Sends requests over HTTP/1.1 |
//! | `engine` | Flights: attempts, deadlines, tasks |
//! | `client` | The client for async code, and its builder |
//! | `handle` | Ids of one tag for one owner |
//! | `worker` | Leases of worker ids, and snowflakes that a process makes by itself |
//! | [`blocking`] | The client for threads |
//!
//! # Words
//!
//! | word | meaning |
//! | --- | --- |
//! | line | One tag, or the snowflakes. |
//! | lease, held | The ids of one answer; what is left of them. |
//! | cursor | Hands out the ids of a lease, without a lock. |
//! | call | A function of the client that the user called and waits for. |
//! | flight, attempt | All requests for one lease or one call; one of them. |
//! | step | What must be done after an event of a line. |
//! | worker | A worker id that is leased, and the one after it when a generator needs one. |
//! | stamp, grant | Use a millisecond of a worker id; allow it. |

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod answer;
pub mod blocking;
mod client;
mod clock;
mod endpoints;
mod engine;
mod error;
mod handle;
mod lease;
mod pool;
mod registration;
mod reply;
mod request;
mod settings;
mod stamps;
mod sync;
#[cfg(test)]
mod tests;
mod transport;
mod worker;

pub use client::{Builder, Client, NextId};
pub use error::{Error, Refusal};
pub use handle::Handle;
pub use pool::Pool;
pub use registration::Registration;
pub use worker::{Layout, WorkerLease, WorkerSnowflakes};
