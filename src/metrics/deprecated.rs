//! Metrics that others have replaced. They stay for one minor release, in the format of the page that Prometheus asks
//! for, so that a dashboard of the previous release goes on working.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::gauges::{ClusterReadings, SnowflakeReadings};
use super::registration::{gauge, metric};

/// Offsets of clocks in milliseconds, which is not a unit of Prometheus.
#[derive(Debug)]
pub(super) struct DeprecatedGauges {
    clock_offset: Gauge,
    peer_clocks: Family<[(&'static str, String); 1], Gauge>,
}

impl DeprecatedGauges {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            clock_offset: gauge(
                r,
                "clock_offset_ms",
                "Deprecated: mintleaf_clock_offset_seconds, in milliseconds",
            ),
            peer_clocks: metric(
                r,
                "peer_clock_offset_ms",
                "Deprecated: mintleaf_peer_clock_offset_seconds, in milliseconds",
                Family::default(),
            ),
        }
    }

    pub(super) fn set(&self, snowflake: &SnowflakeReadings, cluster: &ClusterReadings) {
        self.clock_offset.set(snowflake.clock_offset_ms);
        self.peer_clocks.clear();
        for (node, offset_ms) in &cluster.clock_offsets_ms {
            self.peer_clocks.get_or_create(&[("node", node.to_string())]).set(*offset_ms);
        }
    }
}
