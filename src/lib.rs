//! Mintleaf mints ids; no two leaves alike.
//!
//! A replicated id service: 63-bit, growing ids per `biz_tag`, from any node of a cluster of one,
//! three or five, with nothing behind them but their own disks.
//!
//! # The one idea: number lines with watermarks that only rise
//!
//! A tag has a number line of ids; its watermark `max_id` is the first id not yet reserved. A **grab**
//! is one command in the replicated log. Applying it raises the mark and answers the interval between
//! the old and the new mark, a **segment**. No two ids are alike because:
//!
//! 1. **Apply is the only writer of a watermark, and only ever raises it.** So intervals never
//!    overlap. ([`mintleaf_core::state`])
//! 2. **An interval is used only after its entry is committed**: on disk, really on disk, on a
//!    quorum. So no later leader can give it again. (`mintleaf_raft`, `mintleaf_storage`)
//! 3. **An interval is answered to one proposal of one process start, once.** A lost reply, a
//!    timeout or a crash wastes it; nobody asks for the same one again. A proposal that is repeated
//!    reserves another interval. ([`replica`])
//! 4. **Inside a process, one cursor walks an interval, upward only.** ([`mintleaf_core::segment`], [`mintleaf_core::snowflake`])
//! 5. **Nothing is carried over a restart.** Intervals live in memory only.
//!
//! A **snowflake** worker id has a number line too, of milliseconds. Its watermark is called the fence,
//! its intervals are windows, and the five lines above hold for it with one exception: a process that
//! no longer needs a worker id gives back the end of its own last window, and the fence falls to there.
//! It has stopped stamping before it asks, and gives back no millisecond that it has stamped;
//! `core/src/state/worker_entry.rs` takes this from the holder alone and never lowers the fence below that
//! window's start. So no millisecond that an id may show is given twice. Under the lines of all worker ids lies
//! one more watermark, the snowflake floor: no window that is given from then on begins below it.
//!
//! None of the five lines mentions a clock, an expiry, or who is leader. Clocks decide when to ask
//! for more, never what may be handed out. Where there is doubt, a node stops; it never guesses.
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
//! The `lib.rs` of each has a map like the one below. What a reader looks for there first, and where it is:
//!
//! | what | where |
//! | --- | --- |
//! | Votes and entries are on disk before they are answered; openraft awaits `save_vote` and the callback of `append`. | `raft/src/raft_storage/log_store.rs` |
//! | The `fdatasync` behind that: `LogEngine::sync`, `SledEngine::commit`, `Wal::write`, `WalFile::write`. | `storage/src/wal/file.rs` |
//! | Proposals are put into batches, and sent to the leader. | `raft/src/batcher.rs` |
//! | A peer's messages come in, forwarded proposals among them. | `raft/src/rpc_handler/handler.rs` |
//! | Frames travel over TLS 1.3; whom a node accepts at the other end of a connection. | `raft/src/transport/tls/verifier.rs` |
//!
//! # The modules of this crate, from the bottom to the top
//!
//! | module | what it is |
//! | --- | --- |
//! | `limits` | The bounds that clients of a node meet |
//! | [`version`] | The name of this build |
//! | `address` | `HOST:PORT` |
//! | [`leaf_tables`] | Reads the tables of Leaf and tinyid, as dumps and spreadsheets have them |
//! | [`clock`], [`entropy`] | The machine's clocks, as a trait; its random numbers |
//! | [`metrics`] | The counters of a node, and the page for Prometheus |
//! | `origin` | Where clients are counted together |
//! | `path_segment` | %-escapes in paths |
//! | `timestamp` | Points in time as text |
//! | `drain` | How far the end of a node has come, as its connections see it |
//! | `watchdog` | The end of connections that make no progress, read too slowly, or rest while others want in |
//! | [`access`] | Who may do what: roles, what each request needs, the tokens of the auth file |
//! | [`answer_budget`] | The memory of answers that clients have not read yet |
//! | [`tls`] | TLS for clients: what a node proves itself by, and how a connection begins |
//! | `connection_buffers` | A client's connection with its buffers |
//! | [`replica`] | The replicated log, with types: commands in, responses out |
//! | [`restore`] | A new cluster, made of a backup or of a directory that survived |
//! | [`service`] | Hands ids out and grabs more: the locks, the waiting, the tasks |
//! | [`http`] | HTTP/1.1: Leaf's paths, the paths of version 1 (`/v1/`), the pages for people |
//! | [`resp`] | The Redis protocol |
//! | [`listener`] | Client sockets and worker threads, shared by both protocols |
//! | [`config`] | Settings and their checks |
//! | [`logging`] | The log of a process: how its lines look, which there are, and how they are written |
//! | [`cli`] | The command line, and the commands that are clients of a node |
//! | [`server`] | A node put together, and run by `serve` or `dev` |
//!
//! # Words
//!
//! | word | meaning |
//! | --- | --- |
//! | Leaf | Meituan's id service. Mintleaf has its model, and answers its two id paths and its pages as it does. |
//! | tag, `biz_tag` | The name of one sequence of ids. |
//! | auto-creation | The first request for an unknown tag creates it, where `--auto-create-tags` says so. |
//! | step | Fewest ids that one grab of a tag reserves, as long as the tag has so many; each tag has its own. |
//! | watermark, `max_id` | The first id of a tag that is not yet reserved. It only rises, even over deletion. |
//! | shaped tag | A tag that is not plain: strict, a sequence, with periods, with a format, or with hidden ids. Its *lines* are its number lines: one, one for each period, or one for each section of a sequence's keys. |
//! | segment | The ids of one committed grab: an interval that no other grab overlaps. |
//! | grab | The command that reserves a segment by raising a watermark, and its round trip through the log. |
//! | buffered, held | In the memory of one process, ready to be handed out without a wait. |
//! | double buffer | The segment that ids come from, and the next one, fetched while the first lasts. |
//! | frozen, rate limit | A tag's protection: no ids of it, or so many a second on each node. (A frozen *state* is one that a snapshot is written from.) |
//! | sequence, key, number | A tag with a counter for each of its keys; what names a counter; what it gives. (The bits of a snowflake id that count within a millisecond are a sequence, too.) |
//! | section | The keys of a sequence that share a line of the log. |
//! | floor | Of a section: where keys begin that nobody remembers. (Not the snowflake floor.) |
//! | slot | One tag on one node: its double buffer, and the callers that wait. |
//! | worker id | The part of a snowflake id that no two processes share at one time. |
//! | window | Milliseconds of one worker id that belong to one process alone, until it gives the unused end back. |
//! | fence | The watermark of one worker id, where its last window ends: nobody has stamped this millisecond or a later one. It rises with every window, and falls only when the holder gives an unused end back. |
//! | pool | The worker ids that a cluster uses: all of its layout's, or those that it was formed with. |
//! | snowflake floor | The watermark under all worker ids, used or not. No window given since begins below it. |
//! | lift | What a holder does to its window once the floor has risen into it: it stamps nothing below any more, and tells the log so. |
//! | grant, nonce | One acquisition of a worker id, and the random number that names it, by which its holder is known. (The log target `mintleaf::grants` and the metric of grabs call a segment granted, too.) |
//! | lease | What a node does to hold worker ids: acquire, renew, give back. Not the leader's lease of the Raft papers. |
//! | process start | One run of one node's process. No id, segment or window outlives it. |
//! | store, incarnation | In `raft/`: a data directory, by its random id; and a numbered life of it, which begins at each start and anew each minute, by which an older copy of a store is found out. |
//! | batch | In `raft/`, the proposals that share a log entry; in `storage/`, the operations that share a sync. |
//! | snapshot | The state as of one entry, as a file, which takes the place of the log up to there (Raft paper, 7). |
//! | level | What of the log's format the cluster may use: nothing that a member's build cannot read. It only rises, by an administrator's command. |
//! | change, admin request | A request over HTTP that is no GET, HEAD or OPTIONS, takes no id and asks for none of Leaf's pages. The node's own machine may send it, and no other, unless `--insecure` says so. |
//! | audit, actor | The last admin changes, in the state; under which name each was asked for. |
//! | backup, copy | A file with the whole state as of one moment; that, or the directory of a node that has stopped. |
//! | advance | How many ids every line rose by when the cluster was restored, and how much higher each line begins that came later. |
//! | root key | What the keys of hidden ids are made of: one of a cluster, drawn with the level that has it, in every copy, and shown to nobody. |
//! | given on | Of a worker id: granted again before the holder of its last window gave it back. |
//! | strict | Of a tag: its ids rise over the whole cluster, because the leader alone hands them out. |
//! | round | Messages to a quorum, which confirm that a node leads. In strict order a request is answered after one that began after it came. |
//! | hyper | The library that speaks HTTP/1.1 where the fast path does not. |
//! | fast path | Code that answers plain requests for ids from their bytes. |
//! | dispatch | Code that answers what the fast path and hyper pass on: ids at once from what is held or after a wait, all else by the router. |
//!
//! # The walk of a GET
//!
//! [`listener`] has accepted the connection and dealt it to a worker thread. `http/connection.rs` gives
//! it to `http/fast_path.rs`, which reads requests from the bytes and takes ids by
//! [`HeldIds::take`](service::HeldIds::take) and `Slot::take_some`: the slot's lock, then
//! [`SegmentBuffer::take_some`](mintleaf_core::segment::SegmentBuffer::take_some). **Where an id is handed out** is the
//! cursor there, which all four take functions of `core/src/segment.rs` move; for a snowflake it is
//! `core/src/snowflake/generator.rs`. On this way there is no await, no Raft and no disk. The clock is read for `date`,
//! once for many answers, on entering a segment, and at each take of snowflakes. Answers wait in the
//! connection's buffer and leave together: when the input is used up, when 64 KiB wait, or before a wait. A
//! request that finds no id goes to `http/dispatch.rs`, `http/id_answers.rs` and
//! [`IdService::take`](service::IdService::take), which waits for a grab. At the first request of another kind
//! hyper takes the connection over, and calls the same dispatch.
//!
//! # The walk of a grab
//!
//! A tenth of a segment is used, or a caller waits: the slot says so to its caller, which asks the grabber.
//! `service/grabber.rs` proposes the grabs of many tags together by
//! [`Replica::propose_all`](replica::Replica::propose_all) and `mintleaf_raft::Handle::propose`. `raft/`
//! puts the proposals of many callers into one batch, forwards it to the leader if another node leads,
//! makes it one log entry there, and has `storage/` sync the entry on a quorum. Then every node applies it
//! by [`State::apply`](mintleaf_core::state::State::apply), whose `core/src/state/tag_entry.rs` and `core/src/state/watermark.rs` are
//! **where a watermark rises**: by the larger of the size asked for and the tag's step, or by what is left.
//! (Creating a tag and changing one raise it too, through the same file.) The response goes back to the
//! node that proposed, and [`SegmentBuffer::install`](mintleaf_core::segment::SegmentBuffer::install) puts the segment
//! behind the current one.

pub mod access;
mod address;
pub mod answer_budget;
pub mod cli;
pub mod clock;
pub mod config;
mod connection_buffers;
mod drain;
pub mod entropy;
pub mod http;
pub mod leaf_tables;
mod limits;
pub mod listener;
pub mod logging;
pub mod metrics;
mod origin;
mod path_segment;
pub mod replica;
pub mod resp;
pub mod restore;
pub mod server;
pub mod service;
mod timestamp;
pub mod tls;
pub mod version;
mod watchdog;
