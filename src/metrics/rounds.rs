//! The rounds that confirm, by a quorum, that this node leads, and the messages that carry requests to the leader.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::LeaderMessage;
use super::registration::{by_label, metric};

/// Bounds of the buckets of rounds, in seconds: from two messages within one machine to the longest that is waited for.
const ROUND_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Counters of strict order.
#[derive(Debug)]
pub(super) struct RoundMetrics {
    pub(super) confirmed: Counter,
    pub(super) failed: Counter,
    pub(super) seconds: Histogram,
    pub(super) requests: Counter,
    pub(super) messages: [Counter; 3],
}

impl RoundMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        let outcomes = ["confirmed", "failed"];
        let help = "Rounds to a quorum, which confirm that this node leads, by how they ended";
        let [confirmed, failed] = by_label(r, "rounds", help, "outcome", outcomes);
        Self {
            confirmed,
            failed,
            seconds: metric(
                r,
                "round_seconds",
                "Time from the beginning of a round to its confirmation",
                Histogram::new(ROUND_BUCKETS),
            ),
            requests: metric(
                r,
                "round_requests",
                "Requests that rounds were confirmed for",
                Counter::default(),
            ),
            messages: by_label(
                r,
                "leader_messages",
                "Messages that carried requests to the leader, by how they ended",
                "outcome",
                LeaderMessage::LABELS,
            ),
        }
    }
}
