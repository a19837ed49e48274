//! One run: a cluster, its clients, faults, and then the healing and the judgement.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::snowflake::{Format, Layout, SnowflakeSettings, WorkerPool};
use tokio::task::JoinHandle;

use crate::bootstrap::Bootstrap;
use crate::climate::{Climate, Sky};
use crate::disk::Disk;
use crate::machine::{Machine, Site};
use crate::net::{Net, address};
use crate::oracle::Oracle;
use crate::ordeal::Ordeal;
use crate::random::Random;
use crate::sequel::Sequel;
use crate::story::Story;
use crate::trace::Trace;
use crate::turn::Turn;

/// How far the clock of a node may be off for the node to be given windows.
pub(crate) const SKEW_MS_MAX: u64 = 2_000;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Simulated seconds of faults.
    pub(crate) seconds: u64,
    /// Number of voters; 0 leaves it to the seed.
    pub(crate) nodes: u64,
    /// The story that is played instead of faults at random.
    pub(crate) story: Option<Story>,
    /// Whether the climate is bad; `None` leaves it to the seed.
    pub(crate) bad_climate: Option<bool>,
    /// Whether the trace is printed.
    pub(crate) traced: bool,
}

impl Plan {
    /// Whether programs ask registers and lease worker ids: in a third of all seeds, two in a row. All others mean what
    /// they meant without programs, and so do stories.
    pub(crate) fn has_programs(&self) -> bool {
        self.story.is_none() && self.seed.wrapping_add(1) % 6 < 2
    }
}

/// The outcome of a run.
pub(crate) struct Verdict {
    pub(crate) trace: Arc<Trace>,
    pub(crate) ids: u64,
    pub(crate) commits: u64,
    /// How many grants of windows and leases were held to their specification.
    pub(crate) steps: u64,
    /// How many messages were held to the specification of Raft.
    pub(crate) messages: u64,
    /// How many of these could not be judged whole.
    pub(crate) unjudged: u64,
    pub(crate) simulated_ms: u64,
    pub(crate) climate: Climate,
}

/// Carries out a run, with the nodes' directories under `dir`.
pub(crate) async fn run(plan: Plan, dir: &Path) -> Verdict {
    let trace = Arc::new(Trace::new(plan.traced));
    let random = Random::new(plan.seed, "scenario");
    let nodes = if plan.nodes > 0 { plan.nodes } else { random.pick(&[3, 3, 3, 5]) };
    trace.note(format_args!("seed {} with {nodes} nodes", plan.seed));
    let forced = plan.bad_climate.or(plan.story.map(|_| false));
    let climate = Climate::of(plan.seed, nodes, forced);
    trace.note(format_args!("climate: {climate}"));
    // If worker ids are few, they pass from node to node. Windows would end while a slow disk keeps a node from
    // renewing them.
    let few = random.chance(40) && climate.is_mild();
    let few_layout = if nodes == 3 { "41+2+12" } else { "41+3+12" };
    let layout = if few { few_layout.parse().expect("a layout") } else { Layout::LEAF };
    let window_s = if few { random.pick(&[1, 3]) } else { random.pick(&[3, 10, 60]) };
    let window_s = if climate.is_mild() { window_s } else { 60 };
    let snowflake = SnowflakeSettings {
        format: Format::new(layout, Format::LEAF.epoch_ms()).expect("a format"),
        pool: WorkerPool::all(layout),
        window: Duration::from_secs(window_s),
        max_clock_skew: Duration::from_millis(SKEW_MS_MAX),
        ..SnowflakeSettings::leaf()
    };
    let oracle = Arc::new(Oracle::new(Arc::clone(&trace), snowflake.format));
    let proves = Random::new(plan.seed, "proof").chance(50);
    trace.note(format_args!("nodes prove themselves: {proves}"));
    let turn = Turn::of(plan.seed, plan.seconds);
    trace.note(format_args!("{turn:?}"));
    let sky = Arc::new(Sky::new(climate, plan.seed));
    let random_net = Random::new(plan.seed, "net");
    let net = Arc::new(Net::new(Arc::clone(&trace), random_net, proves, Arc::clone(&sky)));
    let site = Arc::new(Site {
        net: Arc::clone(&net),
        sky,
        trace: Arc::clone(&trace),
        oracle: Arc::clone(&oracle),
        snowflake,
        turn,
        peers: (1..=nodes).map(|id| (id, address(id))).collect(),
        random: Random::new(plan.seed, "site"),
        disk_latency: None,
    });
    let machine = |id: u64| {
        let drift = random.within(0..201) as i64 - 100;
        let disk = Disk::new(Random::new(plan.seed, &format!("disk {id}")));
        let dir = dir.join(format!("node-{id}"));
        Arc::new(Machine::new(id, Arc::clone(&site), dir, drift, disk))
    };
    let machines: Vec<_> = (1..=nodes).map(machine).collect();
    let bootstrap = Bootstrap::new(Arc::clone(&site), machines, plan.seed);
    let machines = match climate.is_mild() {
        true => bootstrap.carry_out().await,
        false => bootstrap.without_trouble().await,
    };
    let first = Ordeal::new(site, machines, plan, "", !few);
    let sequel = Sequel::new(plan, climate, &first, dir);
    let core = first.slow_core();
    first.carry_out().await;
    core.inspect(JoinHandle::abort);
    sequel.carry_out(first).await.end();
    let [ids, commits, steps] = oracle.counts();
    let (messages, unjudged) = net.overheard();
    if ids == 0 {
        trace.violation("no client was ever given an id");
    }
    let simulated_ms = trace.now_ms();
    Verdict { ids, commits, steps, messages, unjudged, simulated_ms, climate, trace }
}
