//! One run: a cluster, its clients, faults, and then the healing and the judgement.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::snowflake::{Format, Layout, SnowflakeSettings, WorkerPool};
use tokio::time::{Instant, sleep, timeout};

use crate::bootstrap::Bootstrap;
use crate::clients::Clients;
use crate::disk::Disk;
use crate::faults::Faults;

use crate::machine::{Machine, Site};
use crate::net::{Net, address};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::story::{Stage, Story};
use crate::trace::Trace;

/// Longest time from the healing until every node serves again.
const HEALING_MAX: Duration = Duration::from_secs(10);
/// Longest time until a new cluster serves, its first election included.
const FORMING_MAX: Duration = Duration::from_secs(10);

/// How far the clock of a node may be off that is given windows.
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
    /// Whether the trace is printed.
    pub(crate) traced: bool,
}

/// The outcome of a run.
pub(crate) struct Verdict {
    pub(crate) trace: Arc<Trace>,
    pub(crate) ids: u64,
    pub(crate) commits: u64,
    pub(crate) simulated_ms: u64,
}

/// Carries out a run, with the nodes' directories under `dir`.
pub(crate) async fn run(plan: Plan, dir: &Path) -> Verdict {
    let trace = Arc::new(Trace::new(plan.traced));
    let random = Random::new(plan.seed, "scenario");
    let nodes = if plan.nodes > 0 { plan.nodes } else { random.pick(&[3, 3, 3, 5]) };
    trace.note(format_args!("seed {} with {nodes} nodes", plan.seed));
    // Few worker ids pass from node to node.
    let few = random.chance(40);
    let few_layout = if nodes == 3 { "41+2+12" } else { "41+3+12" };
    let layout = if few { few_layout.parse().expect("a layout") } else { Layout::LEAF };
    let window_s = if few { random.pick(&[1, 3]) } else { random.pick(&[3, 10, 60]) };
    let snowflake = SnowflakeSettings {
        format: Format::new(layout, 1_288_834_974_657).expect("a format"),
        pool: WorkerPool::all(layout),
        window: Duration::from_secs(window_s),
        max_clock_skew: Duration::from_millis(SKEW_MS_MAX),
        worker_ids: Vec::new(),
    };
    let oracle = Arc::new(Oracle::new(Arc::clone(&trace), snowflake.format));
    let proves = Random::new(plan.seed, "proof").chance(50);
    trace.note(format_args!("nodes prove themselves: {proves}"));
    let site = Arc::new(Site {
        net: Arc::new(Net::new(Arc::clone(&trace), Random::new(plan.seed, "net"), proves)),
        trace: Arc::clone(&trace),
        oracle: Arc::clone(&oracle),
        snowflake,
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
    let machines = bootstrap.carry_out().await;
    let random = Random::new(plan.seed, "run");
    let run = Run { site, machines, random, plan, snowflakes_expected: !few };
    run.carry_out().await;
    let (ids, commits) = oracle.counts();
    if ids == 0 {
        trace.violation("no client was ever given an id");
    }
    Verdict { ids, commits, simulated_ms: trace.now_ms(), trace }
}

struct Run {
    site: Arc<Site>,
    machines: Vec<Arc<Machine>>,
    random: Random,
    plan: Plan,
    /// Whether only faults keep a node from snowflake ids. Few worker ids may all be taken.
    snowflakes_expected: bool,
}

impl Run {
    async fn carry_out(&self) {
        let clients = Clients::new(
            self.machines.clone(),
            Arc::clone(&self.site.oracle),
            Arc::clone(&self.site.trace),
            Random::new(self.plan.seed, "clients"),
        );
        self.serves_within(FORMING_MAX, &clients).await;
        match self.plan.story {
            Some(story) => {
                let (site, machines, clients) = (&self.site, &self.machines[..], &clients);
                Stage { site, machines, clients }.play(story).await;
                self.serves_within(HEALING_MAX, clients).await;
                self.judge_the_end(clients).await;
            }
            None => self.suffer(&clients).await,
        }
        for machine in &self.machines {
            machine.crash();
        }
    }

    /// Injects faults at random, heals them, and judges the end.
    async fn suffer(&self, clients: &Arc<Clients>) {
        let running = clients.start();
        let faults = Faults::new(
            Arc::clone(&self.site),
            self.machines.clone(),
            Random::new(self.plan.seed, "faults"),
        );
        let until = Instant::now() + Duration::from_secs(self.plan.seconds);
        faults.inject(until).await;
        faults.heal().await;
        self.serves_within(HEALING_MAX, clients).await;
        clients.stop();
        drop(running.join_all().await);
        self.judge_the_end(clients).await;
        faults.restore_an_old_image().await;
        self.serves_within(HEALING_MAX, clients).await;
        faults.damage_a_snapshot().await;
        self.serves_within(HEALING_MAX, clients).await;
        self.judge_the_end(clients).await;
    }

    /// Waits until every node gives ids of both kinds and changes a tag.
    async fn serves_within(&self, limit: Duration, clients: &Clients) {
        let began = Instant::now();
        let all = async {
            for machine in &self.machines {
                while !self.serves(machine, clients).await {
                    sleep(Duration::from_millis(50)).await;
                }
            }
        };
        if timeout(limit, all).await.is_err() {
            let waiting: Vec<String> = self.machines.iter().map(|one| describe(one)).collect();
            let what = format!("not every node serves after {limit:?}: {}", waiting.join("; "));
            self.site.trace.violation(&what);
        }
        let took_ms = began.elapsed().as_millis();
        self.site.trace.note(format_args!("all serve after {took_ms} ms"));
    }

    async fn serves(&self, machine: &Arc<Machine>, clients: &Clients) -> bool {
        let Some(serving) = machine.serving() else { return false };
        let reasons = serving.services.cluster.readiness().reasons;
        if reasons.iter().any(|reason| reason.contains("after a restart of this node")) {
            // It has given ids of a future from which its clock has come back, and asks for a restart.
            self.site.trace.note(format_args!("node {} asks for a restart", machine.node_id));
            machine.crash();
            machine.start();
            return false;
        }
        let tag = format!("healed-{}", self.random.next());
        clients.take(&serving, &tag, 1).await.is_ok()
            && (clients.take_snowflakes(&serving, 1).await.is_ok() || !self.snowflakes_expected)
    }

    /// Checks that every node reads what was acknowledged, and that every watermark is where it was
    /// committed.
    async fn judge_the_end(&self, clients: &Clients) {
        let trace = &self.site.trace;
        for machine in &self.machines {
            let Some(serving) = machine.serving() else { continue };
            // Grabs that are under way may raise a watermark after the read.
            let max_ids = self.site.oracle.max_ids();
            if let Err(error) = clients.check_promises(&serving).await {
                trace.violation(&format!("node {} cannot be read: {error}", machine.node_id));
            }
            for (tag, max_id) in max_ids {
                let row = serving.replica.read(|state| state.tag(&tag));
                if row.as_ref().is_some_and(|row| row.max_id < max_id) {
                    trace.violation(&format!("{row:?} lies below the committed {max_id}"));
                }
            }
        }
    }
}

fn describe(machine: &Machine) -> String {
    let known = machine.serving().map(|serving| {
        let status = serving.replica.node().status();
        let logs = (status.last_log_index, status.last_applied_index, status.purged_index);
        (serving.services.cluster.readiness(), status.leader_id, status.term, logs)
    });
    format!("node {} up {} {known:?}", machine.node_id, machine.is_up())
}
