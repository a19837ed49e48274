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
//! `raft/src/lib.rs` and `storage/src/lib.rs` have maps of their own. Votes and log entries become durable
//! where `raft/` writes them to `mintleaf_storage::LogEngine` and waits for its `sync`.
//!
//! # The modules of this crate, from the bottom to the top
//!
//! | module | what it is | imports |
//! | --- | --- | --- |
//! | [`limits`] | Pure: every bound of a request | nothing |
//! | [`version`] | Pure: the name of this build | nothing |
//! | `address` | Pure: `HOST:PORT` | nothing |
//! | [`snowflake`] | Pure: which bits of a snowflake id are what; the generator of a process | nothing |
//! | [`tag`] | Pure: what a tag may be called | `limits` |
//! | [`segment`] | Pure: the double buffer of a tag, and how many ids the next grab reserves | `limits` |
//! | [`state`] | Pure: the replicated state, and the one function that changes it | `limits`, `snowflake`, `tag`, `version` |
//! | [`clock`], [`entropy`] | The machine's clocks, as a trait; its random numbers | nothing |
//! | [`metrics`] | The counters of a node, and the page for Prometheus | nothing |
//! | `path_segment`, `watchdog` | %-escapes in paths; the end of connections that make no progress | nothing |
//! | `connection_buffers` | A client's connection with its buffers | `watchdog` |
//! | [`encoding`] | The bytes of commands, responses and snapshots | `state` |
//! | [`replica`] | The replicated log, with types: commands in, responses out | `encoding`, `limits`, `state`, `version` |
//! | [`service`] | Hands ids out and grabs more: the locks, the waiting, the tasks | `clock`, `limits`, `metrics`, `replica`, `segment`, `snowflake`, `state`, `tag` |
//! | [`http`] | Leaf's paths, version 1, the pages | `address`, `connection_buffers`, `limits`, `metrics`, `path_segment`, `service`, `snowflake`, `tag`, `watchdog` |
//! | [`resp`] | The Redis protocol | `connection_buffers`, `limits`, `metrics`, `service`, `watchdog` |
//! | [`listener`] | Client sockets and worker threads, shared by both protocols | `http`, `limits`, `metrics`, `resp`, `service` |
//! | [`config`] | Settings and their checks | `address`, `snowflake` |
//! | [`cli`] | The command line, and the commands that are clients of a node | `config`, `path_segment`, `version` |
//! | [`server`] | A node put together, and run by `serve` or `dev` | `clock`, `config`, `entropy`, `listener`, `metrics`, `replica`, `service`, `snowflake` |
//!
//! # Words
//!
//! | word | meaning |
//! | --- | --- |
//! | tag, `biz_tag` | The name of one sequence of ids. |
//! | step | Fewest ids that one grab of a tag reserves; each tag has its own. |
//! | watermark, `max_id` | The first id of a tag that is not yet reserved. It only rises, even over deletion. |
//! | segment | The ids of one committed grab: an interval that no other grab overlaps. |
//! | grab | The command that raises a watermark, and the round trip through the log that brings a segment. |
//! | buffered, held | In the memory of one process, ready to be handed out without a wait. |
//! | double buffer | The segment that ids come from, and the next one, fetched while the first lasts. |
//! | slot | One tag on one node: its double buffer, and the callers that wait. |
//! | worker id | The part of a snowflake id that no two processes share at one time. |
//! | window | Milliseconds of a worker id that one process owns for good. |
//! | fence | The watermark of a worker id: the first millisecond that nobody was given. |
//! | grant, nonce | One acquisition of a worker id, and the number that names it. |
//! | lease | What a node does to hold worker ids: acquire, renew, give back. |
//! | incarnation | One start of a node's process. Nothing of it outlives it but what the log holds. |
//! | level | How far the cluster's log may use what older builds cannot read. It only rises. |
//! | fast path, dispatch | Code that answers plain requests for ids from their bytes; code that answers or routes all others. |
//!
//! # The walk of a GET
//!
//! [`listener`] has accepted the connection and dealt it to a worker thread. `http/connection.rs` gives
//! it to `http/fast_path.rs`, which reads requests from the bytes and takes ids by
//! [`IdService::held_ids`](service::IdService::held_ids): the slot's lock, then
//! [`SegmentBuffer::take_some`](segment::SegmentBuffer::take_some), **where an id is handed out**. All
//! answers leave with one write. On this way there is no await, no Raft and no disk, and the clock is read
//! once for all the answers of one read, for their `date`. A request that finds no id goes on to
//! `http/dispatch.rs`, the router and [`IdService::take`](service::IdService::take), which waits for a
//! grab.
//!
//! # The walk of a grab
//!
//! A tenth of a segment is used, or a caller waits: the slot asks, and `service/grabber.rs` proposes the
//! grabs of many tags together by [`Replica::propose_all`](replica::Replica::propose_all) and
//! `mintleaf_raft::Handle::propose`. `raft/` forwards them to the leader if another node leads, puts the
//! proposals of many callers into one log entry, and has `storage/` sync it on a quorum. Then every node
//! applies it by [`State::apply`](state::State::apply), **where a watermark rises**; the response goes
//! back to the node that proposed, and
//! [`SegmentBuffer::install`](segment::SegmentBuffer::install) puts the segment behind the current one.

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
