//! What a node shows of the counters of sequences that it holds while it leads.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::gauges::LevelGauge;
use super::registration::{gauge, metric};

/// Gauges and counters of sequences.
#[derive(Debug)]
pub(super) struct SequenceMetrics {
    pub(super) keys: LevelGauge,
    pub(super) keys_forgotten: Counter,
    pub(super) memory: LevelGauge,
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

impl SequenceMetrics {
    /// Everything at zero, each registered under its name.
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            keys: gauge(
                r,
                "sequence_keys",
                "Keys of sequences whose last number this node remembers",
            ),
            keys_forgotten: metric(
                r,
                "sequence_keys_forgotten",
                "Keys of sequences that were forgotten, for want of memory or with the leadership",
                Counter::default(),
            ),
            memory: gauge(
                r,
                "sequence_memory_bytes",
                "Memory that the counters of sequences take, of --sequence-memory",
            ),
        }
    }

    /// Shows these readings. The count of forgotten keys only rises.
    pub(super) fn set(&self, readings: &SequenceReadings) {
        self.keys.set(readings.keys as u64);
        self.memory.set(readings.memory as u64);
        let counted = self.keys_forgotten.get();
        self.keys_forgotten.inc_by(readings.keys_forgotten.saturating_sub(counted));
    }
}
