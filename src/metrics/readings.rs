//! What a node reads of itself for one page of metrics.

use mintleaf_raft::SyncReadings;

use super::gauges::{ClusterReadings, SnowflakeReadings};
use super::sequences::SequenceReadings;
use super::tags::TagReadings;

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
    /// The counters of sequences, while this node leads.
    pub(crate) sequences: SequenceReadings,
    /// The syncs of its log, where they are measured.
    pub(crate) syncs: Option<SyncReadings>,
}
