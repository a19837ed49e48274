//! Mintleaf mints ids; no two leaves alike.
//!
//! A replicated id service: increasing 63-bit ids for each `biz_tag`, from any node of a cluster of one, three or five,
//! with nothing behind the nodes but their own disks.
//!
//! # The one idea: number lines with watermarks that only rise
//!
//! A tag has a number line of ids. Its watermark `max_id` is the first id that is not reserved yet. A **grab** is one
//! command in the replicated log: applying it raises the watermark and returns the interval between the old watermark
//! and the new one, a **segment**. No two ids are alike because:
//!
//! 1. **Apply is the only writer of a watermark, and only ever raises it.** So intervals never overlap.
//!    ([`mintleaf_core::state`])
//! 2. **An interval is used only after its entry is committed**: synced to disk on a quorum. So no later leader can
//!    give it out again. (`mintleaf_raft`, `mintleaf_storage`)
//! 3. **An interval goes to one proposal of one process start, once.** A lost reply, a timeout or a crash wastes
//!    the interval; no node asks for the same one again. A repeated proposal reserves another interval. ([`replica`])
//! 4. **Inside a process, one cursor walks an interval, upward only.** ([`mintleaf_core::segment`],
//!    [`mintleaf_core::snowflake`])
//! 5. **Nothing is carried across a restart.** Intervals live in memory only.
//!
//! A **snowflake** worker id has a number line of milliseconds. Its watermark is the fence, and its intervals are
//! windows. The five rules hold for it with one exception: a process that no longer needs a worker id gives back the
//! unused tail of its last window, and the fence falls to where that tail begins. The process stops stamping before it
//! asks, and gives back no millisecond that it has stamped. `core/src/state/worker_entry.rs` accepts this only from the
//! holder, and never lowers the fence below the start of that window. So no two processes get a millisecond that an id
//! may show. One more watermark bounds all worker ids, the snowflake floor: no later window begins below it.
//!
//! A **register** records a number and its key in one command, and the same key finds it again. It reserves nothing, so
//! it wastes nothing, and rule 3 holds because a number goes to a key instead of a proposal.
//!
//! None of the five rules mentions a clock, an expiry, or which node leads. Clocks decide when to ask for more, never
//! what to hand out. When in doubt, a node stops; it never guesses.
//!
//! `docs/architecture.md` follows a request and a grab through the code.
//!
//! # Four crates, one direction
//!
//! ```text
//! storage/  how bytes survive      only user of sled; no Raft, no id
//! raft/     how commands agree     only user of openraft; opaque bytes in and out
//! core/     what ids mean          pure: no clock, no thread, no file; knows neither of the two above
//! src/      how ids are served     this crate
//! ```
//!
//! The `lib.rs` of each crate has a map like the one below. The places in the lower crates that readers look for first:
//!
//! | what | where |
//! | --- | --- |
//! | The cursor that hands out ids: of a segment, and of a worker id. | `core/src/segment.rs`, `core/src/snowflake/generator.rs` |
//! | A watermark rises. | `core/src/state/watermark.rs` |
//! | A node batches proposals and sends them to the leader. | `raft/src/batcher.rs` |
//! | Messages from peers arrive, including forwarded proposals. | `raft/src/rpc_handler/handler.rs` |
//! | Votes and entries reach the disk before the node answers them. | `raft/src/raft_storage/log_store.rs` |
//! | `fdatasync` is called: `LogEngine::sync`, `SledEngine::commit`, `Wal::write`, `WalFile::write`. | `storage/src/wal/file.rs` |
//! | Nodes prove to each other which node they are, over TLS 1.3. | `raft/src/transport/tls/verifier.rs` |
//!
//! # The modules of this crate, from the bottom to the top
//!
//! | module | what it is |
//! | --- | --- |
//! | `limits` | The bounds that clients of a node meet |
//! | [`version`] | The name of this build |
//! | `text` | Addresses, %-escapes, fingerprints and points in time, as text |
//! | [`machine`] | The machine's clocks, as a trait; its random numbers |
//! | [`leaf_tables`] | Reads the tables of Leaf and tinyid from dumps and spreadsheets |
//! | [`metrics`] | The counters of a node, and the page for Prometheus |
//! | [`access`] | Who may do what: roles, and the tokens of the auth file |
//! | [`connection`] | A client's connection below its protocol: TLS, buffers, unread answers, idle and slow clients |
//! | [`replica`] | The replicated log, with types: commands in, responses out; a new cluster made from a backup |
//! | [`service`] | Hands ids out and grabs more: the locks, the waiting, the tasks |
//! | [`http`] | HTTP/1.1: Leaf's paths, the paths of version 1 (`/v1/`), the pages for people |
//! | [`resp`] | The Redis protocol |
//! | [`listener`] | Client sockets and worker threads, shared by both protocols |
//! | [`config`] | Settings and their checks |
//! | [`cli`] | The command line, and the commands that are clients of a node |
//! | [`server`] | A node put together, its log, and how `serve` and `dev` run it |
//!
//! # Words
//!
//! Terms of Raft, HTTP and databases mean what they mean elsewhere. These are the product's own:
//!
//! | word | meaning |
//! | --- | --- |
//! | tag, `biz_tag` | The name of one sequence of ids. |
//! | step, `step_max` | The fewest ids that a grab of a tag reserves, and the most, if the tag has such a bound. |
//! | watermark, `max_id` | The first id of a tag that is not reserved yet. It only rises, even if the tag is deleted and created again. |
//! | grab | The command that raises a watermark, and its round trip through the log. |
//! | segment | The ids of one committed grab. A node holds two per tag: the one that it hands out, and the next. |
//! | slot | A tag on one node: its two segments, and the callers that wait for ids. |
//! | shape | What distinguishes a tag from a plain one: strict order, keys, periods, a format, hidden ids. |
//! | line, number | One number line of a shaped tag: its only one, or that of a period or a section. Each id is made from a number of a line; a plain tag's ids are its numbers. |
//! | strict | Of a tag: its ids rise over the whole cluster, because only the leader hands them out. |
//! | round | An exchange of messages with a quorum, which confirms that a node leads. A strict id waits for a round that began after its request. |
//! | sequence, key, section | A tag with one counter for each of its keys; the keys of a section share a line. |
//! | register | A tag whose numbers have no gap, each given to a key for good. |
//! | worker id | The part of a snowflake id that no two processes share at the same time. |
//! | window | Milliseconds of one worker id that belong to one process only. |
//! | fence | The watermark of a worker id: no process has stamped this millisecond or a later one. |
//! | snowflake floor | The watermark of all worker ids together: no later window begins below it. |
//! | level | Which formats of the log all members can read. An operator raises it after an upgrade. |
//! | advance | How far a restore raised every line, so that ids handed out after the backup do not repeat. |

pub mod access;
pub mod cli;
pub mod config;
pub mod connection;
pub mod http;
pub mod leaf_tables;
mod limits;
pub mod listener;
pub mod machine;
pub mod metrics;
pub mod replica;
pub mod resp;
pub mod server;
pub mod service;
mod text;
pub mod version;
