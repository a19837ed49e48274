//! Every bound of a request: what a client may ask for, how much of it, and how long anybody waits.
//!
//! A bound that only one file enforces, and that no client can meet, stands in that file.

use std::time::Duration;

// Values.

/// Most characters (Unicode scalar values, not bytes) in a [`BizTag`](crate::tag::BizTag).
pub const TAG_CHARS_MAX: usize = 128;
/// Most characters in a tag's description.
pub const DESCRIPTION_CHARS_MAX: usize = 256;
/// Largest step, and most ids in one grab.
pub const STEP_MAX: u32 = (1 << 31) - 1;
/// A tag's step when none is given.
pub const STEP_DEFAULT: u32 = 1_000;
/// A tag's first id when none is given.
pub const START_DEFAULT: u64 = 1;
/// Largest id, and largest `start` of a tag: ids fit a signed 64-bit column.
pub const ID_MAX: u64 = ID_END - 1;
/// First number past every id: where a tag's `max_id` stands once all are reserved.
pub const ID_END: u64 = 1 << 63;
/// Longest window of a worker id, and the furthest that one reaches past the stamp of its entry, so
/// that nobody can take a worker id's future away. An hour is more than any node need go on without
/// the quorum.
pub const AHEAD_MS_MAX: u64 = 60 * 60 * 1000;

// Ids and rows in one answer.

/// Most ids of one answer that lists them: 220 kB of JSON, 250 kB in the Redis protocol.
pub(crate) const LISTED_IDS_MAX: u64 = 10_000;
/// Most ids of one answer that gives them as ranges, whose size hardly grows with the count; and of
/// one `INCRBY`, which answers with the last of them.
pub(crate) const RANGED_IDS_MAX: u64 = 1_000_000;
/// Tags on one page of `GET /v1/tags` when no limit is given.
pub(crate) const TAGS_PAGE_DEFAULT: usize = 100;
/// Most tags on one page of `GET /v1/tags`.
pub(crate) const TAGS_PAGE_MAX: usize = 1_000;

// Bytes of one request.

/// Longest head of an HTTP request; a longer one is answered 431.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most header lines of an HTTP request.
pub(crate) const HEADERS_MAX: usize = 64;
/// Most parameters in a query: more than any path knows.
pub(crate) const PARAMETERS_MAX: usize = 16;
/// Longest body: the largest sensible one is a tag with its description, far below this.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
/// Most fields in a body: more than any request knows.
pub(crate) const FIELDS_MAX: usize = 16;
/// Longest command of the Redis protocol, with its framing.
pub(crate) const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Most arguments of such a command, its name among them.
pub(crate) const ARGS_MAX: usize = 1024;
/// Longest name that a client of the Redis protocol may give itself.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 256;

// Crowds.

/// Open connections of each protocol; one more is told so and closed.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// Callers that may wait for ids of one tag; one more is turned away.
pub(crate) const WAITERS_MAX: usize = 10_000;
/// Bytes of answers that one connection may have waiting for its client to read; above it nothing
/// more of that connection is answered.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 * 1024;

// Time.

/// Longest time from a request to its answer. A guard against waits that nobody bounded: those for
/// a segment or a quorum end sooner, with a better reason.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Longest time from the head of a request to the end of its body.
pub(crate) const BODY_MAX: Duration = Duration::from_secs(5);
/// Time that a stop leaves to requests in flight, and a closing connection to its last answers.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Longest wait for a segment, and for the read that must see every change before it.
pub(crate) const GRAB_MAX: Duration = Duration::from_secs(2);
/// Longest wait for a time window of snowflake ids that is on its way.
pub(crate) const WINDOW_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest that a change of a tag may take: long enough to outlast an election.
pub(crate) const CHANGE_MAX: Duration = Duration::from_secs(5);
