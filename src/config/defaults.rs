//! The value of each setting that is not given.

/// Client address: reachable from this machine only.
pub(super) const HTTP_DEFAULT: &str = "127.0.0.1:8080";
/// Internal address: reachable from this machine only.
pub(super) const RAFT_DEFAULT: &str = "127.0.0.1:9080";
/// Data directory.
pub(super) const DATA_DEFAULT: &str = "./mintleaf-data";
/// Maximum number of keys of registers that the cluster keeps: 100 MB of memory on each node, with keys of a usual
/// length.
pub const REGISTER_KEYS_MAX_DEFAULT: u64 = 1_000_000;
/// Maximum number of names of tags that the cluster keeps: 1 GB of memory on each node, with names of a usual length.
pub const TAGS_MAX_DEFAULT: u64 = 10_000_000;
/// Memory for the counters of sequences: six million keys.
pub(super) const SEQUENCE_MEMORY_DEFAULT: &str = "256MiB";
/// How long a node makes snowflake ids without the quorum.
pub(super) const SNOWFLAKE_WINDOW_DEFAULT: &str = "60s";
/// How far a node may be from the cluster's median clock and still make snowflake ids.
pub(super) const MAX_CLOCK_SKEW_DEFAULT: &str = "2s";
/// Log entries between two snapshots, and about how much of the log a start replays.
pub(super) const SNAPSHOT_ENTRIES_DEFAULT: u64 = 20_000;
/// How long a node goes on serving after it was asked to stop: load balancers look every second or two, and clients
/// then get the same time to leave.
pub(super) const DRAIN_DEFAULT: &str = "5s";
/// The same for `mintleaf dev`, which has no load balancer in front of it.
pub(super) const DEV_DRAIN_DEFAULT: &str = "0";
