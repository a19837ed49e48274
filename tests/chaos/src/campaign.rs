//! One run from the first start to the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mintleaf_check::{Input, Invariant, Report};
use mintleaf_harness::{Recorder, SlowSyncs};
use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::climate::Climate;
use crate::cluster::Cluster;
use crate::disks::Disks;
use crate::faults::Need;
use crate::holders::Holders;
use crate::links::NodeId;
use crate::logs::GRANTS_TARGET;
use crate::nemesis::Nemesis;
use crate::node::{Incidents, Launch, Surroundings};
use crate::options::{KILL_LEADER, Options};
use crate::preflight::Machine;
use crate::schedule::{Round, Schedule};
use crate::session::Sessions;
use crate::summary::Summary;
use crate::workload::Workload;
use crate::world::{WINDOW_LONGEST, World, climate, drain, links, snapshot_entries, window};

/// How long the cluster may take to form on a busy machine, before the first fault.
const FORMING_MAX: Duration = Duration::from_secs(60);
/// How long a leader stays down at most when there are no other faults.
const KILL_HOLD_MAX: Duration = Duration::from_secs(2);
/// How many rounds `--plan` prints.
const PLANNED: usize = 40;

/// Runs a campaign. Returns false when a promise was broken.
///
/// # Errors
/// When the campaign could not be completed, so that its verdict is unknown.
pub(crate) async fn run(options: &Options) -> Result<bool, String> {
    let seed = options.seed.unwrap_or_else(|| rand::random::<u64>() % 1_000_000_000);
    let dir = directory(options).map_err(|error| format!("no directory for the run: {error}"))?;
    let (climate, syncs) = climate(options, seed, &dir);
    let (nodes, length) = (options.nodes, options.length());
    println!("chaos: seed {seed}, climate {}, {nodes} nodes, {length}", climate.name);
    let mut machine = Machine::examine(options, &dir);
    if climate.has_long_links() {
        machine.packets = machine.packets.and(Err("long links are proxies".to_owned()));
    }
    let (mut kinds, mut skipped) = machine.kinds(options)?;
    skipped.extend(syncs.as_ref().err().cloned());
    // After a restore, snowflakes begin after the longest window, and a round must not wait for a minute. In a
    // bad climate, forming a cluster again takes longer than a round. Leases begin an hour after a restore.
    let restores = window(seed) != WINDOW_LONGEST && climate.is_mild() && options.holders == 0;
    kinds.retain(|kind| kind.needs != Need::OneBuild || restores);
    if kinds.is_empty() {
        return Err(format!(
            "with holders, a bad climate or windows of {WINDOW_LONGEST} there is no restore"
        ));
    }
    let mut schedule = Schedule::new(seed, kinds, options.node_ids());
    if options.leader_kills.is_some() {
        schedule = schedule.holding_at_most(KILL_HOLD_MAX);
    }
    if options.plan {
        return plan(schedule, &dir).map_err(|error| error.to_string());
    }
    let world = World { seed, climate, syncs: syncs.ok().flatten(), machine };
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        judged = Campaign::conduct(options, &dir, world, schedule, skipped) => judged,
        _ = tokio::signal::ctrl_c() => Err(format!("interrupted; see {}", dir.display())),
        _ = terminated.recv() => Err(format!("terminated; see {}", dir.display())),
    }
}

/// A run that is under way.
struct Campaign<'a> {
    options: &'a Options,
    seed: u64,
    climate: Climate,
    dir: &'a Path,
    cluster: Arc<Cluster>,
    sessions: Sessions,
    nemesis: Nemesis,
    log: File,
    summary: Summary,
}

impl<'a> Campaign<'a> {
    async fn conduct(
        options: &'a Options,
        dir: &'a Path,
        world: World,
        schedule: Schedule,
        skipped: Vec<String>,
    ) -> Result<bool, String> {
        let (seed, syncs) = (world.seed, world.syncs.clone());
        let clocks = world.machine.clocks.as_ref().ok().cloned();
        let mut campaign = Self::begin(options, dir, world, skipped).await?;
        let sessions = campaign.sessions.clone();
        let forming_max = FORMING_MAX.max(campaign.climate.forming_max());
        campaign.cluster.await_formed(forming_max).await?;
        campaign.settle_under_the_leader(syncs.as_ref()).await?;
        let load = (options.clients, options.rate);
        // The level of an older binary has no shapes.
        let shaped = options.previous.is_none();
        let workload = Workload::start(sessions, seed, load, shaped).await?;
        let (client, nodes) = (&campaign.cluster.client, campaign.cluster.nodes.ids());
        let holders = match options.holders {
            0 => None,
            count => Some(Holders::start(client, &nodes, count, clocks.as_ref(), seed).await?),
        };
        campaign.break_things(schedule).await;
        let unread = workload.conclude().await;
        campaign.summary.broken.extend(unread);
        if let Some(holders) = holders {
            let (told, broken) = holders.conclude().await;
            campaign.tell(&told);
            campaign.summary.broken.extend(broken);
        }
        campaign.stop().await;
        campaign.judge().await
    }

    async fn begin(
        options: &'a Options,
        dir: &'a Path,
        World { seed, climate, syncs, machine }: World,
        skipped: Vec<String>,
    ) -> Result<Self, String> {
        let told = |error: io::Error| error.to_string();
        let ids = options.node_ids();
        let clocks = machine.clocks.ok();
        let around = Surroundings {
            logs: dir.join("logs"),
            clocks: clocks.clone(),
            syncs: syncs.clone(),
            links: links(machine.packets.is_ok(), &ids, seed).await.map_err(told)?,
            recorder: Arc::new(Recorder::create(&dir.join("history.jsonl")).map_err(told)?),
            incidents: Arc::new(Mutex::new(Incidents::default())),
        };
        fs::create_dir_all(&around.logs).map_err(told)?;
        climate.settle(&ids, &*around.links, syncs.as_ref()).map_err(told)?;
        for &id in clocks.iter().flat_map(|_| &ids) {
            clocks.iter().try_for_each(|clocks| clocks.shift(id, 0)).map_err(told)?;
        }
        let mut binaries = vec![options.binary.clone()];
        binaries.splice(0..0, options.previous.clone());
        let disks = match machine.disks.is_ok() {
            true => Disks::mounted(dir, &ids).map_err(told)?,
            false => Disks::plain(dir),
        };
        let flags = vec!["--snowflake-window".to_owned(), window(seed).to_owned()];
        let (drain, snapshot_entries) = (drain(seed), snapshot_entries(seed));
        let cluster = Cluster::start(&ids, &around, climate, |id| Launch {
            binary: binaries[0].clone(),
            data: disks.data(id),
            flags: flags.clone(),
            drain,
            snapshot_entries,
            limit: Vec::new(),
        });
        let cluster = Arc::new(cluster);
        let sessions = Sessions {
            client: cluster.client.clone(),
            nodes: Arc::clone(&cluster.nodes),
            recorder: around.recorder,
            incidents: around.incidents,
        };
        let nemesis = Nemesis::new(Arc::clone(&cluster), clocks, disks, binaries, seed);
        let log = File::create(dir.join("schedule.txt")).map_err(told)?;
        let summary = Summary::new(options, seed, climate, skipped);
        Ok(Self { options, seed, climate, dir, cluster, sessions, nemesis, log, summary })
    }

    /// Applies the part of the climate that waits for a leader.
    async fn settle_under_the_leader(&mut self, syncs: Option<&SlowSyncs>) -> Result<(), String> {
        if !self.climate.waits() {
            return Ok(());
        }
        let leader = self.cluster.leader().await.ok_or("every node is ready, and none leads")?;
        self.climate = self.climate.under(leader);
        let settled = self.climate.settle(&self.cluster.nodes.ids(), &*self.cluster.links, syncs);
        settled.map_err(|error| error.to_string())
    }

    /// The time within which every node must serve again after a fault has ended.
    fn recovery(&self) -> Duration {
        self.climate.stretch(self.options.recovery())
    }

    async fn break_things(&mut self, mut schedule: Schedule) {
        let until = Instant::now() + self.options.duration();
        let is_over = |counts: &BTreeMap<&str, u64>| match self.options.leader_kills {
            Some(kills) => counts.get(KILL_LEADER).is_some_and(|count| *count >= kills),
            None => Instant::now() >= until,
        };
        while !is_over(&self.nemesis.counts) {
            let round = schedule.next();
            sleep(round.calm).await;
            self.round(&round).await;
        }
    }

    /// Inflicts the faults of a round, heals them, and waits until all nodes serve.
    async fn round(&mut self, round: &Round) {
        let leader = self.cluster.leader().await.unwrap_or(self.cluster.nodes.ids()[0]);
        let mut said = Vec::new();
        for (name, fault) in &round.faults {
            said.push(format!("{name}: {fault}"));
            self.sessions.recorder.fault(&format!("{fault} (leader {leader})"));
            self.nemesis.inflict(name, fault, leader).await;
        }
        sleep(round.hold).await;
        self.nemesis.heal().await;
        self.sessions.recorder.healed();
        let served = self.await_serving().await;
        self.summary.rounds += 1;
        self.tell(&format!("{}; led by {leader}, {:?}; {served}", said.join(" + "), round.hold));
    }

    /// Waits until every node serves, and returns the outcome in words. Nodes that gave up their data join
    /// again, once each; then the wait starts over.
    async fn await_serving(&mut self) -> String {
        let mut joined = BTreeSet::new();
        let waited = loop {
            let waited = self.wait_once(&joined).await;
            let spoilt = self.cluster.spoilt().difference(&joined).copied().collect::<Vec<_>>();
            if spoilt.is_empty() {
                break waited;
            }
            for id in spoilt {
                joined.insert(id);
                self.rejoin(id).await;
            }
        };
        self.nemesis.settle();
        match waited {
            Ok(took) => {
                let slowest = took.values().max().copied().unwrap_or_default();
                self.summary.recovered(&took);
                format!("all serve after {} ms", slowest.as_millis())
            }
            Err(why) => {
                let told = format!("not all serve after {:?}: {why}", self.recovery());
                self.summary.broken.push(told.clone());
                told
            }
        }
    }

    /// Waits until every node serves. A node that gives up its data during the wait is recorded as a fault.
    async fn wait_once(
        &self,
        joined: &BTreeSet<NodeId>,
    ) -> Result<BTreeMap<NodeId, Duration>, String> {
        let watched = async {
            // The sleep keeps the next fault out of the millisecond of the healing. The judge could not
            // distinguish it from the fault that was healed.
            loop {
                sleep(Duration::from_millis(100)).await;
                if !self.cluster.spoilt().is_subset(joined) {
                    break;
                }
            }
            self.sessions.recorder.fault("a node gave up its data");
            std::future::pending::<()>().await;
        };
        tokio::select! {
            waited = self.cluster.await_serving(&self.sessions, self.recovery()) => waited,
            () = watched => Err("nothing is waited for any more".to_owned()),
        }
    }

    async fn rejoin(&mut self, id: NodeId) {
        self.summary.spoilt += 1;
        if let Err(why) = self.cluster.rejoin(id).await {
            self.summary.broken.push(why);
        }
        self.sessions.recorder.healed();
    }

    fn tell(&mut self, what: &str) {
        let at = Duration::from_nanos(self.sessions.recorder.now());
        let line = format!("{:>7.1} s  {what}", at.as_secs_f64());
        println!("{line}");
        if let Err(error) = writeln!(self.log, "{line}") {
            eprintln!("chaos: the schedule cannot be kept: {error}");
        }
    }

    async fn stop(&mut self) {
        for node in self.cluster.nodes.iter() {
            if let Err(why) = node.stop().await {
                self.summary.broken.push(why);
            }
        }
        mintleaf_harness::sweep();
    }

    async fn judge(mut self) -> Result<bool, String> {
        let history = self.sessions.recorder.finish();
        let history = history.map_err(|error| format!("the history is incomplete: {error}"))?;
        let (history, skip) = (history.to_owned(), self.unrecorded());
        let recovery = self.recovery();
        let judging = tokio::task::spawn_blocking(move || judge(&history, skip, recovery));
        let report = judging.await.map_err(|error| format!("the checker failed: {error}"))??;
        self.summary.broken.append(&mut self.nemesis.broken);
        let incidents = std::mem::take(&mut *self.sessions.incidents.lock());
        let clean = self.summary.print(&report, &incidents, &self.nemesis.counts);
        if clean && !self.options.keep {
            self.nemesis.unmount_disks();
            fs::remove_dir_all(self.dir).map_err(|error| error.to_string())?;
        } else {
            self.nemesis.keep_disks().map_err(|error| error.to_string())?;
            println!("kept: {} (history.jsonl, schedule.txt, logs, data)", self.dir.display());
        }
        if !clean {
            let kills = self.options.leader_kills.map(|kills| format!(" --leader-kills {kills}"));
            let kills = kills.unwrap_or_default();
            let climate = self.options.climate.map(|named| format!(" --climate {}", named.name));
            let climate = climate.unwrap_or_default();
            println!("the same schedule again: scripts/chaos --seed {}{kills}{climate}", self.seed);
        }
        Ok(clean)
    }

    /// Promises that cannot be judged, because a binary does not log its grants.
    fn unrecorded(&mut self) -> Vec<Invariant> {
        let logs = |path: &PathBuf| {
            let holds = |bytes: Vec<u8>| {
                bytes.windows(GRANTS_TARGET.len()).any(|part| part == GRANTS_TARGET.as_bytes())
            };
            fs::read(path).is_ok_and(holds)
        };
        if [Some(&self.options.binary), self.options.previous.as_ref()]
            .into_iter()
            .flatten()
            .all(logs)
        {
            return Vec::new();
        }
        self.summary.skipped.push("I2 and I4: a binary does not log its grants".to_owned());
        vec![Invariant::I2, Invariant::I4]
    }
}

fn judge(history: &Path, skip: Vec<Invariant>, recovery: Duration) -> Result<Report, String> {
    let mut input = Input::default();
    input.file(history).map_err(|error| error.to_string())?;
    let options = mintleaf_check::Options { skip, recovery };
    mintleaf_check::check(input, &options).map_err(|error| error.to_string())
}

fn directory(options: &Options) -> io::Result<PathBuf> {
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("mintleaf-chaos-{}", std::process::id())),
    };
    fs::create_dir_all(&dir)?;
    dir.canonicalize()
}

fn plan(mut schedule: Schedule, dir: &Path) -> io::Result<bool> {
    for _ in 0..PLANNED {
        let Round { calm, hold, faults } = schedule.next();
        let faults: Vec<_> =
            faults.iter().map(|(name, fault)| format!("{name}: {fault}")).collect();
        println!("after {calm:?}, for {hold:?}: {}", faults.join(" + "));
    }
    fs::remove_dir_all(dir)?;
    Ok(true)
}
