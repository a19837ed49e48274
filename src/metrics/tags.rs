//! What a node shows of the cluster's tags as a whole. No label ever holds a tag.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::gauges::LevelGauge;
use super::registration::gauge;

/// How many tags there are, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TagReadings {
    /// Tags that exist.
    pub(crate) tags: u64,
    /// Tags that this node holds ids of.
    pub(crate) loaded: u64,
    /// Names that the state keeps, those of deleted tags included.
    pub(crate) names: u64,
    /// Most names that it may keep.
    pub(crate) names_max: u64,
}

/// The gauges of [`TagReadings`], and how much is left of the tag that is nearest to its end.
#[derive(Debug)]
pub(super) struct TagGauges {
    tags: LevelGauge,
    loaded: LevelGauge,
    names: LevelGauge,
    names_max: LevelGauge,
    headroom: Gauge<f64, AtomicU64>,
}

impl TagGauges {
    pub(super) fn new(r: &mut Registry) -> Self {
        let headroom = gauge(
            r,
            "tag_headroom_ratio",
            "Share of its ids that is left of the tag that is nearest to its end, 0 to 1",
        );
        // Until the first look, no tag counts as near its end.
        headroom.set(1.0);
        Self {
            tags: gauge(r, "tags", "Tags that exist"),
            loaded: gauge(
                r,
                "tags_loaded",
                "Tags that this node holds ids of; strict ones and sequences on the leader only",
            ),
            names: gauge(
                r,
                "tag_names",
                "Names of tags that are kept, those of deleted ones included",
            ),
            names_max: gauge(r, "tag_names_max", "Most names of tags that are kept, by --tags-max"),
            headroom,
        }
    }

    pub(super) fn set(&self, now: &TagReadings) {
        self.tags.set(now.tags);
        self.loaded.set(now.loaded);
        self.names.set(now.names);
        self.names_max.set(now.names_max);
    }

    pub(super) fn set_headroom(&self, ratio: f64) {
        self.headroom.set(ratio);
    }
}
