//! What a node shows of its machine: the process, by the names that Prometheus gives to every process, and the disk.

use std::fmt;
use std::sync::LazyLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;

use super::rows::Rows;

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

/// The names have no prefix.
impl Collector for ProcessReadings {
    fn encode(&self, page: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = &mut Rows(page);
        let help = "When the process started, in Unix seconds";
        rows.gauge("process_start_time_seconds", help, self.started_s)?;
        rows.counter("process_cpu_seconds", "Processor time of the process", self.cpu_s)?;
        let help = "Memory of the process in RAM";
        rows.gauge("process_resident_memory_bytes", help, self.resident_bytes)?;
        rows.gauge("process_open_fds", "Open files of the process", self.open_files)?;
        let help = "Files that the process may have open";
        rows.gauge("process_max_fds", help, self.open_files_max)?;
        rows.gauge("process_threads", "Threads of the process", self.threads)
    }
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

impl Collector for DiskReadings {
    fn encode(&self, page: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = &mut Rows(page);
        let help = "Size of the file system that holds the data directory";
        rows.gauge("disk_size_bytes", help, self.size_bytes)?;
        let help = "What the node may still write to that file system";
        rows.gauge("disk_free_bytes", help, self.free_bytes)?;
        let parts = [
            ("write_ahead_log", self.write_ahead_log_bytes),
            ("checkpoints", self.checkpoints_bytes),
            ("snapshots", self.snapshots_bytes),
        ];
        rows.gauges("data_bytes", "Size of the data directory's parts", "part", parts)
    }
}
