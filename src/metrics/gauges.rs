//! Gauges, which show a moment: connections, the cluster, snowflake ids.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::Protocol;
use super::registration::{Labels, gauge, metric};

/// A gauge that never shows less than zero.
pub(super) type LevelGauge = Gauge<u64, AtomicU64>;

/// The connections of clients that speak one protocol.
#[derive(Debug)]
pub(super) struct ConnectionGauges {
    pub(super) open: Gauge,
    pub(super) refused: Counter,
    pub(super) evicted: Counter,
    pub(super) too_slow: Counter,
}

impl ConnectionGauges {
    pub(super) fn new(r: &mut Registry, protocol: Protocol) -> Self {
        let named = |what: &str| format!("{}_connections{what}", protocol.name());
        let mut counter =
            |what: &str, help: &str| metric(r, &named(what), help, Counter::default());
        let refused = counter("_refused", "Client connections turned away for want of a place");
        let evicted =
            counter("_evicted", "Client connections ended to make room, idle or without a token");
        let too_slow = counter("_too_slow", "Client connections ended for reading too slowly");
        Self { open: gauge(r, &named(""), "Open client connections"), refused, evicted, too_slow }
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

/// The gauges of [`ClusterReadings`].
#[derive(Debug)]
pub(super) struct ClusterGauges {
    term: LevelGauge,
    leader_known: LevelGauge,
    is_leader: LevelGauge,
    level: LevelGauge,
    last_log_index: LevelGauge,
    last_applied_index: LevelGauge,
    snapshot_index: LevelGauge,
    leader_changes: Counter,
    voters: LevelGauge,
    quorum_reachable: LevelGauge,
    reachable: Family<ByNode, Gauge>,
    lags: Family<ByNode, LevelGauge>,
    round_trips: Family<ByNode, Gauge<f64, AtomicU64>>,
    syncs: Family<ByNode, Gauge<f64, AtomicU64>>,
}

/// The label of a member: members are few, and named by operators.
type ByNode = [(&'static str, String); 1];

impl ClusterGauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            term: gauge(registry, "raft_term", "Current Raft term"),
            leader_known: gauge(registry, "raft_leader_known", "1 while a leader is known"),
            is_leader: gauge(registry, "raft_is_leader", "1 while this node leads"),
            level: gauge(registry, "cluster_level", "What the cluster's log may hold"),
            last_log_index: gauge(registry, "raft_last_log_index", "Newest entry in the log"),
            last_applied_index: gauge(
                registry,
                "raft_last_applied_index",
                "Newest entry that was applied",
            ),
            snapshot_index: gauge(
                registry,
                "raft_snapshot_index",
                "Newest entry that the snapshot holds",
            ),
            leader_changes: metric(
                registry,
                "raft_leader_changes",
                "Leaders that took over since this node started, the first not counted",
                Counter::default(),
            ),
            voters: gauge(registry, "raft_voters", "Nodes that vote"),
            quorum_reachable: gauge(
                registry,
                "quorum_reachable",
                "1 while a majority of the voters is in reach, of those before and after a change of them",
            ),
            reachable: metric(
                registry,
                "peer_reachable",
                "1 while another member shows signs of life to this node",
                Family::default(),
            ),
            lags: metric(
                registry,
                "peer_lag_entries",
                "Entries of the leader's log that a member lacks; on the leader only",
                Family::default(),
            ),
            round_trips: metric(
                registry,
                "peer_round_trip_seconds",
                "Median of the last round trips to another member",
                Family::default(),
            ),
            syncs: metric(
                registry,
                "member_sync_seconds",
                "What a sync takes lately on a member's disk, this node's included",
                Family::default(),
            ),
        }
    }

    pub(super) fn set(&self, readings: &ClusterReadings) {
        self.term.set(readings.term);
        self.leader_known.set(u64::from(readings.leader_known));
        self.is_leader.set(u64::from(readings.is_leader));
        self.level.set(u64::from(readings.level));
        self.last_log_index.set(readings.last_log_index);
        self.last_applied_index.set(readings.last_applied_index);
        self.snapshot_index.set(readings.snapshot_index);
        self.leader_changes.inner().store(readings.leader_changes, Relaxed);
        self.voters.set(readings.voters);
        self.quorum_reachable.set(u64::from(readings.quorum_reachable));
        self.reachable.clear();
        for &(node, reachable) in &readings.reachable {
            self.reachable.get_or_create(&by_node(node)).set(i64::from(reachable));
        }
        self.lags.clear();
        for &(node, entries) in &readings.lags {
            self.lags.get_or_create(&by_node(node)).set(entries);
        }
        for (family, readings) in
            [(&self.round_trips, &readings.round_trips_s), (&self.syncs, &readings.syncs_s)]
        {
            family.clear();
            for &(node, seconds) in readings {
                family.get_or_create(&by_node(node)).set(seconds);
            }
        }
    }
}

fn by_node(node: u64) -> ByNode {
    [("node", node.to_string())]
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

/// The gauges of [`SnowflakeReadings`], and the members' clocks by node: few, and named by operators.
#[derive(Debug)]
pub(super) struct SnowflakeGauges {
    worker_ids: LevelGauge,
    remaining: Gauge<f64, AtomicU64>,
    clock_offset: Gauge<f64, AtomicU64>,
    alarms: Family<Labels<1>, Gauge>,
    end: LevelGauge,
    peer_clocks: Family<ByNode, Gauge<f64, AtomicU64>>,
}

impl SnowflakeGauges {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            worker_ids: gauge(r, "snowflake_worker_ids", "Worker ids held"),
            remaining: gauge(
                r,
                "snowflake_window_seconds",
                "How long snowflake ids go on without another time window",
            ),
            clock_offset: gauge(
                r,
                "clock_offset_seconds",
                "How far this node's clock is ahead of the voters' median",
            ),
            alarms: metric(
                r,
                "snowflake_alarm",
                "1 while an operator should look at this cause",
                Family::default(),
            ),
            end: gauge(
                r,
                "snowflake_end_timestamp_seconds",
                "When the time bits of snowflake ids end, in Unix seconds",
            ),
            peer_clocks: metric(
                r,
                "peer_clock_offset_seconds",
                "How far a member's clock is ahead of this node's",
                Family::default(),
            ),
        }
    }

    pub(super) fn set(&self, snowflake: &SnowflakeReadings, cluster: &ClusterReadings) {
        self.worker_ids.set(snowflake.worker_ids);
        self.remaining.set(snowflake.remaining_seconds);
        self.clock_offset.set(snowflake.clock_offset_ms as f64 / 1000.0);
        self.end.set(snowflake.end_s);
        let alarms = [
            ("pool_exhausted", snowflake.pool_exhausted),
            ("clock_skewed", snowflake.clock_skewed),
            ("clock_behind", snowflake.clock_behind),
            ("lifetime_ends", snowflake.lifetime_ends),
        ];
        for (cause, raised) in alarms {
            self.alarms.get_or_create(&[("cause", cause)]).set(i64::from(raised));
        }
        self.peer_clocks.clear();
        for (node_id, offset_ms) in &cluster.clock_offsets_ms {
            self.peer_clocks.get_or_create(&by_node(*node_id)).set(*offset_ms as f64 / 1000.0);
        }
    }
}
