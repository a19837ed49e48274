//! Mintleaf mints ids; no two leaves alike.
//!
//! A replicated id service: 63-bit, growing ids per `biz_tag`, from any of three nodes, with
//! nothing behind them but their own disks.
//!
//! # The one idea: number lines with watermarks that only rise
//!
//! A tag's line counts ids; its watermark `max_id` is the first id not yet reserved. A **grab** is
//! one command in the replicated log. Applying it raises the mark and answers the interval between
//! the old and the new mark, a **segment**. No two ids are alike because:
//!
//! 1. **Apply is the only writer of a watermark, and only ever raises it.** So intervals never
//!    overlap. ([`state`])
//! 2. **An interval is used only after its entry is committed**: on disk, really on disk, on a
//!    quorum. So no later leader can give it again. (`mintleaf_raft`, `mintleaf_storage`)
//! 3. **An interval is answered to one proposal of one process start, once.** A lost reply, a
//!    timeout or a crash wastes it; nobody asks for the same one again. ([`replica`])
//! 4. **Inside a process, one cursor walks an interval, upward only.** ([`segment`], [`snowflake`])
//! 5. **Nothing is carried over a restart.** Intervals live in memory only.
//!
//! A **snowflake** worker id has a line too, of milliseconds; its watermark is the fence of the last
//! window given, and the same five lines hold.
//!
//! No line mentions a clock, the expiry of a lease, or who is leader. Clocks decide when to ask
//! for more, never what may be handed out. Where there is doubt, a node stops; it never guesses.
//!
//! # Three crates, one direction
//!
//! ```text
//! storage/  how bytes survive      only user of sled and bincode; no Raft, no id
//! raft/     how commands agree     only user of openraft; opaque bytes in and out
//! src/      what ids mean          this crate
//! ```
//!
//! # The rooms of this crate
//!
//! | module | what it is | may know |
//! | --- | --- | --- |
//! | [`tag`], [`state`], [`segment`], [`snowflake`] | the rules, pure | each other; no clock, no I/O, no task |
//! | [`clock`], [`entropy`] | time and randomness, as traits and functions | nothing |
//! | [`replica`] | typed face of the replicated log | `state`, `mintleaf_raft` |
//! | [`service`] | hands ids out, grabs more: the locks, the waiting, the task | all above |
//! | [`metrics`] | what a node counts | `service`'s views |
//! | [`http`], [`resp`] | Leaf's paths, version 1, the pages; Redis commands | `service`; not each other |
//! | [`listener`] | client sockets and worker threads, shared by both | `http`, `resp` |
//! | `wire`, `watchdog` | a connection's buffers, and its end when it gets nowhere | nothing of ids |
//! | [`config`], [`cli`] | settings, client commands | nothing of a node |
//! | [`server`] | one node assembled; `serve` and `dev` | everything |
//!
//! **A GET walks** `http`, `service`, `segment` and back: no await, no Raft, no disk, no clock.
//! **A grab walks** `service`, `replica`, `mintleaf_raft::Handle::propose` (a follower sends it to
//! the leader), the coalescer, the log, the quorum, `State::apply`, and installs the segment: down
//! once, up once.

mod address;
pub mod cli;
pub mod clock;
pub mod config;
mod connection_buffers;
pub mod encoding;
pub mod entropy;
pub mod http;
pub mod limits;
pub mod listener;
pub mod metrics;
mod path_segment;
pub mod replica;
pub mod resp;
pub mod segment;
pub mod server;
pub mod service;
pub mod snowflake;
pub mod state;
pub mod tag;
pub mod version;
mod watchdog;
