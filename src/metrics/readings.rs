//! What a node reads of itself for one page of metrics, and the gauges that show it.

use std::fmt;

use mintleaf_raft::SyncReadings;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::rows::Rows;

/// What a node reads of itself for one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    /// Whether it can hand out ids.
    pub(crate) ready: bool,
    /// Whether it was asked to stop.
    pub(crate) draining: bool,
    /// Its knowledge of the cluster.
    pub(crate) cluster: ClusterReadings,
    /// Its snowflake ids.
    pub(crate) snowflake: SnowflakeReadings,
    /// The cluster's tags.
    pub(crate) tags: TagReadings,
    /// The pools of worker ids for programs.
    pub(crate) pools: PoolReadings,
    /// The counters of sequences, while this node leads.
    pub(crate) sequences: SequenceReadings,
    /// The syncs of its log, where they are measured.
    pub(crate) syncs: Option<SyncReadings>,
}

impl Collector for Readings {
    fn encode(&self, page: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = &mut Rows(page);
        rows.flag("ready", "1 while this node can hand out ids", self.ready)?;
        rows.flag("draining", "1 from the request to stop on", self.draining)?;
        self.cluster.write(rows)?;
        self.snowflake.write(rows)?;
        self.tags.write(rows)?;
        self.pools.write(rows)?;
        self.sequences.write(rows)?;
        let Some(SyncReadings { buckets, sum_s }) = &self.syncs else { return Ok(()) };
        if buckets.is_empty() {
            return Ok(());
        }
        let help = "Time to write a batch to the write-ahead log and sync it";
        let count = buckets.iter().map(|(_, count)| count).sum();
        rows.metric("log_sync_seconds", help, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(*sum_s, count, buckets, None)
    }
}

/// A node's knowledge of its cluster at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterReadings {
    /// Raft's current term.
    pub(crate) term: u64,
    /// Whether a leader is known.
    pub(crate) leader_known: bool,
    /// Whether this node leads.
    pub(crate) is_leader: bool,
    /// The cluster's level.
    pub(crate) level: u32,
    /// Last index in this node's log; 0 when it is empty.
    pub(crate) last_log_index: u64,
    /// Last index that this node applied; 0 before the first.
    pub(crate) last_applied_index: u64,
    /// Newest entry that this node's snapshot holds; 0 without one.
    pub(crate) snapshot_index: u64,
    /// How many leaders took over since this node started.
    pub(crate) leader_changes: u64,
    /// How many members vote.
    pub(crate) voters: u64,
    /// Whether this node reaches a majority of the voters, of those before and after a change of them.
    pub(crate) quorum_reachable: bool,
    /// By node id: whether a member shows signs of life.
    pub(crate) reachable: Vec<(u64, bool)>,
    /// By node id: how many entries a member lacks of this leader's log; nothing on other nodes.
    pub(crate) lags: Vec<(u64, u64)>,
    /// By node id: the median of the last round trips to another member, in seconds.
    pub(crate) round_trips_s: Vec<(u64, f64)>,
    /// By node id: what a sync takes lately on a member's disk, in seconds.
    pub(crate) syncs_s: Vec<(u64, f64)>,
    /// By node id: how far a member's clock is ahead of this node's, in milliseconds.
    pub(crate) clock_offsets_ms: Vec<(u64, i64)>,
}

impl ClusterReadings {
    fn write(&self, rows: &mut Rows<'_>) -> fmt::Result {
        rows.gauge("raft_term", "Current Raft term", self.term)?;
        rows.flag("raft_leader_known", "1 while a leader is known", self.leader_known)?;
        rows.flag("raft_is_leader", "1 while this node leads", self.is_leader)?;
        rows.gauge("cluster_level", "What the cluster's log may hold", u64::from(self.level))?;
        rows.gauge("raft_last_log_index", "Newest entry in the log", self.last_log_index)?;
        let help = "Newest entry that was applied";
        rows.gauge("raft_last_applied_index", help, self.last_applied_index)?;
        let help = "Newest entry that the snapshot holds";
        rows.gauge("raft_snapshot_index", help, self.snapshot_index)?;
        let help = "Leaders that took over since this node started, the first not counted";
        rows.counter("raft_leader_changes", help, self.leader_changes)?;
        rows.gauge("raft_voters", "Nodes that vote", self.voters)?;
        let help = "1 while a majority of the voters is in reach, of those before and after a change of them";
        rows.flag("quorum_reachable", help, self.quorum_reachable)?;
        let reachable = self.reachable.iter().map(|&(node, it)| (node, u64::from(it)));
        let help = "1 while another member shows signs of life to this node";
        rows.gauges("peer_reachable", help, "node", reachable)?;
        let help = "Entries of the leader's log that a member lacks; on the leader only";
        rows.gauges("peer_lag_entries", help, "node", self.lags.iter().copied())?;
        let help = "Median of the last round trips to another member";
        let round_trips = self.round_trips_s.iter().copied();
        rows.gauges("peer_round_trip_seconds", help, "node", round_trips)?;
        let help = "What a sync takes lately on a member's disk, this node's included";
        rows.gauges("member_sync_seconds", help, "node", self.syncs_s.iter().copied())?;
        let help = "How far a member's clock is ahead of this node's";
        let clocks = self.clock_offsets_ms.iter().map(|&(node, ms)| (node, ms as f64 / 1000.0));
        rows.gauges("peer_clock_offset_seconds", help, "node", clocks)
    }
}

/// The state of a node's snowflake ids at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SnowflakeReadings {
    /// How many worker ids are held.
    pub(crate) worker_ids: u64,
    /// How long ids go on without another window, in seconds.
    pub(crate) remaining_seconds: f64,
    /// How far this node's clock is ahead of the median of the voters' clocks.
    pub(crate) clock_offset_ms: i64,
    /// Whether no worker id is free.
    pub(crate) pool_exhausted: bool,
    /// Whether this node's clock is too far from the median.
    pub(crate) clock_skewed: bool,
    /// Whether this node's clock went back further than the window could ride out.
    pub(crate) clock_behind: bool,
    /// Whether the layout's time bits end within a year.
    pub(crate) lifetime_ends: bool,
    /// When the layout's time bits end, in Unix seconds.
    pub(crate) end_s: u64,
}

impl SnowflakeReadings {
    fn write(&self, rows: &mut Rows<'_>) -> fmt::Result {
        rows.gauge("snowflake_worker_ids", "Worker ids held", self.worker_ids)?;
        let help = "How long snowflake ids go on without another time window";
        rows.gauge("snowflake_window_seconds", help, self.remaining_seconds)?;
        let help = "How far this node's clock is ahead of the voters' median";
        rows.gauge("clock_offset_seconds", help, self.clock_offset_ms as f64 / 1000.0)?;
        let alarms = [
            ("pool_exhausted", self.pool_exhausted),
            ("clock_skewed", self.clock_skewed),
            ("clock_behind", self.clock_behind),
            ("lifetime_ends", self.lifetime_ends),
        ];
        let help = "1 while an operator should look at this cause";
        let alarms = alarms.map(|(cause, is_raised)| (cause, u64::from(is_raised)));
        rows.gauges("snowflake_alarm", help, "cause", alarms)?;
        let help = "When the time bits of snowflake ids end, in Unix seconds";
        rows.gauge("snowflake_end_timestamp_seconds", help, self.end_s)
    }
}

/// How many tags there are, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TagReadings {
    /// Tags that exist.
    pub(crate) tags: u64,
    /// Tags that this node holds ids of.
    pub(crate) loaded: u64,
    /// Names that the state keeps, those of deleted tags included.
    pub(crate) names: u64,
    /// Maximum number of names that it may keep.
    pub(crate) names_max: u64,
    /// Keys of all registers, those of deleted ones included.
    pub(crate) register_keys: u64,
    /// Maximum number of keys that they may have.
    pub(crate) register_keys_max: u64,
    /// Ids that the log has reserved, for any node, in the entries that this process applied.
    pub(crate) reserved: u64,
}

impl TagReadings {
    fn write(&self, rows: &mut Rows<'_>) -> fmt::Result {
        rows.gauge("tags", "Tags that exist", self.tags)?;
        let help = "Tags that this node holds ids of; strict ones and sequences on the leader only";
        rows.gauge("tags_loaded", help, self.loaded)?;
        let help = "Names of tags that are kept, those of deleted ones included";
        rows.gauge("tag_names", help, self.names)?;
        let help = "Most names of tags that are kept, by --tags-max";
        rows.gauge("tag_names_max", help, self.names_max)?;
        let help = "Keys of registers, those of deleted ones included";
        rows.gauge("register_keys", help, self.register_keys)?;
        let help = "Most keys of registers, by --register-keys-max";
        rows.gauge("register_keys_max", help, self.register_keys_max)?;
        let help = "Ids of tags that all nodes reserved, by the entries that this process applied";
        rows.counter("ids_reserved", help, self.reserved)
    }
}

/// The pools of worker ids for programs at one moment, all together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolReadings {
    /// Their worker ids.
    pub(crate) workers: u64,
    /// Those that are leased.
    pub(crate) leased: u64,
}

impl PoolReadings {
    fn write(&self, rows: &mut Rows<'_>) -> fmt::Result {
        let help = "Worker ids of all pools for programs";
        rows.gauge("pool_worker_ids", help, self.workers)?;
        let help = "Worker ids of pools that are leased to programs now";
        rows.gauge("pool_worker_ids_leased", help, self.leased)
    }
}

/// What the counters of sequences are at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SequenceReadings {
    /// Keys whose last number is remembered.
    pub(crate) keys: usize,
    /// Keys that were forgotten since the process began.
    pub(crate) keys_forgotten: u64,
    /// Bytes that are taken.
    pub(crate) memory: usize,
}

impl SequenceReadings {
    fn write(&self, rows: &mut Rows<'_>) -> fmt::Result {
        let help = "Keys of sequences whose last number this node remembers";
        rows.gauge("sequence_keys", help, self.keys as u64)?;
        let help =
            "Keys of sequences that were forgotten, for want of memory or with the leadership";
        rows.counter("sequence_keys_forgotten", help, self.keys_forgotten)?;
        let help = "Memory that the counters of sequences take, of --sequence-memory";
        rows.gauge("sequence_memory_bytes", help, self.memory as u64)
    }
}

/// Offsets of clocks in milliseconds, which is not a unit of Prometheus. They stay for one minor release, in the format
/// of the page that Prometheus asks for, so that a dashboard of the previous release goes on working.
#[derive(Debug)]
pub(super) struct DeprecatedReadings {
    pub(super) clock_offset_ms: i64,
    pub(super) clock_offsets_ms: Vec<(u64, i64)>,
}

impl Collector for DeprecatedReadings {
    fn encode(&self, page: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = &mut Rows(page);
        let help = "Deprecated: mintleaf_clock_offset_seconds, in milliseconds";
        rows.gauge("clock_offset_ms", help, self.clock_offset_ms)?;
        let help = "Deprecated: mintleaf_peer_clock_offset_seconds, in milliseconds";
        let clocks = self.clock_offsets_ms.iter().copied();
        rows.gauges("peer_clock_offset_ms", help, "node", clocks)
    }
}
