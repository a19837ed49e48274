//! What a node counts, and the page that Prometheus reads.
//!
//! Every label has a small set of values, the ids of the members at most: no tag, no address and no
//! path ever becomes a label, so the page stays a few kilobytes whatever clients send. Counting is a relaxed add;
//! the counters that every id touches are striped, so that two threads do not fight over one
//! cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::{Atomic, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::service::ClusterView;

/// Content type of the page.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a request asked for. The `mode` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ids of a tag.
    Segment,
    /// Ids made of time, worker id and sequence.
    Snowflake,
    /// Everything else: tags, membership, pages, probes.
    Admin,
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Segment, Mode::Snowflake, Mode::Admin];

    fn label(self) -> &'static str {
        match self {
            Mode::Segment => "segment",
            Mode::Snowflake => "snowflake",
            Mode::Admin => "admin",
        }
    }
}

/// What clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    /// Redis'.
    Resp,
}

impl Protocol {
    /// In names of threads and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Resp => "resp",
        }
    }
}

/// How a grab ended. The `outcome` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrabOutcome {
    /// Committed, and the segment is held.
    Granted,
    /// Committed, and refused: the tag is unknown or exhausted.
    Rejected,
    /// Not known to be committed: no quorum, a timeout, a lost reply.
    Failed,
}

impl GrabOutcome {
    const ALL: [GrabOutcome; 3] =
        [GrabOutcome::Granted, GrabOutcome::Rejected, GrabOutcome::Failed];

    fn label(self) -> &'static str {
        match self {
            GrabOutcome::Granted => "granted",
            GrabOutcome::Rejected => "rejected",
            GrabOutcome::Failed => "failed",
        }
    }
}

type Labels<const N: usize> = [(&'static str, &'static str); N];
type HotCounter = Counter<u64, Striped>;
type Level = Gauge<u64, AtomicU64>;

/// The counters of one node.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    ids: [HotCounter; 3],
    requests: [HotCounter; 3],
    commands: [HotCounter; 3],
    errors: Family<Labels<2>, Counter>,
    grabs: [Counter; 3],
    grab_seconds: Histogram,
    wait_seconds: Histogram,
    tags_loaded: Gauge,
    http_connections: Connections,
    resp_connections: Connections,
    ready: Level,
    raft: RaftLevels,
    snowflake: SnowflakeGauges,
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
            http_connections: Connections::new(r, Protocol::Http),
            resp_connections: Connections::new(r, Protocol::Resp),
            ready: gauge(r, "ready", "1 while this node can hand out ids"),
            raft: RaftLevels::new(r),
            snowflake: SnowflakeGauges::new(r),
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
    pub(crate) fn requests_answered(&self, counts: [u64; 3]) {
        add(&self.requests, counts);
    }

    /// Counts a request that failed. `code` comes from the fixed set of HTTP's problems, whatever the
    /// protocol.
    pub(crate) fn request_failed(&self, mode: Mode, code: &'static str) {
        self.errors.get_or_create(&[("mode", mode.label()), ("code", code)]).inc();
    }

    /// Counts commands of the Redis protocol that were answered, well or not, by mode.
    #[inline]
    pub(crate) fn commands_answered(&self, counts: [u64; 3]) {
        add(&self.commands, counts);
    }

    pub(crate) fn connection_opened(&self, protocol: Protocol) {
        self.connections(protocol).open.inc();
    }

    pub(crate) fn connection_closed(&self, protocol: Protocol) {
        self.connections(protocol).open.dec();
    }

    pub(crate) fn connection_refused(&self, protocol: Protocol) {
        self.connections(protocol).refused.inc();
    }

    fn connections(&self, protocol: Protocol) -> &Connections {
        match protocol {
            Protocol::Http => &self.http_connections,
            Protocol::Resp => &self.resp_connections,
        }
    }

    /// The page, in the OpenMetrics text format. What is a level rather than a count is taken
    /// from `cluster`, `ready` and `snowflake` at this moment.
    pub(crate) fn render(
        &self,
        cluster: &ClusterView,
        ready: bool,
        snowflake: &SnowflakeLevels,
    ) -> String {
        self.ready.set(u64::from(ready));
        self.raft.set(cluster);
        self.snowflake.set(snowflake, cluster);
        let mut page = String::with_capacity(8192);
        // Writing to a `String` cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

/// The connections of clients that speak one protocol.
#[derive(Debug)]
struct Connections {
    open: Gauge,
    refused: Counter,
}

impl Connections {
    fn new(r: &mut Registry, protocol: Protocol) -> Self {
        let named = |what: &str| format!("{}_connections{what}", protocol.name());
        let refused = "Client connections turned away at the limit";
        Self {
            open: gauge(r, &named(""), "Open client connections"),
            refused: metric(r, &named("_refused"), refused, Counter::default()),
        }
    }
}

/// Seconds: from a grab on a fast disk to the longest a caller may wait.
const LATENCY_BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Raft's levels as this node sees them.
#[derive(Debug)]
struct RaftLevels {
    term: Level,
    leader_known: Level,
    is_leader: Level,
    level: Level,
    last_log_index: Level,
    last_applied_index: Level,
    voters: Level,
}

impl RaftLevels {
    fn new(registry: &mut Registry) -> Self {
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
            voters: gauge(registry, "raft_voters", "Nodes that vote"),
        }
    }

    fn set(&self, cluster: &ClusterView) {
        self.term.set(cluster.term);
        self.leader_known.set(u64::from(cluster.leader_id.is_some()));
        self.is_leader.set(u64::from(cluster.leader_id == Some(cluster.node_id)));
        self.level.set(u64::from(cluster.level));
        let own = cluster.nodes.iter().find(|node| node.id == cluster.node_id);
        self.last_log_index.set(own.and_then(|node| node.last_log_index).unwrap_or(0));
        self.last_applied_index.set(own.and_then(|node| node.last_applied_index).unwrap_or(0));
        let voters = cluster.nodes.iter().filter(|node| node.role != "learner").count();
        self.voters.set(voters as u64);
    }
}

/// How the snowflake ids of a node fare at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SnowflakeLevels {
    /// Worker ids held.
    pub(crate) worker_ids: u64,
    /// How long ids go on without another window.
    pub(crate) remaining_seconds: f64,
    /// How far this node's clock is ahead of the median of the voters'.
    pub(crate) clock_offset_ms: i64,
    /// No worker id is to be had.
    pub(crate) pool_exhausted: bool,
    /// This node's clock is too far from the median.
    pub(crate) clock_skewed: bool,
    /// This node's clock went back further than the window could ride out.
    pub(crate) clock_behind: bool,
    /// The layout's time bits end within a year.
    pub(crate) lifetime_ends: bool,
}

/// The gauges of [`SnowflakeLevels`], and the members' clocks by node: few, and named by operators.
#[derive(Debug)]
struct SnowflakeGauges {
    worker_ids: Level,
    remaining: Gauge<f64, AtomicU64>,
    clock_offset: Gauge,
    alarms: Family<Labels<1>, Gauge>,
    peer_clocks: Family<[(&'static str, String); 1], Gauge>,
}

impl SnowflakeGauges {
    fn new(r: &mut Registry) -> Self {
        Self {
            worker_ids: gauge(r, "snowflake_worker_ids", "Worker ids held"),
            remaining: gauge(
                r,
                "snowflake_window_seconds",
                "How long snowflake ids go on without another time window",
            ),
            clock_offset: gauge(
                r,
                "clock_offset_ms",
                "How far this node's clock is ahead of the voters' median, in milliseconds",
            ),
            alarms: metric(
                r,
                "snowflake_alarm",
                "1 while an operator should look at this cause",
                Family::default(),
            ),
            peer_clocks: metric(
                r,
                "peer_clock_offset_ms",
                "How far a member's clock is ahead of this node's, in milliseconds",
                Family::default(),
            ),
        }
    }

    fn set(&self, levels: &SnowflakeLevels, cluster: &ClusterView) {
        self.worker_ids.set(levels.worker_ids);
        self.remaining.set(levels.remaining_seconds);
        self.clock_offset.set(levels.clock_offset_ms);
        let alarms = [
            ("pool_exhausted", levels.pool_exhausted),
            ("clock_skewed", levels.clock_skewed),
            ("clock_behind", levels.clock_behind),
            ("lifetime_ends", levels.lifetime_ends),
        ];
        for (cause, raised) in alarms {
            self.alarms.get_or_create(&[("cause", cause)]).set(i64::from(raised));
        }
        self.peer_clocks.clear();
        for node in &cluster.nodes {
            if let Some(offset_ms) = node.clock_offset_ms {
                self.peer_clocks.get_or_create(&[("node", node.id.to_string())]).set(offset_ms);
            }
        }
    }
}

/// Adds what was counted by mode.
#[inline]
fn add(counters: &[HotCounter; 3], counts: [u64; 3]) {
    for (counter, count) in counters.iter().zip(counts).filter(|(_, count)| *count > 0) {
        counter.inc_by(count);
    }
}

/// Registers one counter for each value of a label, all of them shown from the start.
fn by_label<A, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [Counter<u64, A>; N]
where
    A: Atomic<u64> + Default + std::fmt::Debug + Send + Sync + 'static,
{
    let family = Family::<Labels<1>, Counter<u64, A>>::default();
    let counters = values.map(|value| family.get_or_create(&[(label, value)]).clone());
    metric(registry, name, help, family);
    counters
}

fn gauge<N, A>(registry: &mut Registry, name: &str, help: &str) -> Gauge<N, A>
where
    Gauge<N, A>: Metric + Clone + Default,
{
    metric(registry, name, help, Gauge::default())
}

/// Registers a metric and hands it back.
fn metric<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

const STRIPES: usize = 16;

/// A sum spread over cache lines: each thread adds to its own, a reader adds them up.
#[derive(Debug, Default)]
struct Striped([Stripe; STRIPES]);

/// Two cache lines, because the processor fetches them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl Striped {
    fn own(&self) -> &AtomicU64 {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! { static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Relaxed) % STRIPES) }
        &self.0[OWN.get()].0
    }
}

impl Atomic<u64> for Striped {
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    /// Answers what this thread's stripe held before; nobody here looks at it.
    fn inc_by(&self, count: u64) -> u64 {
        self.own().fetch_add(count, Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> ClusterView {
        ClusterView {
            cluster_id: None,
            node_id: 1,
            leader_id: Some(1),
            term: 7,
            level: 1,
            #[cfg(feature = "next-level")]
            note: String::new(),
            nodes: Vec::new(),
        }
    }

    #[test]
    fn counts_from_many_threads_add_up() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 3 {
                scope.spawn(|| (0..1000).for_each(|_| metrics.ids_handed_out(Mode::Segment, 2)));
            }
        });
        let page = metrics.render(&cluster(), true, &SnowflakeLevels::default());
        let total = format!("mintleaf_ids_total{{mode=\"segment\"}} {}\n", (STRIPES + 3) * 2000);
        assert!(page.contains(&total), "{page}");
    }

    #[test]
    fn page_shows_levels_as_they_are_now() {
        let metrics = Metrics::new();
        metrics.request_failed(Mode::Segment, "unknown_tag");
        let levels =
            SnowflakeLevels { remaining_seconds: 59.5, clock_skewed: true, ..Default::default() };
        let page = metrics.render(&cluster(), false, &levels);
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
