//! The counters of a node, and the page that Prometheus reads.
//!
//! Every label has a small set of values, the ids of the members at most: no tag, no address and no
//! path ever becomes a label, so the page stays a few kilobytes whatever clients send. Counting is a
//! relaxed add; the counters that every id touches are striped.

mod connections;
mod doors;
mod exposition;
mod labels;
mod latency;
mod machine;
mod readings;
mod registration;
mod rounds;
mod rows;
mod striped;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use exposition::Exposition;
pub(crate) use labels::{BackupOutcome, LeaderMessage, MODES, Protocol, Reloaded};
pub use labels::{GrabOutcome, Mode};
pub(crate) use latency::Burst;
pub(crate) use machine::{DiskReadings, LOG_LINES_DROPPED, ProcessReadings};
pub(crate) use readings::{
    ClusterReadings, PoolReadings, Readings, SequenceReadings, SnowflakeReadings, TagReadings,
};

use mintleaf_core::state::LEVEL_MAX;
use mintleaf_core::version::VERSION;

use crate::version::COMMIT;
use doors::{ConnectionGauges, DoorMetrics};
use latency::RequestTimes;
use readings::DeprecatedReadings;
use registration::{Labels, LevelGauge, by_label, gauge, metric};
use rounds::RoundMetrics;
use striped::Striped;

/// What the names of all metrics begin with, except those of the process.
const PREFIX: &str = "mintleaf";

/// A counter that every id touches.
type HotCounter = Counter<u64, Striped>;

/// The counters of one node.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    ids: [HotCounter; MODES - 1],
    requests: [HotCounter; MODES],
    commands: [HotCounter; MODES],
    errors: Family<Labels<2>, Counter>,
    /// The sum of `errors`.
    all_errors: Counter,
    grabs: [Counter; 3],
    grab_seconds: Histogram,
    wait_seconds: Histogram,
    connections: [ConnectionGauges; 2],
    unread_answers: Gauge,
    answers_dropped: Counter,
    backups: [Counter; 2],
    last_backup: LevelGauge,
    times: RequestTimes,
    doors: DoorMetrics,
    headroom: Gauge<f64, AtomicU64>,
    rounds: RoundMetrics,
    /// The last look at the machine.
    machine: Mutex<(ProcessReadings, DiskReadings)>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Counters at zero, each registered under its name.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let r = &mut registry;
        build_info(r);
        metric(
            r,
            "log_lines_dropped",
            "Lines of the log that were dropped, because nothing read it",
            LOG_LINES_DROPPED.clone(),
        );
        let headroom = gauge(
            r,
            "tag_headroom_ratio",
            "Share of its ids that is left of the tag that is nearest to its end, 0 to 1",
        );
        // Until the first look, no tag counts as near its end.
        headroom.set(1.0);
        // No id goes out under the last mode, `admin`.
        let [id_modes @ .., _] = Mode::LABELS;
        Self {
            ids: by_label(r, "ids", "Ids handed out", "mode", id_modes),
            requests: by_label(r, "http_requests", "Requests answered", "mode", Mode::LABELS),
            commands: by_label(r, "resp_commands", "Redis commands answered", "mode", Mode::LABELS),
            errors: metric(r, "errors", "Requests that failed", Family::default()),
            all_errors: Counter::default(),
            grabs: by_label(r, "grabs", "Grabs by how they ended", "outcome", GrabOutcome::LABELS),
            grab_seconds: metric(
                r,
                "grab_seconds",
                "Time from proposing a grab to its answer",
                Histogram::new(LATENCY_BUCKETS),
            ),
            wait_seconds: metric(
                r,
                "wait_seconds",
                "Time that callers waited because no segment was ready",
                Histogram::new(LATENCY_BUCKETS),
            ),
            connections: Protocol::LABELS.map(|protocol| ConnectionGauges::new(r, protocol)),
            unread_answers: gauge(
                r,
                "unread_answer_bytes",
                "Long answers, and full buffers, that clients have not read yet",
            ),
            answers_dropped: metric(
                r,
                "unread_answers_dropped",
                "Connections ended because unread answers took too much memory",
                Counter::default(),
            ),
            backups: by_label(
                r,
                "backups",
                "Backups that were taken from this node, by how they ended",
                "outcome",
                BackupOutcome::LABELS,
            ),
            last_backup: gauge(
                r,
                "backup_last_timestamp_seconds",
                "When a backup was last taken from this node, in Unix seconds; 0 if it remembers none",
            ),
            times: RequestTimes::new(r),
            doors: DoorMetrics::new(r),
            headroom,
            rounds: RoundMetrics::new(r),
            machine: Mutex::default(),
            registry,
        }
    }

    /// Counts `count` ids that went to a caller.
    #[inline]
    pub fn ids_handed_out(&self, mode: Mode, count: u64) {
        if let Some(ids) = self.ids.get(mode as usize) {
            ids.inc_by(count);
        }
    }

    /// Counts a grab and the seconds it took.
    pub fn grab_finished(&self, outcome: GrabOutcome, seconds: f64) {
        self.grabs[outcome as usize].inc();
        self.grab_seconds.observe(seconds);
    }

    /// Counts a round that a quorum confirmed for this many requests, and the seconds it took.
    pub(crate) fn round_confirmed(&self, requests: usize, seconds: f64) {
        self.rounds.confirmed.inc();
        self.rounds.requests.inc_by(requests as u64);
        self.rounds.seconds.observe(seconds);
    }

    /// Counts a round that was not confirmed.
    pub(crate) fn round_failed(&self) {
        self.rounds.failed.inc();
    }

    /// Counts a message that carried requests to the leader.
    pub(crate) fn leader_asked(&self, outcome: LeaderMessage) {
        self.rounds.messages[outcome as usize].inc();
    }

    /// Records that a caller waited this many seconds for a segment, with or without success.
    pub fn waited(&self, seconds: f64) {
        self.wait_seconds.observe(seconds);
    }

    /// Records how long a request took that was not answered from what is held.
    pub(crate) fn request_took(&self, protocol: Protocol, mode: Mode, took: Duration) {
        self.times.requests[protocol as usize][mode as usize].observe(took.as_secs_f64());
    }

    /// Records that the answers to a burst of requests are sent.
    pub(crate) fn burst_answered(&self, protocol: Protocol, burst: &Burst) {
        self.times.bursts[protocol as usize].observe(burst.0.elapsed().as_secs_f64());
    }

    /// Counts a backup.
    pub(crate) fn backup_ended(&self, outcome: BackupOutcome) {
        self.backups[outcome as usize].inc();
    }

    /// Records when the last complete backup was taken, in Unix seconds.
    pub(crate) fn backup_was_taken(&self, at_s: u64) {
        self.last_backup.set(at_s);
    }

    /// Records what the process takes of its machine, and the data of its disk.
    pub(crate) fn machine(&self, process: &ProcessReadings, disk: &DiskReadings) {
        *self.machine.lock() = (*process, *disk);
    }

    /// Records how much is left of the tag that is nearest to its end, as a share of all of its ids.
    pub(crate) fn lowest_headroom(&self, ratio: f64) {
        self.headroom.set(ratio);
    }

    /// Records when this node's certificate towards other nodes expires.
    pub(crate) fn peer_certificate_expires(&self, at_s: u64) {
        self.doors.peer_certificate_expiry.set(at_s);
    }

    /// Records when this node's certificate for clients expires.
    pub(crate) fn client_certificate_expires(&self, at_s: u64) {
        self.doors.client_certificate_expiry.set(at_s);
    }

    /// Counts a connection whose TLS handshake failed.
    pub(crate) fn handshake_failed(&self, protocol: Protocol) {
        self.doors.handshakes_failed[protocol as usize].inc();
    }

    /// Records whether files that this node reads while it runs cannot be used.
    pub(crate) fn reload_failed(&self, what: Reloaded, failed: bool) {
        self.doors.reloads_failed[what as usize].set(u64::from(failed));
    }

    /// What of the files that this node reads while it runs cannot be used.
    pub(crate) fn failed_reloads(&self) -> Vec<&'static str> {
        let reloads = Reloaded::LABELS.into_iter().zip(&self.doors.reloads_failed);
        reloads.filter(|(_, failed)| failed.get() > 0).map(|(what, _)| what).collect()
    }

    /// Counts a request that was answered, well or not.
    #[inline]
    pub(crate) fn request_answered(&self, mode: Mode) {
        self.requests[mode as usize].inc();
    }

    /// Counts requests that were answered, by mode.
    #[inline]
    pub(crate) fn requests_answered(&self, counts: [u64; MODES]) {
        add(&self.requests, counts);
    }

    /// Counts a request that failed. `code` comes from the fixed set of HTTP's problems, whatever the
    /// protocol.
    pub(crate) fn request_failed(&self, mode: Mode, code: &'static str) {
        self.errors.get_or_create(&[("mode", mode.label()), ("code", code)]).inc();
        self.all_errors.inc();
    }

    /// How many ids were handed out, and how many requests failed.
    pub(crate) fn ids_and_errors(&self) -> (u64, u64) {
        (self.ids.iter().map(|ids| ids.get()).sum(), self.all_errors.get())
    }

    /// Counts an attempt with a token that does not hold.
    pub(crate) fn auth_failed(&self, protocol: Protocol) {
        self.doors.auth_failures[protocol as usize].inc();
    }

    /// Counts commands of the Redis protocol that were answered, well or not, by mode.
    #[inline]
    pub(crate) fn commands_answered(&self, counts: [u64; MODES]) {
        add(&self.commands, counts);
    }

    /// The page, with the caller's readings of this moment.
    pub(crate) fn render(&self, now: Readings, exposition: Exposition) -> String {
        let (process, disk) = *self.machine.lock();
        let deprecated = DeprecatedReadings {
            clock_offset_ms: now.snowflake.clock_offset_ms,
            clock_offsets_ms: now.cluster.clock_offsets_ms.clone(),
        };
        let mut page = String::with_capacity(32 << 10);
        let mut show = |registry: &Registry| {
            // Writing to a `String` cannot fail.
            let _ = text::encode_registry(&mut page, registry);
        };
        show(&shown(Registry::default(), process));
        if exposition == Exposition::OpenMetrics {
            show(&shown(Registry::with_prefix(PREFIX), deprecated));
        }
        show(&self.registry);
        show(&shown(shown(Registry::with_prefix(PREFIX), now), disk));
        exposition.of(page)
    }
}

/// The registry, which shows these readings too.
fn shown(mut registry: Registry, readings: impl Collector) -> Registry {
    registry.register_collector(Box::new(readings));
    registry
}

/// Shows what this build is.
fn build_info(r: &mut Registry) {
    let info = Family::<[(&'static str, String); 3], Gauge>::default();
    let values = [VERSION.to_owned(), COMMIT.to_owned(), LEVEL_MAX.to_string()];
    let [version, commit, level] = values;
    info.get_or_create(&[("version", version), ("commit", commit), ("level", level)]).set(1);
    metric(r, "build_info", "1, with the build's version, commit, and highest level", info);
    let level: LevelGauge =
        gauge(r, "level_supported", "The highest level that this build supports");
    level.set(u64::from(LEVEL_MAX));
}

/// Bounds of the buckets of latencies, in seconds: from a grab on a fast disk to the longest wait of a
/// caller.
const LATENCY_BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Adds to the counter of each mode what was counted for it.
#[inline]
fn add(counters: &[HotCounter; MODES], counts: [u64; MODES]) {
    for (counter, count) in counters.iter().zip(counts).filter(|(_, count)| *count > 0) {
        counter.inc_by(count);
    }
}

#[cfg(test)]
mod tests {
    use mintleaf_raft::SyncReadings;

    use super::striped::STRIPES;
    use super::*;

    fn readings() -> Readings {
        let cluster = ClusterReadings {
            leader_known: true,
            is_leader: true,
            term: 7,
            level: 1,
            leader_changes: 3,
            lags: vec![(2, 40)],
            ..Default::default()
        };
        Readings { cluster, ..Default::default() }
    }

    #[test]
    fn counts_from_many_threads_add_up() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 3 {
                scope.spawn(|| (0..1000).for_each(|_| metrics.ids_handed_out(Mode::Segment, 2)));
            }
        });
        let page = metrics.render(readings(), Exposition::OpenMetrics);
        let total = format!("mintleaf_ids_total{{mode=\"segment\"}} {}\n", (STRIPES + 3) * 2000);
        assert!(page.contains(&total), "{page}");
    }

    #[test]
    fn page_shows_gauges_as_they_are_now() {
        let metrics = Metrics::new();
        metrics.request_failed(Mode::Segment, "unknown_tag");
        let snowflake =
            SnowflakeReadings { remaining_seconds: 59.5, clock_skewed: true, ..Default::default() };
        let syncs = Some(SyncReadings { buckets: vec![(0.1, 2), (f64::INFINITY, 1)], sum_s: 4.5 });
        metrics.lowest_headroom(0.25);
        let now = Readings { snowflake, syncs, ..readings() };
        let page = metrics.render(now.clone(), Exposition::OpenMetrics);
        assert!(page.contains("mintleaf_raft_leader_changes_total 3\n"), "{page}");
        assert!(page.contains("mintleaf_peer_lag_entries{node=\"2\"} 40\n"), "{page}");
        assert!(page.contains("mintleaf_log_sync_seconds_bucket{le=\"+Inf\"} 3\n"), "{page}");
        assert!(page.contains("mintleaf_tag_headroom_ratio 0.25\n"), "{page}");
        assert!(
            !page.contains("mintleaf_ids_total{mode=\"admin\"}"),
            "nothing is handed out there"
        );
        assert!(page.contains("mintleaf_raft_term 7\n"), "{page}");
        assert!(page.contains("mintleaf_raft_is_leader 1\n"));
        assert!(page.contains("mintleaf_cluster_level 1\n"));
        assert!(page.contains("mintleaf_ready 0\n"));
        assert!(page.contains("mintleaf_errors_total{mode=\"segment\",code=\"unknown_tag\"} 1\n"));
        assert!(page.contains("mintleaf_grabs_total{outcome=\"failed\"} 0\n"));
        assert!(page.contains("mintleaf_snowflake_window_seconds 59.5\n"));
        assert!(page.contains("mintleaf_snowflake_alarm{cause=\"clock_skewed\"} 1\n"));
        assert!(page.contains("mintleaf_snowflake_alarm{cause=\"clock_behind\"} 0\n"));
        assert!(page.ends_with("# EOF\n"));
        let again = metrics.render(now, Exposition::Text);
        assert!(again.contains("# TYPE mintleaf_raft_leader_changes_total counter\n"), "{again}");
    }
}
