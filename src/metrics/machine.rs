//! What a node shows of its machine: the process, by the names that Prometheus gives to every process, and the disk.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

use mintleaf_raft::SyncReadings;
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::gauges::LevelGauge;
use super::registration::{gauge, gauges_by_label, metric};

/// How many lines of its log the process has dropped.
pub(crate) static LOG_LINES_DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// What a process takes of its machine, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessReadings {
    /// When it started, in Unix seconds.
    pub(crate) started_s: f64,
    /// Processor time, in user mode and in the kernel, in seconds.
    pub(crate) cpu_s: f64,
    /// Memory in RAM, in bytes.
    pub(crate) resident_bytes: u64,
    /// Open files.
    pub(crate) open_files: u64,
    /// Files that may be open.
    pub(crate) open_files_max: u64,
    /// Threads.
    pub(crate) threads: u64,
}

/// What a node's data takes of its disk, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DiskReadings {
    /// Bytes of the file system.
    pub(crate) size_bytes: u64,
    /// Bytes of it that a user may still write.
    pub(crate) free_bytes: u64,
    /// Bytes of the write-ahead log.
    pub(crate) write_ahead_log_bytes: u64,
    /// Bytes of the checkpoints of the log.
    pub(crate) checkpoints_bytes: u64,
    /// Bytes of snapshots.
    pub(crate) snapshots_bytes: u64,
}

/// The gauges of [`ProcessReadings`].
#[derive(Debug)]
pub(super) struct ProcessGauges {
    started: Gauge<f64, AtomicU64>,
    cpu: Counter<f64, AtomicU64>,
    resident: LevelGauge,
    open_files: LevelGauge,
    open_files_max: LevelGauge,
    threads: LevelGauge,
}

impl ProcessGauges {
    /// Registers them in a registry without a prefix.
    pub(super) fn new(r: &mut Registry) -> Self {
        metric(
            r,
            "mintleaf_log_lines_dropped",
            "Lines of the log that were dropped, because nothing read it",
            LOG_LINES_DROPPED.clone(),
        );
        Self {
            started: gauge(
                r,
                "process_start_time_seconds",
                "When the process started, in Unix seconds",
            ),
            cpu: metric(
                r,
                "process_cpu_seconds",
                "Processor time of the process",
                Counter::default(),
            ),
            resident: gauge(r, "process_resident_memory_bytes", "Memory of the process in RAM"),
            open_files: gauge(r, "process_open_fds", "Open files of the process"),
            open_files_max: gauge(r, "process_max_fds", "Files that the process may have open"),
            threads: gauge(r, "process_threads", "Threads of the process"),
        }
    }

    pub(super) fn set(&self, now: &ProcessReadings) {
        self.started.set(now.started_s);
        // This kind of counter keeps the bits of its number.
        self.cpu.inner().store(now.cpu_s.to_bits(), std::sync::atomic::Ordering::Relaxed);
        self.resident.set(now.resident_bytes);
        self.open_files.set(now.open_files);
        self.open_files_max.set(now.open_files_max);
        self.threads.set(now.threads);
    }
}

/// The gauges of [`DiskReadings`], and the times of syncs.
#[derive(Debug)]
pub(super) struct DiskGauges {
    size: LevelGauge,
    free: LevelGauge,
    parts: [LevelGauge; 3],
    syncs: SyncHistogram,
}

impl DiskGauges {
    pub(super) fn new(r: &mut Registry) -> Self {
        let parts = ["write_ahead_log", "checkpoints", "snapshots"];
        Self {
            size: gauge(
                r,
                "disk_size_bytes",
                "Size of the file system that holds the data directory",
            ),
            free: gauge(r, "disk_free_bytes", "What the node may still write to that file system"),
            parts: gauges_by_label(
                r,
                "data_bytes",
                "Size of the data directory's parts",
                "part",
                parts,
            ),
            syncs: metric(
                r,
                "log_sync_seconds",
                "Time to write a batch to the write-ahead log and sync it",
                SyncHistogram::default(),
            ),
        }
    }

    pub(super) fn set(&self, now: &DiskReadings) {
        self.size.set(now.size_bytes);
        self.free.set(now.free_bytes);
        let parts = [now.write_ahead_log_bytes, now.checkpoints_bytes, now.snapshots_bytes];
        for (gauge, bytes) in self.parts.iter().zip(parts) {
            gauge.set(bytes);
        }
    }

    pub(super) fn set_syncs(&self, syncs: SyncReadings) {
        *self.syncs.0.lock() = syncs;
    }
}

/// A histogram that was filled elsewhere.
#[derive(Clone, Debug, Default)]
struct SyncHistogram(std::sync::Arc<Mutex<SyncReadings>>);

impl EncodeMetric for SyncHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let SyncReadings { buckets, sum_s } = &*self.0.lock();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(*sum_s, count, buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }

    fn is_empty(&self) -> bool {
        self.0.lock().buckets.is_empty()
    }
}
