//! The counters of a node, and the page that Prometheus reads.
//!
//! Every label has a small set of values, the ids of the members at most: no tag, no address and no
//! path ever becomes a label, so the page stays a few kilobytes whatever clients send. Counting is a
//! relaxed add; the counters that every id touches are striped.

mod doors;
mod gauges;
mod labels;
mod registration;
mod sequences;
mod striped;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use gauges::{ClusterReadings, SnowflakeReadings};
pub use labels::{GrabOutcome, Mode};
pub(crate) use labels::{MODES, Protocol, Reloaded};
pub(crate) use sequences::SequenceReadings;

use doors::DoorMetrics;
use gauges::{ClusterGauges, ConnectionGauges, LevelGauge, SnowflakeGauges};
use registration::{Labels, by_label, gauge, metric};
use sequences::SequenceMetrics;
use striped::Striped;

/// Content type of the page.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A counter that every id touches.
type HotCounter = Counter<u64, Striped>;

/// The counters of one node.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    ids: [HotCounter; MODES],
    requests: [HotCounter; MODES],
    commands: [HotCounter; MODES],
    errors: Family<Labels<2>, Counter>,
    grabs: [Counter; 3],
    grab_seconds: Histogram,
    wait_seconds: Histogram,
    tags_loaded: Gauge,
    http_connections: ConnectionGauges,
    resp_connections: ConnectionGauges,
    unread_answers: Gauge,
    answers_dropped: Counter,
    ready: LevelGauge,
    doors: DoorMetrics,
    cluster: ClusterGauges,
    snowflake: SnowflakeGauges,
    sequences: SequenceMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Counters at zero, each registered under its name.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("mintleaf");
        let r = &mut registry;
        let modes = Mode::ALL.map(Mode::label);
        let outcomes = GrabOutcome::ALL.map(GrabOutcome::label);
        Self {
            ids: by_label(r, "ids", "Ids handed out", "mode", modes),
            requests: by_label(r, "http_requests", "Requests answered", "mode", modes),
            commands: by_label(r, "resp_commands", "Redis commands answered", "mode", modes),
            errors: metric(r, "errors", "Requests that failed", Family::default()),
            grabs: by_label(r, "grabs", "Grabs by how they ended", "outcome", outcomes),
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
            tags_loaded: gauge(r, "tags_loaded", "Tags with a segment on this node"),
            http_connections: ConnectionGauges::new(r, Protocol::Http),
            resp_connections: ConnectionGauges::new(r, Protocol::Resp),
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
            ready: gauge(r, "ready", "1 while this node can hand out ids"),
            doors: DoorMetrics::new(r),
            cluster: ClusterGauges::new(r),
            snowflake: SnowflakeGauges::new(r),
            sequences: SequenceMetrics::new(r),
            registry,
        }
    }

    /// Counts `count` ids that went to a caller.
    #[inline]
    pub fn ids_handed_out(&self, mode: Mode, count: u64) {
        self.ids[mode as usize].inc_by(count);
    }

    /// Counts a grab and the seconds it took.
    pub fn grab_finished(&self, outcome: GrabOutcome, seconds: f64) {
        self.grabs[outcome as usize].inc();
        self.grab_seconds.observe(seconds);
    }

    /// Records that a caller waited this many seconds for a segment, in vain or not.
    pub fn waited(&self, seconds: f64) {
        self.wait_seconds.observe(seconds);
    }

    /// Records when this node's certificate towards other nodes expires.
    pub(crate) fn peer_certificate_expires(&self, at_s: u64) {
        self.doors.peer_certificate_expiry.set(at_s);
    }

    /// Records when this node's certificate for clients expires.
    pub(crate) fn client_certificate_expires(&self, at_s: u64) {
        self.doors.client_certificate_expiry.set(at_s);
    }

    /// Counts a connection on which TLS was not agreed on.
    pub(crate) fn handshake_failed(&self, protocol: Protocol) {
        self.doors.handshakes_failed[protocol as usize].inc();
    }

    /// Records whether files that this node reads while it runs cannot be used.
    pub(crate) fn reload_failed(&self, what: Reloaded, failed: bool) {
        self.doors.reloads_failed[what as usize].set(u64::from(failed));
    }

    /// Shows what the counters of sequences are now.
    pub(crate) fn sequences_are(&self, readings: &SequenceReadings) {
        self.sequences.set(readings);
    }

    /// Counts a segment buffer that came into being.
    pub fn tag_loaded(&self) {
        self.tags_loaded.inc();
    }

    /// Counts a segment buffer that was dropped.
    pub fn tag_unloaded(&self) {
        self.tags_loaded.dec();
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

    /// Counts bytes of answers that are held until a client reads them.
    pub(crate) fn answers_unread(&self, bytes: usize) {
        self.unread_answers.inc_by(bytes as i64);
    }

    /// Counts bytes of answers that are held no longer.
    pub(crate) fn answers_read(&self, bytes: usize) {
        self.unread_answers.dec_by(bytes as i64);
    }

    /// Counts a connection that ended because the memory for unread answers was used up.
    pub(crate) fn answers_dropped(&self) {
        self.answers_dropped.inc();
    }

    pub(crate) fn connection_opened(&self, protocol: Protocol) {
        self.connections(protocol).open.inc();
    }

    pub(crate) fn connection_closed(&self, protocol: Protocol) {
        self.connections(protocol).open.dec();
    }

    /// How many connections of clients are open.
    pub(crate) fn connections_open(&self) -> u64 {
        let open = |gauges: &ConnectionGauges| u64::try_from(gauges.open.get()).unwrap_or(0);
        open(&self.http_connections) + open(&self.resp_connections)
    }

    pub(crate) fn connection_refused(&self, protocol: Protocol) {
        self.connections(protocol).refused.inc();
    }

    pub(crate) fn connection_evicted(&self, protocol: Protocol) {
        self.connections(protocol).evicted.inc();
    }

    pub(crate) fn connection_too_slow(&self, protocol: Protocol) {
        self.connections(protocol).too_slow.inc();
    }

    fn connections(&self, protocol: Protocol) -> &ConnectionGauges {
        match protocol {
            Protocol::Http => &self.http_connections,
            Protocol::Resp => &self.resp_connections,
        }
    }

    /// The page, in the OpenMetrics text format. The gauges show `cluster`, `ready` and `snowflake`,
    /// which are the caller's readings of this moment.
    pub(crate) fn render(
        &self,
        cluster: &ClusterReadings,
        ready: bool,
        snowflake: &SnowflakeReadings,
    ) -> String {
        self.ready.set(u64::from(ready));
        self.cluster.set(cluster);
        self.snowflake.set(snowflake, cluster);
        let mut page = String::with_capacity(8192);
        // Writing to a `String` cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
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
    use super::striped::STRIPES;
    use super::*;

    fn cluster() -> ClusterReadings {
        let (leader_known, is_leader) = (true, true);
        ClusterReadings { leader_known, is_leader, term: 7, level: 1, ..Default::default() }
    }

    #[test]
    fn counts_from_many_threads_add_up() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 3 {
                scope.spawn(|| (0..1000).for_each(|_| metrics.ids_handed_out(Mode::Segment, 2)));
            }
        });
        let page = metrics.render(&cluster(), true, &SnowflakeReadings::default());
        let total = format!("mintleaf_ids_total{{mode=\"segment\"}} {}\n", (STRIPES + 3) * 2000);
        assert!(page.contains(&total), "{page}");
    }

    #[test]
    fn page_shows_gauges_as_they_are_now() {
        let metrics = Metrics::new();
        metrics.request_failed(Mode::Segment, "unknown_tag");
        let snowflake =
            SnowflakeReadings { remaining_seconds: 59.5, clock_skewed: true, ..Default::default() };
        let page = metrics.render(&cluster(), false, &snowflake);
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
    }
}
