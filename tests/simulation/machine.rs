//! One machine of the cluster: its disk and its clock, which are permanent, and its processes, which are not. A
//! process is a whole node without HTTP, assembled as the server assembles it.

mod backup;
mod ends;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use mintleaf::config::{REGISTER_KEYS_MAX_DEFAULT, TAGS_MAX_DEFAULT};
use mintleaf::replica::{Replica, StateReplica};
use mintleaf::server::{AssembledNode, Assembly};
use mintleaf::service::{ServiceSettings, Services};
use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_core::state::LEVEL_MAX;
use mintleaf_raft::simulation::{Process, prepared_by};
use mintleaf_raft::{Environment, Node, NodeError, Options, Security, Tuning};
use mintleaf_storage::{DataDir, MetaKey};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::climate::Sky;
use crate::clock::MachineClock;
use crate::disk::Disk;
use crate::net::{Net, NetWire, Proof, address, double_of};
use crate::oracle::{Incarnation, Oracle, Witness};
use crate::random::Random;
use crate::trace::Trace;
use crate::turn::Turn;

pub(crate) use backup::back_up;

/// How long a supervisor waits before it restarts a node that has stopped.
const RESTART_DELAY: Duration = Duration::from_millis(500);

/// Memory for the counters of keys. It holds some fifty keys and as many sections, so that most are forgotten.
const SEQUENCE_MEMORY: usize = 4 << 10;

/// The parts that all machines share.
pub(crate) struct Site {
    pub(crate) trace: Arc<Trace>,
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) net: Arc<Net>,
    pub(crate) snowflake: SnowflakeSettings,
    /// The period change that the run passes.
    pub(crate) turn: Turn,
    pub(crate) peers: BTreeMap<u64, String>,
    /// The random numbers of the seed that identify stores and processes.
    pub(crate) random: Random,
    /// The climate, which lasts for the whole run.
    pub(crate) sky: Arc<Sky>,
    /// How long each disk access takes; `None` lets the seed decide.
    pub(crate) disk_latency: Option<Duration>,
}

/// A process that serves clients.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) incarnation: Incarnation,
    pub(crate) services: Services,
    pub(crate) replica: Arc<Replica>,
    pub(crate) process: Arc<Process>,
    /// True once the process has ended.
    pub(crate) ended: watch::Receiver<bool>,
}

/// A process from its start to its end.
struct Running {
    process: Arc<Process>,
    alive: Arc<AtomicBool>,
    ended: watch::Sender<bool>,
    serving: Option<Serving>,
    /// Requests a clean stop.
    stop: Option<oneshot::Sender<()>>,
    /// Opens the node, then waits for its end.
    supervisor: JoinHandle<()>,
}

/// One machine.
pub(crate) struct Machine {
    pub(crate) node_id: u64,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) disk: Disk,
    pub(crate) site: Arc<Site>,
    dir: PathBuf,
    /// The machine's host on the network: its node's id, or another number while the node exists twice.
    host: AtomicU64,
    /// The store id of its data directory, once there is one.
    store: Arc<Mutex<Option<u128>>>,
    /// The list of founders of its next process, if it differs from the common one.
    peers: Mutex<Option<BTreeMap<u64, String>>>,
    /// The highest level that the build here supports.
    level: AtomicU32,
    retired: AtomicBool,
    incarnations: AtomicU64,
    running: Mutex<Option<Running>>,
    /// The node that its next process asks for admission; `None` for a founder.
    join: Mutex<Option<u64>>,
    /// The reasons why its processes have stopped by themselves.
    stops: Mutex<Vec<String>>,
}

impl Site {
    /// The true time, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.turn.begin_ms + self.trace.now_ms()
    }
}

impl Machine {
    pub(crate) fn new(node_id: u64, site: Arc<Site>, dir: PathBuf, drift: i64, disk: Disk) -> Self {
        Self {
            node_id,
            clock: Arc::new(MachineClock::new(site.turn.begin_ms, drift)),
            disk,
            site,
            dir,
            host: AtomicU64::new(node_id),
            store: Arc::default(),
            peers: Mutex::default(),
            level: AtomicU32::new(LEVEL_MAX),
            retired: AtomicBool::new(false),
            incarnations: AtomicU64::new(0),
            running: Mutex::default(),
            join: Mutex::default(),
            stops: Mutex::default(),
        }
    }

    /// A second machine for the same node.
    pub(crate) fn double(&self, drift: i64, disk: Disk) -> Self {
        let dir = self.dir.with_extension("double");
        let double = Self::new(self.node_id, Arc::clone(&self.site), dir, drift, disk);
        double.host.store(double_of(self.node_id), Ordering::Relaxed);
        // The incarnations of both machines have different numbers.
        double.incarnations.store(1_000, Ordering::Relaxed);
        double
    }

    /// The same machine for a node of another cluster, with its clock and an empty disk.
    pub(crate) fn for_cluster(
        &self,
        node_id: u64,
        site: Arc<Site>,
        dir: PathBuf,
        disk: Disk,
    ) -> Self {
        let mut next = Self::new(node_id, site, dir, 0, disk);
        next.clock = Arc::clone(&self.clock);
        // The numbers of incarnations must differ between all nodes that ever had the same id.
        let before = self.incarnations.load(Ordering::Relaxed);
        next.incarnations.store(before.next_multiple_of(10_000) + 10_000, Ordering::Relaxed);
        next
    }

    /// Gives the next process another build, which supports levels up to this one.
    pub(crate) fn install(&self, level: u32) {
        self.level.store(level, Ordering::Relaxed);
    }

    /// The highest level that the build here supports.
    pub(crate) fn level(&self) -> u32 {
        self.level.load(Ordering::Relaxed)
    }

    /// Gives it the address of the node's other machine, which must be down.
    pub(crate) fn take_the_place(&self) {
        self.host.store(self.node_id, Ordering::Relaxed);
    }

    /// The machine's host on the network.
    pub(crate) fn host(&self) -> u64 {
        self.host.load(Ordering::Relaxed)
    }

    /// Gives the next process another list of founders, or the common one for `None`. Returns whether it had
    /// another list before.
    pub(crate) fn list(&self, peers: Option<BTreeMap<u64, String>>) -> bool {
        std::mem::replace(&mut *self.peers.lock(), peers).is_some()
    }

    /// Makes the next process ask this node for admission.
    pub(crate) fn join(&self, seed: u64) {
        *self.join.lock() = Some(seed);
    }

    /// The store id of its data directory, once there is one.
    pub(crate) fn store(&self) -> Option<u128> {
        *self.store.lock()
    }

    /// The store of the coordinator that this machine is prepared for, while it is not in any cluster.
    pub(crate) fn bound_to(&self) -> Option<u128> {
        let record = self.disk.named(MetaKey::Prepared).filter(|_| !self.disk.has_taken_part());
        record.as_deref().and_then(prepared_by)
    }

    /// The process that serves clients here, if one does.
    pub(crate) fn serving(&self) -> Option<Serving> {
        self.running.lock().as_ref().and_then(|running| running.serving.clone())
    }

    /// Whether it was shut down for good.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Whether a process is running here, even if it does not serve yet.
    pub(crate) fn is_up(&self) -> bool {
        self.running.lock().is_some()
    }

    /// The reasons why processes here have stopped by themselves so far.
    pub(crate) fn stops(&self) -> Vec<String> {
        self.stops.lock().clone()
    }

    /// Starts a process, unless one is running.
    pub(crate) fn start(self: &Arc<Self>) {
        let mut running = self.running.lock();
        if running.is_some() || self.retired.load(Ordering::Relaxed) {
            return;
        }
        let number = self.incarnations.fetch_add(1, Ordering::Relaxed) + 1;
        let incarnation = Incarnation { node_id: self.node_id, number };
        self.site.trace.note(format_args!("node {} starts, incarnation {number}", self.node_id));
        self.site.oracle.supports(self.node_id, self.level());
        let disk_random = Random::new(self.site.random.next(), "disk latency");
        let slow_percent = disk_random.pick(&[1, 5, 30]);
        let (steady, sky, node_id) =
            (self.site.disk_latency, Arc::clone(&self.site.sky), self.node_id);
        let latency = move || {
            if let Some(latency) = steady.or_else(|| sky.sync(node_id)) {
                return latency;
            }
            let slow = disk_random.chance(slow_percent);
            let us = disk_random.within(if slow { 5_000..200_000 } else { 200..4_000 });
            Duration::from_micros(us)
        };
        let process = Arc::new(Process::new(self.site.random.next(), latency));
        let (alive, ended) = (Arc::new(AtomicBool::new(true)), watch::Sender::new(false));
        let machine = Arc::clone(self);
        let supervised = (Arc::clone(&process), Arc::clone(&alive));
        let (stop, stopping) = oneshot::channel();
        let supervisor = tokio::spawn(async move {
            match machine.supervise(incarnation, supervised.0, supervised.1, stopping).await {
                Some(why) => machine.stopped_by_itself(why),
                None => machine.stopped_cleanly(),
            }
        });
        let (serving, stop) = (None, Some(stop));
        *running = Some(Running { process, alive, ended, serving, stop, supervisor });
    }

    /// Runs a process until it stops by itself, and returns the reason, or until a clean stop is requested.
    async fn supervise(
        &self,
        incarnation: Incarnation,
        process: Arc<Process>,
        alive: Arc<AtomicBool>,
        stopping: oneshot::Receiver<()>,
    ) -> Option<String> {
        let (net, host, own) = (Arc::clone(&self.site.net), self.host(), Arc::clone(&process));
        let (site, clock) = (Arc::clone(&self.site), Arc::clone(&self.clock));
        let engine = Arc::new(self.disk.open());
        let (options, store) = (self.options(), Arc::clone(&self.store));
        let level = self.level();
        let opened = process.spawn(async move {
            let dir = open_dir(&options).await?;
            *store.lock() = Some(dir.store_id());
            let proof = Proof { node_id: options.node_id, store: dir.store_id() };
            let wire = NetWire { net, host, proof, process: own, alive };
            let environment = Environment { dir, engine, transport: Arc::new(wire) };
            assemble(&site, (incarnation, level), clock, environment, options).await
        });
        let mut assembled = match opened.await {
            Ok(Ok(assembled)) => assembled,
            Ok(Err(error)) => return Some(error.to_string()),
            Err(error) => return Some(error.to_string()),
        };
        self.site.trace.note(format_args!("node {} serves", self.node_id));
        if let Some(running) = self.running.lock().as_mut() {
            running.serving = Some(Serving {
                incarnation,
                services: assembled.services.clone(),
                replica: Arc::clone(&assembled.replica),
                process: Arc::clone(&running.process),
                ended: running.ended.subscribe(),
            });
        }
        tokio::select! {
            biased;
            why = assembled.ended() => return Some(why.to_string()),
            _ = stopping => {}
        }
        assembled.stop().await;
        None
    }

    fn options(&self) -> Options {
        let join = *self.join.lock();
        let random_u128 = || u128::from(self.site.random.next()) << 64 | u128::from(self.node_id);
        Options {
            node_id: self.node_id,
            data: self.dir.clone(),
            fresh_store: random_u128(),
            boot_nonce: random_u128(),
            moved: true,
            listen: None,
            advertise_raft: Some(address(self.node_id)),
            advertise_http: String::new(),
            zone: String::new(),
            peers: if join.is_some() { BTreeMap::new() } else { self.founders() },
            join: join.map(address),
            security: Security::Plain,
            tuning: Tuning {
                incarnation_max: self.site.sky.now().incarnation_max(),
                snapshot_entries: self.site.sky.now().snapshot_entries(),
                keep_entries: self.site.sky.now().snapshot_entries() / 5,
                ..Tuning::default()
            },
        }
    }

    fn founders(&self) -> BTreeMap<u64, String> {
        self.peers.lock().clone().unwrap_or_else(|| self.site.peers.clone())
    }

    fn stopped_by_itself(self: &Arc<Self>, why: String) {
        // The name of the directory differs between runs, but the trace must not.
        let why = why.replace(&self.dir.display().to_string(), "its directory");
        self.site.trace.note(format_args!("node {} stopped: {why}", self.node_id));
        self.stops.lock().push(why);
        self.start_after_the_end();
    }

    fn stopped_cleanly(self: &Arc<Self>) {
        self.site.trace.note(format_args!("node {} has stopped cleanly", self.node_id));
        self.start_after_the_end();
    }

    fn start_after_the_end(self: &Arc<Self>) {
        self.crash();
        let machine = Arc::clone(self);
        tokio::spawn(async move {
            sleep(RESTART_DELAY).await;
            machine.start();
        });
    }
}

/// Opens the data directory. Tasks of the previous process may still hold it for a moment.
async fn open_dir(options: &Options) -> Result<DataDir, NodeError> {
    for _ in 0..20 {
        match DataDir::open_moved(&options.data, options.fresh_store, options.node_id) {
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(10)).await,
            opened => return Ok(opened?),
        }
    }
    Ok(DataDir::open_moved(&options.data, options.fresh_store, options.node_id)?)
}

/// Draws a key that no other is like. Each run has a process of its own, so the same run draws the same keys.
fn draw_key() -> std::io::Result<[u8; 32]> {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let stream = Random::new(DRAWN.fetch_add(1, Ordering::Relaxed), "keys");
    let mut key = [0; 32];
    key.chunks_mut(8).for_each(|part| part.copy_from_slice(&stream.next().to_be_bytes()));
    Ok(key)
}

async fn assemble(
    site: &Site,
    (incarnation, level): (Incarnation, u32),
    clock: Arc<MachineClock>,
    environment: Environment,
    options: Options,
) -> Result<AssembledNode, NodeError> {
    let assembly = Assembly {
        clock,
        snowflake: site.snowflake.clone(),
        nonce: incarnation.nonce(),
        secret: incarnation.nonce(),
        settings: ServiceSettings {
            auto_create_tags: true,
            tags_max: TAGS_MAX_DEFAULT,
            register_keys_max: REGISTER_KEYS_MAX_DEFAULT,
            sequence_memory: SEQUENCE_MEMORY,
            json_numbers: Default::default(),
        },
        draw_key,
    };
    let oracle = Arc::clone(&site.oracle);
    let state = |draw_key, listener| StateReplica::supporting(level, draw_key, listener);
    let opened = mintleaf::server::assemble_around(assembly, state, |state, clock| {
        let witness = Arc::new(Witness::new(state, oracle, incarnation));
        Node::open_in(environment, options, witness, clock)
    });
    opened.await
}
