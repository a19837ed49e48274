//! The bounds that a client of a node can meet: how much of something it may ask for, and how long a request may take.
//! Each names the file that enforces it. Those of values, such as the largest step, are in `core/src/limits.rs`.
//!
//! These bounds stand elsewhere: 10 to 15 s without progress, of a half-sent request or an answer that is not read, in
//! `connection/watchdog.rs`; entries looked at for a page of tags in `core/src/state/apply.rs`; the widths of snowflake
//! ids in `core/src/snowflake/layout.rs`, which bound `GET /v1/workers`, without pages, to 1 MiB
//! (`service/admin/worker_view.rs`); those of settings in `config/`; and 9.5 s for a change of the membership, the leader or
//! the level in `raft/src/node/handle.rs`. A bound that no client can meet stands in the file that enforces it.

use std::time::Duration;

/// Tags whose ids a restarted node holds again before it is ready: the most recently used. `service/hot_tags.rs`.
pub(crate) const HOT_TAGS_MAX: usize = 1_000;

// Ids and rows in one answer.

/// Maximum number of ids of one answer that lists them: 220 kB of JSON, 250 kB in the Redis protocol. `http/ids.rs` and
/// `resp/id_commands.rs`.
pub(crate) const LISTED_IDS_MAX: u64 = 10_000;
/// Maximum number of ids of one answer that gives them as ranges, whose size hardly grows with the count; and of
/// one `INCRBY`, which answers with the last of them. `http/ids.rs` and `resp/id_commands.rs`.
pub(crate) const RANGED_IDS_MAX: u64 = 1_000_000;
/// Tags on one page of `GET /v1/tags` when no limit is given: `http/tags.rs`.
pub(crate) const TAGS_PAGE_DEFAULT: usize = 100;
/// Maximum number of tags on one page of `GET /v1/tags`: `http/tags.rs`.
pub(crate) const TAGS_PAGE_MAX: usize = 1_000;
/// Bytes of a page of `GET /v1/tags` or `GET /v1/audit`, and of a page for people: `http/tags.rs`,
/// `http/audit.rs` and `http/pages.rs`.
pub(crate) const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of rows of a page for people: `http/pages.rs`.
pub(crate) const HTML_ROWS_MAX: usize = 1_000;
/// Entries on one page of `GET /v1/audit` when no limit is given: `http/audit.rs`.
pub(crate) const AUDIT_PAGE_DEFAULT: usize = 100;
/// Maximum number of entries on one page of `GET /v1/audit`: `http/audit.rs`.
pub(crate) const AUDIT_PAGE_MAX: usize = 1_000;

// Bytes of one request.

/// Longest head of an HTTP request; a longer one is answered 431. hyper, as `http/connection.rs` sets it.
/// (The fast path leaves heads of more than 4 KiB to hyper, which no client notices.)
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of header lines of an HTTP request: hyper, as `http/connection.rs` sets it.
pub(crate) const HEADERS_MAX: usize = 64;
/// Maximum number of parameters in a query: more than any path knows. `http/query.rs`.
pub(crate) const PARAMETERS_MAX: usize = 16;
/// Longest body: the largest sensible one is a tag with its description, far below this.
/// `http/body.rs`.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of tags in one request of an import: few enough to finish all in the time of a request.
/// `http/import.rs`.
pub(crate) const IMPORT_TAGS_MAX: usize = 100;
/// Maximum number of fields in a body: more than any request knows. `http/body.rs`.
pub(crate) const FIELDS_MAX: usize = 16;
/// Longest command of the Redis protocol, with its framing: `resp/parser.rs`.
pub(crate) const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of arguments of such a command, its name among them: `resp/parser.rs`.
pub(crate) const ARGS_MAX: usize = 1024;
/// Maximum number of commands between `MULTI` and `EXEC`, and their bytes, so that pipelines of thousands fit:
/// `resp/transaction.rs`.
pub(crate) const QUEUED_COMMANDS_MAX: usize = 10_000;
pub(crate) const QUEUED_BYTES_MAX: usize = 1024 * 1024;
/// Longest name that a client of the Redis protocol may give itself: `resp/session.rs`.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 256;

// Crowds.

/// Open connections of each protocol; one more gets an error and is closed. `listener.rs`.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// Handshakes of TLS in flight on each worker thread, half of them of one origin at most. A client can have the node
/// keep 64 KiB of an unfinished one, so all of them take 32 MiB. `connection/tls/crowd.rs`.
pub(crate) const HANDSHAKES_MAX: usize = 512;
/// Callers that may wait for ids of one tag; one more is turned away. `service/local/slot.rs`.
pub(crate) const WAITERS_MAX: usize = 10_000;
/// Tags that a node creates on first use at once, after a rest: a service that moves in with ten thousand
/// tags, each used in the first second, notices nothing. They take 10 MB at most.
/// `service/admin/tag_creation.rs`.
pub(crate) const FIRST_USES_BURST: u64 = 10_000;
/// Tags that a node creates on first use in each further second. At this rate a flood of made-up names takes at most 1
/// MB a second, and hours to fill a cluster, so an operator has time to notice it. `service/admin/tag_creation.rs`.
pub(crate) const FIRST_USES_PER_SECOND_MAX: u64 = 1_000;
/// Bytes of answers that one connection may have waiting for its client to read; above it nothing
/// more of that connection is answered. `http/fast_path.rs`, `http/write_buffer.rs` and
/// `resp/connection.rs`.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of answers that clients of a node have not read, over all connections of both protocols, without
/// ordinary ones: beyond three quarters of it a request for a long answer is turned away.
/// `connection/answer_budget.rs`.
pub(crate) const UNREAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The same for the page of metrics, which has a separate budget: an operator reads it while all else is used up.
pub(crate) const UNREAD_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// An answer, or a buffer of answers, up to this size is an ordinary one: `connection/answer_budget.rs`.
pub(crate) const ORDINARY_ANSWER_BYTES: usize = 16 * 1024;
/// Bytes a second that a client has to read while answers wait for it, measured over twenty seconds: a link of
/// 64 kbit/s carries twice that. `connection/watchdog.rs`.
pub(crate) const READ_RATE_MIN: u64 = 4 * 1024;

// Time.

/// Longest time from a request to its answer. A guard against waits without another bound: a wait for a segment or a
/// quorum ends sooner, with a better reason. `http/dispatch.rs` and `resp/connection.rs`.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(10);
/// The same for a request that may wait for slow disks: a change of a tag. `http/dispatch.rs`.
pub(crate) const SLOW_REQUEST_MAX: Duration = Duration::from_secs(30);
/// Longest time from the head of a request to the end of its body: `http/body.rs`.
pub(crate) const BODY_MAX: Duration = Duration::from_secs(5);
/// How long an idle HTTP connection is kept, in seconds: longer than load balancers keep theirs, so that
/// they close first. `http/connection.rs`, by the watchdog.
pub(crate) const HTTP_IDLE_SECONDS_MAX: u64 = 75;
/// How long an idle connection of the Redis protocol is kept, in seconds: clients keep pools of them, and
/// do not expect to be cut off. `resp/connection.rs`, by the watchdog.
pub(crate) const RESP_IDLE_SECONDS_MAX: u64 = 600;
/// Time that a stop leaves to requests in flight, and a closing connection to its last answers:
/// `listener.rs`, `http/connection.rs` and `resp/connection.rs`.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long a client may take to read its last answers, once the node has ended the connection:
/// `connection/tls/client_stream.rs` and `resp/connection.rs`.
pub(crate) const LINGER_MAX: Duration = Duration::from_millis(500);
/// Longest wait for a segment, and for the read that must see every change before it, where commits are quick;
/// elsewhere `Replica::patience` makes it longer. `service/ids.rs`, `service/grabber.rs` and `service/log_access.rs`.
pub(crate) const GRAB_MAX: Duration = Duration::from_secs(2);
/// Longest that a restarted node keeps away from clients for the ids of its hot tags: `service/warm_start.rs`.
pub(crate) const WARM_START_MAX: Duration = Duration::from_secs(2);
/// Longest wait for a time window of snowflake ids that is on its way: `service/snowflake/snowflakes.rs`.
pub(crate) const WINDOW_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest wait for a proposal where disks and links are slow: `replica.rs`.
pub(crate) const SLOW_CHANGE_MAX: Duration = Duration::from_secs(25);
/// Longest that a change of a tag may take: long enough to outlast an election. `service/log_access.rs`.
pub(crate) const TAG_CHANGE_MAX: Duration = Duration::from_secs(5);
