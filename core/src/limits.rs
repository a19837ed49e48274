//! The bounds of what the state holds and of what a client may ask it for. Each names the file that enforces it; paths
//! that do not begin with `src/` are below `core/src/`.
//!
//! The bounds of one request and of a node's clients are in `src/limits.rs`, those of settings in `src/config/`. The
//! widths of snowflake ids are in `snowflake/layout.rs`. A bound that no client can meet stands in the file that
//! enforces it.

use std::ops::RangeInclusive;

/// Maximum number of characters (Unicode scalar values, not bytes) in a [`BizTag`](crate::tag::BizTag): `tag.rs`.
pub const TAG_CHARS_MAX: usize = 128;
/// Maximum number of characters in a tag's description: `state/command.rs`.
pub const DESCRIPTION_CHARS_MAX: usize = 256;
/// Largest step, and most ids in one grab: `state/command.rs`. `segment/sizing.rs` asks for no more.
pub const STEP_MAX: u32 = (1 << 31) - 1;
/// A tag's step when none is given: `src/service/admin/tag_creation.rs`.
pub const STEP_DEFAULT: u32 = 1_000;
/// The same of a tag with a period or a format in trend order, whose ids people read and compare: neighbouring numbers
/// of different nodes begin ten apart, a restart wastes some tens, and what is in use grows anyway.
pub const STEP_DEFAULT_READ: u32 = 10;
/// A tag's first id when none is given: as [`STEP_DEFAULT`].
pub const START_DEFAULT: u64 = 1;
/// Largest id, and largest `start` of a tag: ids fit a signed 64-bit column. `state/watermark.rs` and
/// `state/command.rs`.
pub const ID_MAX: u64 = ID_END - 1;
/// Largest number that a double holds and that no other integer is rounded to. JavaScript and many readers of JSON keep
/// numbers as doubles: two ids above this may look alike there.
pub const DOUBLE_EXACT_MAX: u64 = (1 << 53) - 1;
/// First number past every id: where a tag's `max_id` stands once all are reserved. `state/watermark.rs`.
pub const ID_END: u64 = 1 << 63;
/// Longest window of a worker id, and the furthest that one reaches past the stamp of its entry, so that no node can
/// take a worker id's future away. No node need go on without the quorum for more than an hour. `state/command.rs` and
/// `state/worker_entry.rs`.
pub const AHEAD_MS_MAX: u64 = 60 * 60 * 1000;

/// Maximum number of pools of worker ids for programs, those that were deleted included: `state/lease_pools.rs`.
pub const POOLS_MAX: usize = 256;
/// Maximum number of characters in what the holder of a leased worker id calls itself: `state/command.rs`.
pub const HOLDER_CHARS_MAX: usize = 128;
/// Shortest lease of a worker id; the longest is [`AHEAD_MS_MAX`]. `state/command.rs`.
pub const LEASE_MS_MIN: u64 = 5_000;

/// Highest snowflake floor, in Unix milliseconds: no layout shows a later time. `state/change.rs`.
pub const FLOOR_MS_MAX: u64 = 1 << 44;

/// Furthest ahead of the cluster's clock that a change moves the snowflake floor unless it says `force`: until
/// that time has come there are no snowflake ids. `src/service/admin/snowflake_floor.rs`.
pub const UNFORCED_FLOOR_AHEAD_MS_MAX: u64 = 60 * 60 * 1000;

/// Maximum number of ids a second that a tag's rate limit says: `state/protection.rs`.
pub const RATE_LIMIT_MAX: u32 = 1_000_000_000;
/// Maximum number of characters in the name of an actor of admin changes: `state/actor.rs`.
pub const ACTOR_CHARS_MAX: usize = 64;
/// Longest address of a node that the audit holds, a host name of 253 bytes with its port: `state/change.rs`.
pub const ADDRESS_BYTES_MAX: usize = 253 + 6;
/// Maximum number of characters in the name of an import: `state/change.rs`.
pub const IMPORT_CHARS_MAX: usize = 128;
/// Admin changes that the audit holds: the last ones. `state/audit.rs`.
pub const AUDIT_MAX: usize = 10_000;

/// Digits that hidden ids may have: `shape.rs`.
pub const HIDDEN_DIGITS: RangeInclusive<u8> = 6..=18;
/// Maximum number of characters in the format of a tag: `shape/text_format.rs`.
pub const FORMAT_CHARS_MAX: usize = 128;
/// Maximum number of digits that a format pads an id to: `shape/text_format.rs`.
pub const FORMAT_PAD_MAX: u8 = 20;
/// The time zone of a tag's periods when none is given: `src/service/admin/tag_creation.rs`.
pub const TIME_ZONE_DEFAULT: &str = "UTC";
/// Longest name of a time zone: `shape/period.rs`.
pub const TIME_ZONE_BYTES_MAX: usize = 64;
/// Longest period that a grab may name, a leap year with two days for what happens to time zones: `shape/line.rs`.
pub const PERIOD_MS_MAX: u64 = 368 * 24 * 60 * 60 * 1000;
/// How far outside a period the stamp of a grab may lie: `state/period_lines.rs`.
pub const PERIOD_SKEW_MS: u64 = 2_000;
/// Periods of a tag that the state keeps, those used last: `state/period_lines.rs`.
pub const PERIODS_KEPT: usize = 16;
/// Maximum number of UTF-8 bytes in a key of a sequence or register; the minimum is one: `sequence/key.rs`.
pub const KEY_BYTES_MAX: usize = 256;
/// Sections that the keys of a sequence fall into: `shape/line.rs`.
pub const SECTIONS: u16 = 4_096;

/// Furthest that a change moves a tag's `max_id` unless it says `force`: a thousand ids a second for 34 years.
/// `src/service/admin/tags.rs`.
pub const UNFORCED_RISE_MAX: u64 = 1 << 40;
