//! [`Node`]: one member of the cluster, assembled from all the other modules.

mod handle;
mod report;
mod status;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::{DataDir, LogEngine, SledEngine, Snapshots, StorageError};
use openraft::storage::RaftLogStorage;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::batcher;
use crate::bootstrap::{self, rejoin};
use crate::client::{Client, EarlyAppends, NetworkFactory};
use crate::core::{Core, KnownReleases, Proposal, Requests};
use crate::election;
use crate::error::{NodeError, StopReason};
use crate::given_votes::GivenVotes;
use crate::identity::NodeIdentity;
use crate::leadership_transfer::LeadershipTransfer;
use crate::membership::Membership;
use crate::options::{Clock, Options};
use crate::peers::PeerObservations;
use crate::raft_storage::{DurableSnapshot, DurableSnapshotReader, LogStore, StateMachineAdapter};
use crate::rpc_handler::RpcHandler;
use crate::runtime::{Pending, in_process, lower_priority};
use crate::state_machine::StateMachine;
use crate::stop::{StopHandle, StopOnPanic};
use crate::transport::{Plain, Security, TcpTransport, Tls, Transport};
use crate::types::{Raft, RaftLogId, RaftVote};
use crate::upkeep;

pub use handle::{Handle, PROPOSAL_BYTES_MAX};
pub use status::{MemberStatus, Role, Status};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The environment of a node. [`Node::open`] supplies this machine's disk and network.
pub struct Environment {
    /// The data directory of the node.
    pub dir: DataDir,
    /// The log in that directory.
    pub engine: Arc<dyn LogEngine>,
    /// The way to the peers, and from them to this node.
    pub transport: Arc<dyn Transport>,
}

/// A running member of the cluster.
pub struct Node {
    core: Arc<Core>,
    membership: Arc<Membership>,
    tasks: JoinSet<()>,
    /// The task that campaigns and judges the campaigns of others.
    elections: Option<AbortHandle>,
    /// The task that reports lost members.
    reports: Option<AbortHandle>,
    transport: Arc<dyn Transport>,
    // Holds the directory's lock until every task that writes to the directory has ended.
    _dir: DataDir,
}

impl Node {
    /// Opens the data directory and starts to take part. A new node founds or joins its cluster in the background.
    /// All of the node's tasks run on the runtime that calls this.
    ///
    /// # Errors
    /// When the data directory is damaged, locked or belongs to another node, the address is taken, or the
    /// peers refuse this node.
    pub async fn open(
        options: Options,
        state: Arc<dyn StateMachine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NodeError> {
        let open = if options.moved { DataDir::open_moved } else { DataDir::open_for };
        let dir = open(&options.data, options.fresh_store, options.node_id)?;
        let restoring = Restoring::begin(&dir, Arc::clone(&state))?;
        let (durable, stop) = (restoring.durable.reader(), restoring.stop.clone());
        let (engine, machine) = open_engine(&dir, || restoring.finish());
        let engine = Arc::new(engine?);
        let transport = open_transport(&options, dir.store_id(), &clock)?;
        let environment = Environment { dir, engine, transport };
        Self::assemble(environment, options, state, clock, (durable, stop), || machine).await
    }

    /// Opens a node in another environment, with its own log engine and transport; see [`Node::open`].
    ///
    /// # Errors
    /// When the data is damaged or belongs to another node, or the peers refuse this node.
    pub async fn open_in(
        environment: Environment,
        options: Options,
        state: Arc<dyn StateMachine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NodeError> {
        let restoring = Restoring::begin(&environment.dir, Arc::clone(&state))?;
        let (durable, stop) = (restoring.durable.reader(), restoring.stop.clone());
        let restore = || restoring.finish();
        Self::assemble(environment, options, state, clock, (durable, stop), restore).await
    }

    /// `restore` is called once the data are known to be this node's.
    async fn assemble(
        environment: Environment,
        options: Options,
        state: Arc<dyn StateMachine>,
        clock: Arc<dyn Clock>,
        (durable, stop): (DurableSnapshotReader, StopHandle),
        restore: impl FnOnce() -> Result<StateMachineAdapter, StorageError>,
    ) -> Result<Self, NodeError> {
        let Environment { dir, engine, transport } = environment;
        let log = LogStore::start(options.node_id, engine, durable).map_err(NodeError::raft)?;
        log.check()?;
        let identity = open_identity(&options, &dir, log.clone(), stop.clone()).await?;
        let (syncs, tuning) = (Arc::clone(log.sync_pace()), options.tuning.clone());
        let heard = Arc::new(PeerObservations::new(Arc::clone(&identity), clock, syncs, tuning));
        let client = Arc::new(Client::new(
            Arc::clone(&identity),
            Arc::clone(&heard),
            Arc::clone(&transport),
            options.peers.clone(),
        ));
        let transfer = Arc::<LeadershipTransfer>::default();
        let early = Arc::new(EarlyAppends::new(options.node_id));
        log.observe(Arc::clone(&early) as _);
        let network = NetworkFactory {
            client: Arc::clone(&client),
            identity: Arc::clone(&identity),
            heard: Arc::clone(&heard),
            transfer: Arc::clone(&transfer),
            early: Arc::clone(&early),
        };
        // The reason to stop may explain better than the error why opening fails.
        let or_stopped = |error: NodeError| stop.reason().map_or(error, NodeError::Stopped);
        let machine = restore().map_err(|error| or_stopped(error.into()))?;
        let replay = machine.replay();
        let Started { raft, vote, last_log_id } =
            start_raft(&options, network, log.clone(), machine).await.map_err(or_stopped)?;
        identity.watch(raft.metrics());
        let (queue, proposals) = mpsc::channel(batcher::QUEUE_MAX);
        let advertise_raft = advertised(&options, transport.listens_on());
        let core = Arc::new(Core {
            options,
            identity,
            heard,
            client,
            early,
            transfer,
            given_votes: GivenVotes::new(vote),
            raft,
            log,
            replay,
            state,
            leader_changes: Default::default(),
            waits_for: Default::default(),
            releases: KnownReleases::default(),
            requests: Requests::default(),
            queue,
            advertise_raft,
            opened: Instant::now(),
        });
        let membership = Arc::new(Membership::new(Arc::clone(&core)));
        let (tasks, elections, reports) = Default::default();
        let mut node = Self { core, membership, tasks, elections, reports, transport, _dir: dir };
        node.start(last_log_id.map(|id| id.index), proposals).await?;
        Ok(node)
    }

    async fn start(
        &mut self,
        last_log_index: Option<u64>,
        proposals: mpsc::Receiver<Proposal>,
    ) -> Result<(), NodeError> {
        let (core, membership) = (Arc::clone(&self.core), Arc::clone(&self.membership));
        let mut metrics = core.raft.metrics();
        // A leader that comes back before its first entry was durable has appended another one by then.
        let loaded = metrics.wait_for(|now| now.last_log_index >= last_log_index);
        timeout(START_TIMEOUT, loaded)
            .await
            .map_err(|_| NodeError::raft("did not start in time"))?
            .map_err(NodeError::raft)?;
        self.spawn(watch::watch_raft(Arc::clone(&core)));
        self.reports = Some(self.spawn(report::report(Arc::clone(&core))));
        if core.cluster().is_some() {
            core.heard.contact().begin_anew(Instant::now());
            self.come_back(last_log_index).await?;
        } else {
            self.begin_entering()?;
        }
        let handler = Arc::new(RpcHandler::new(Arc::clone(&core), Arc::clone(&membership)));
        self.spawn(self.serve(handler)?);
        self.spawn(batcher::run(Arc::clone(&core), proposals));
        self.spawn(election::send_heartbeats(Arc::clone(&core)));
        self.spawn(upkeep::tend_membership(Arc::clone(&membership)));
        self.spawn(upkeep::hand_over(membership));
        let elections = election::run(Arc::clone(&core), Arc::clone(&self.transport));
        self.elections = Some(self.spawn(elections));
        self.spawn(upkeep::probe(Arc::clone(&core)));
        self.spawn(upkeep::learn_releases(Arc::clone(&core)));
        self.spawn(upkeep::renew_incarnation(core));
        Ok(())
    }

    /// Lets peers reach this node.
    fn serve(&self, handler: Arc<RpcHandler>) -> Result<Pending<'static, ()>, NodeError> {
        let serving = Arc::clone(&self.transport).serve(handler);
        serving.map_err(|source| match self.core.options.listen {
            Some(address) => NodeError::Listen { address, source },
            None => NodeError::raft(source),
        })
    }

    /// Runs a task of the node. If the task panics, the node stops, because no other task does its work.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let guard = StopOnPanic(self.core.identity.stop_handle().clone());
        let task: Pending<'static, ()> = in_process(async move {
            let _guard = guard;
            task.await;
        });
        self.tasks.spawn(task)
    }

    async fn come_back(&self, last_log_index: Option<u64>) -> Result<(), NodeError> {
        rejoin::announce(&self.core, last_log_index).await;
        match timeout(Duration::ZERO, self.stopped()).await {
            Ok(why) => Err(NodeError::Stopped(why)),
            Err(_) => Ok(()),
        }
    }

    fn begin_entering(&mut self) -> Result<(), NodeError> {
        let Options { node_id, peers, join, .. } = &self.core.options;
        if join.is_none() && !peers.contains_key(node_id) {
            let why = "this data directory is new: give --peers (with this node among them) to \
                       form a cluster, or --join to enter one";
            return Err(NodeError::Options(why.to_owned()));
        }
        let core = Arc::clone(&self.core);
        self.spawn(async move {
            if let Err(error) = bootstrap::enter_cluster(Arc::clone(&core)).await {
                core.identity.stop_handle().stop(StopReason::from(error));
            }
        });
        Ok(())
    }

    /// The address that the internal listener is bound to.
    #[must_use]
    pub fn listens_on(&self) -> Option<SocketAddr> {
        self.transport.listens_on()
    }

    /// A handle for callers. It works from any runtime for as long as the node lives.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { core: Arc::clone(&self.core), membership: Arc::clone(&self.membership) }
    }

    /// Resolves with the reason once this node must stop: openraft ended, its storage failed, it was removed, or its
    /// peers found its data in doubt. A node stops when in doubt; it never guesses.
    pub async fn stopped(&self) -> StopReason {
        self.core.identity.stop_handle().stopped().await
    }

    /// Stops campaigning and stops reporting lost members. When several nodes end together, none of them should
    /// depose another on the way.
    pub fn stand_down(&self) {
        [&self.elections, &self.reports].into_iter().flatten().for_each(AbortHandle::abort);
    }

    /// Stops taking part and flushes, within a bound.
    pub async fn shutdown(mut self) {
        if timeout(SHUTDOWN_TIMEOUT, self.core.raft.shutdown()).await.is_err() {
            tracing::warn!("raft did not stop in time");
        }
        self.tasks.shutdown().await;
    }
}

/// Binds the internal listener, with the layer that the options ask for.
fn open_transport(
    options: &Options,
    store: u128,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Transport>, NodeError> {
    let (listen, connections_max) = (options.listen, options.tuning.peer_connections_max);
    match &options.security {
        Security::Plain => Ok(Arc::new(TcpTransport::bind(listen, connections_max, Plain)?)),
        Security::Tls(credentials) => {
            let clock = Arc::clone(clock);
            let now = Arc::new(move || clock.now_ms());
            let tls = Tls::new((options.node_id, store), credentials.clone(), now);
            let tls = tls.map_err(|error| NodeError::Options(error.to_string()))?;
            Ok(Arc::new(TcpTransport::bind(listen, connections_max, tls)?))
        }
    }
}

/// Opens the log engine on a thread of lower priority. sled's own threads inherit that priority, so the end of a
/// killed process does not delay the other nodes on its machine. This thread does something else `meanwhile`.
fn open_engine<T>(
    dir: &DataDir,
    meanwhile: impl FnOnce() -> T,
) -> (Result<SledEngine, StorageError>, T) {
    let open = || {
        lower_priority();
        SledEngine::open(dir)
    };
    std::thread::scope(|scope| {
        let opening = scope.spawn(open);
        let done = meanwhile();
        match opening.join() {
            Ok(opened) => (opened, done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The restoring of the newest snapshot. It needs nothing of the log, and takes as long as opening that does.
struct Restoring {
    state: Arc<dyn StateMachine>,
    snapshots: Arc<Snapshots>,
    durable: DurableSnapshot,
    stop: StopHandle,
}

impl Restoring {
    fn begin(dir: &DataDir, state: Arc<dyn StateMachine>) -> Result<Self, StorageError> {
        let snapshots = Arc::new(Snapshots::open(dir)?);
        Ok(Self { state, snapshots, durable: DurableSnapshot::default(), stop: StopHandle::new() })
    }

    fn finish(self) -> Result<StateMachineAdapter, StorageError> {
        let Self { state, snapshots, durable, stop } = self;
        StateMachineAdapter::open(state, snapshots, durable, stop)
    }
}

/// Loads the node's identity and begins an incarnation of its store, unless an earlier start found that the store
/// must no longer take part.
async fn open_identity(
    options: &Options,
    dir: &DataDir,
    log: LogStore,
    stop: StopHandle,
) -> Result<Arc<NodeIdentity>, NodeError> {
    let (id, nonce) = (options.node_id, options.boot_nonce);
    let identity = Arc::new(NodeIdentity::load(id, dir.store_id(), nonce, log, stop)?);
    if let Some(why) = identity.ended_before()? {
        return Err(NodeError::Stopped(why));
    }
    identity.begin_incarnation(dir.starts()).await?;
    Ok(identity)
}

/// openraft, and what its log held before it started.
struct Started {
    raft: Raft,
    vote: RaftVote,
    last_log_id: Option<RaftLogId>,
}

async fn start_raft(
    options: &Options,
    network: NetworkFactory,
    mut log: LogStore,
    machine: StateMachineAdapter,
) -> Result<Started, NodeError> {
    check_snapshot(&machine, &log)?;
    let last_log_id = log.last_log_id().map_err(NodeError::raft)?;
    let vote = log.read_vote().await.map_err(NodeError::raft)?.unwrap_or_default();
    let config = options.tuning.config()?;
    let raft = Raft::new(options.node_id, config, network, log, machine).await;
    Ok(Started { raft: raft.map_err(NodeError::raft)?, vote, last_log_id })
}

/// Refuses a directory whose snapshot does not cover what was purged from the log: those entries would be missing
/// from the state.
fn check_snapshot(machine: &StateMachineAdapter, log: &LogStore) -> Result<(), NodeError> {
    let purged = log.purged().map_err(NodeError::raft)?;
    if machine.last_applied() >= purged {
        return Ok(());
    }
    let what = "the snapshot is missing or older than the log that was purged for it".to_owned();
    Err(NodeError::Storage(StorageError::Damaged { what }))
}

/// The internal address that this node advertises: the one in the options, or its own entry in `--peers`, or else the
/// bound address.
fn advertised(options: &Options, listens_on: Option<SocketAddr>) -> String {
    let listed = || options.peers.get(&options.node_id).cloned();
    let bound = || listens_on.map(|address| address.to_string());
    options.advertise_raft.clone().or_else(listed).or_else(bound).unwrap_or_default()
}
