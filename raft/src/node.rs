//! [`Node`]: one member of the cluster, and the owner of everything in this crate that runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mintleaf_storage::{DataDir, LogEngine, SledEngine, Snapshots, StorageError, planted};
use openraft::StorageError as RaftStorageError;
use openraft::storage::RaftLogStorage;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::StateMachine;
use crate::coalesce::{self, Proposal};
use crate::coverage::Coverage;
use crate::election;
use crate::error::{NodeError, ProposeError, Retry, StopReason};
use crate::form;
use crate::handle::Handle;
use crate::heartbeat;
use crate::inbox::Committed;
use crate::level::Releases;
use crate::local::{Local, StopOnPanic};
use crate::machine::Machine;
use crate::options::{Clock, Options};
use crate::priority::give_way;
use crate::proposal::Checked;
use crate::reach;
use crate::runtime::in_process;
use crate::store::LogStore;
use crate::transport::{
    Client, InboxDoor, NetworkFactory, Pending, Request, Response, TcpWire, Wire,
};
use crate::types::{Member, Raft, RaftLogId};
use crate::vouch;

const READ_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
const START_TIMEOUT: Duration = Duration::from_secs(30);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything that the tasks of a node share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) local: Arc<Local>,
    pub(crate) raft: Raft,
    pub(crate) state: Arc<dyn StateMachine>,
    /// What the other members run.
    pub(crate) releases: Releases,
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Held while a batch is appended and applied, and while leadership is handed over.
    pub(crate) appending: Mutex<()>,
    /// Set towards the end of a hand-over: no heartbeats, so that the followers' lease runs out.
    pub(crate) silent: AtomicBool,
    /// What a leader's log is held against.
    pub(crate) known_committed: parking_lot::Mutex<Committed>,
    /// Held while the membership changes.
    pub(crate) changing: Arc<Mutex<()>>,
    /// Carries what must outlive its caller.
    pub(crate) runtime: tokio::runtime::Handle,
    /// Term and end of the log with which this node came back as a leader, if it did.
    resumed: Option<(u64, u64)>,
    queue: mpsc::Sender<Proposal>,
    advertise_raft: String,
}

impl Inner {
    /// This node as a member.
    pub(crate) fn myself(&self) -> Member {
        Member {
            raft: self.advertise_raft.clone(),
            http: self.options.advertise_http.clone(),
            store: self.local.store(),
        }
    }

    /// The leader as far as this node knows; it may be gone by now.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.raft.metrics().borrow().current_leader
    }

    /// A member as the membership in effect describes it.
    pub(crate) fn member(&self, id: u64) -> Option<Member> {
        self.local.members().membership().get_node(&id).cloned()
    }

    /// All members but this node's store.
    pub(crate) fn others(&self) -> BTreeMap<u64, Member> {
        let members = self.local.members();
        let others = members.nodes().filter(|(_, member)| member.store != self.local.store());
        others.map(|(id, member)| (*id, member.clone())).collect()
    }

    /// The cluster this node has taken part in; `None` while it is new.
    pub(crate) fn formed(&self) -> Option<u128> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let took_part = metrics.last_log_index.is_some() || metrics.current_term > 0;
        if took_part { self.local.cluster() } else { None }
    }

    pub(crate) async fn propose(
        &self,
        commands: Checked,
        retry: Retry,
        deadline: Instant,
        forwarded: bool,
    ) -> Result<Vec<Vec<u8>>, ProposeError> {
        let (answer, answered) = oneshot::channel();
        let proposal = Proposal { commands, retry, deadline, forwarded, answer };
        self.queue.try_send(proposal).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })?;
        // The coalescer answers by the deadline; the grace lets its own reason through.
        let grace = deadline + Duration::from_millis(100);
        match timeout_at(grace, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(stopping())),
            Err(_) => Err(ProposeError::Unknown("no answer by the deadline".to_owned())),
        }
    }

    /// The log index that a read started now must wait for; `None`: ask again, maybe elsewhere.
    pub(crate) async fn read_index(&self) -> Option<u64> {
        let leader = self.leader()?;
        if leader == self.local.node_id() {
            return self.read_index_as_leader().await;
        }
        let member = self.member(leader)?;
        let request = Request::ReadIndex;
        match self.client.call(leader, &member, request, READ_ATTEMPT_TIMEOUT).await {
            Ok(Response::ReadIndex(index)) => index,
            _ => None,
        }
    }

    pub(crate) async fn read_index_as_leader(&self) -> Option<u64> {
        // Read before asking: terms only rise, so a floor is never left out.
        let term = self.raft.metrics().borrow().current_term;
        let confirmed =
            timeout(READ_ATTEMPT_TIMEOUT, self.raft.get_read_log_id()).await.ok()?.ok()?;
        let index = confirmed.0?.index;
        let floor = self.resumed.filter(|(resumed_in, _)| *resumed_in == term);
        let floor = floor.filter(|_| !planted("resumed-leader-reads-at-once"));
        Some(index.max(floor.map_or(0, |(_, last)| last)))
    }
}

fn stopping() -> ProposeError {
    ProposeError::Unavailable("this node is stopping".to_owned())
}

/// What a node stands on. [`Node::open`] gives it this machine's disk and network.
pub struct Ground {
    /// Whose data it is.
    pub dir: DataDir,
    /// The log in that directory.
    pub engine: Arc<dyn LogEngine>,
    /// The way to the peers, and theirs to this node.
    pub wire: Arc<dyn Wire>,
}

/// A running member of the cluster.
pub struct Node {
    inner: Arc<Inner>,
    tasks: JoinSet<()>,
    wire: Arc<dyn Wire>,
    // Holds the directory's lock until everything that writes to it is gone.
    _dir: DataDir,
}

impl Node {
    /// Opens the data directory and starts taking part. A new node forms or joins its cluster in
    /// the background; the runtime this is called on carries all of the node's tasks.
    ///
    /// # Errors
    /// When the data directory is damaged, locked or somebody else's, the address is taken, or the
    /// peers refuse this node.
    pub async fn open(
        options: Options,
        state: Arc<dyn StateMachine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NodeError> {
        let dir = DataDir::open_for(&options.data, options.fresh_store, options.node_id)?;
        let engine = Arc::new(open_engine(&dir)?);
        let wire = TcpWire::bind(options.listen, options.secret.as_deref()).await?;
        let ground = Ground { dir, engine, wire: Arc::new(wire) };
        Self::open_on(ground, options, state, clock).await
    }

    /// As [`Node::open`], on another engine or another wire.
    ///
    /// # Errors
    /// When the data is damaged or somebody else's, or the peers refuse this node.
    pub async fn open_on(
        ground: Ground,
        options: Options,
        state: Arc<dyn StateMachine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NodeError> {
        let Ground { dir, engine, wire } = ground;
        let snapshots = Arc::new(Snapshots::open(&dir)?);
        let coverage = Coverage::default();
        let mut log = LogStore::start(engine, coverage.reader()).map_err(NodeError::raft)?;
        log.check()?;
        let local = Local::load(
            options.node_id,
            dir.store_id(),
            options.boot_nonce,
            log.clone(),
            Arc::clone(&clock),
            options.tuning.election_max,
        )?;
        let local = Arc::new(local);
        if let Some(why) = local.ended_before()? {
            return Err(NodeError::Stopped(why));
        }
        local.begin_start(dir.starts()).await?;
        let listed = options.peers.clone();
        let client = Arc::new(Client::new(Arc::clone(&local), Arc::clone(&wire), listed));
        // What ends a node while it opens may be known better than by the error.
        let or_stopped =
            |error: NodeError| local.reason_to_stop().map_or(error, NodeError::Stopped);
        let machine = Machine::open(Arc::clone(&state), snapshots, coverage, Arc::clone(&local))
            .map_err(|error| or_stopped(error.into()))?;
        check_snapshot(&machine, &log)?;
        let last_log_id = log.last_log_id().map_err(NodeError::raft)?;
        let resumed = resumed_as_leader(&mut log, options.node_id, last_log_id).await?;
        let raft = Raft::new(
            options.node_id,
            options.tuning.config()?,
            NetworkFactory(Arc::clone(&client)),
            log,
            machine,
        );
        let raft = raft.await.map_err(|error| or_stopped(NodeError::raft(error)))?;
        local.watch(raft.metrics());
        let (queue, proposals) = mpsc::channel(coalesce::QUEUE_MAX);
        let advertise_raft = advertised(&options, wire.listens_on());
        let inner = Arc::new(Inner {
            options,
            local,
            raft,
            state,
            releases: Releases::default(),
            client,
            clock,
            appending: Mutex::default(),
            silent: AtomicBool::new(false),
            known_committed: parking_lot::Mutex::default(),
            changing: Arc::new(Mutex::new(())),
            runtime: tokio::runtime::Handle::current(),
            resumed,
            queue,
            advertise_raft,
        });
        let mut node = Self { inner, tasks: JoinSet::new(), wire, _dir: dir };
        node.start(last_log_id.map(|id| id.index), proposals).await?;
        Ok(node)
    }

    async fn start(
        &mut self,
        last_log_index: Option<u64>,
        proposals: mpsc::Receiver<Proposal>,
    ) -> Result<(), NodeError> {
        let inner = &self.inner;
        let mut metrics = inner.raft.metrics();
        // A leader that comes back before its first entry was durable has appended another by now.
        let loaded = metrics.wait_for(|now| now.last_log_index >= last_log_index);
        timeout(START_TIMEOUT, loaded)
            .await
            .map_err(|_| NodeError::raft("did not start in time"))?
            .map_err(NodeError::raft)?;
        self.tasks.spawn(owned(Arc::clone(inner), watch_raft(Arc::clone(inner))));
        if inner.formed().is_some() {
            inner.local.contact().begin_anew(Instant::now());
            self.come_back(last_log_index).await?;
        } else {
            self.begin_entering()?;
        }
        let inner = &self.inner;
        let serve = Arc::clone(&self.wire).serve(Arc::new(InboxDoor(Arc::clone(inner))));
        self.tasks.spawn(owned(Arc::clone(inner), serve));
        let coalesce = coalesce::run(Arc::clone(inner), proposals);
        self.tasks.spawn(owned(Arc::clone(inner), coalesce));
        let beat = heartbeat::beat(Arc::clone(inner));
        self.tasks.spawn(owned(Arc::clone(inner), beat));
        let tend = form::tend_membership(Arc::clone(inner));
        self.tasks.spawn(owned(Arc::clone(inner), tend));
        let elect = election::run(Arc::clone(inner), Arc::clone(&self.wire));
        self.tasks.spawn(owned(Arc::clone(inner), elect));
        let touch = reach::keep_in_touch(Arc::clone(inner));
        self.tasks.spawn(owned(Arc::clone(inner), touch));
        let learn = Arc::clone(inner);
        let learn = async move { learn.learn_releases().await };
        self.tasks.spawn(owned(Arc::clone(inner), learn));
        let vouch = vouch::vouch(Arc::clone(inner));
        self.tasks.spawn(owned(Arc::clone(inner), vouch));
        Ok(())
    }

    async fn come_back(&self, last_log_index: Option<u64>) -> Result<(), NodeError> {
        self.inner.announce_return(last_log_index).await;
        match timeout(Duration::ZERO, self.inner.local.stopped()).await {
            Ok(why) => Err(NodeError::Stopped(why)),
            Err(_) => Ok(()),
        }
    }

    fn begin_entering(&mut self) -> Result<(), NodeError> {
        let Options { node_id, peers, join, .. } = &self.inner.options;
        if join.is_none() && !peers.contains_key(node_id) {
            let why = "this data directory is new: give --peers (with this node among them) to \
                       form a cluster, or --join to enter one";
            return Err(NodeError::Options(why.to_owned()));
        }
        let inner = Arc::clone(&self.inner);
        self.tasks.spawn(owned(Arc::clone(&inner), async move {
            if let Err(error) = Arc::clone(&inner).enter_cluster().await {
                inner.local.stop(StopReason::from(error));
            }
        }));
        Ok(())
    }

    /// Where the internal listener is bound.
    #[must_use]
    pub fn listens_on(&self) -> Option<SocketAddr> {
        self.wire.listens_on()
    }

    /// A handle for callers; it works from any runtime, as long as the node lives.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { inner: Arc::clone(&self.inner) }
    }

    /// Resolves with the reason once this node must stop: its Raft core died, its storage failed,
    /// it was removed, or its peers found its data in doubt. Doubt stops a node; it never guesses.
    pub async fn stopped(&self) -> StopReason {
        self.inner.local.stopped().await
    }

    /// Stops taking part and flushes, within a bound.
    pub async fn shutdown(mut self) {
        if timeout(SHUTDOWN_TIMEOUT, self.inner.raft.shutdown()).await.is_err() {
            tracing::warn!("raft did not stop in time");
        }
        self.tasks.shutdown().await;
    }
}

/// On a thread that gives way: sled's threads inherit that, and so the end of a killed process does not
/// hold up the other nodes of its machine.
fn open_engine(dir: &DataDir) -> Result<SledEngine, StorageError> {
    let open = || {
        give_way();
        SledEngine::open(dir)
    };
    match std::thread::scope(|scope| scope.spawn(open).join()) {
        Ok(opened) => opened,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// openraft lets a leader that restarts lead on in its old term. What it acknowledged before lies
/// anywhere up to the end of its log, above the commit index it finds on disk: a linearizable read
/// must wait for all of it.
async fn resumed_as_leader(
    log: &mut LogStore,
    node_id: u64,
    last_log_id: Option<RaftLogId>,
) -> Result<Option<(u64, u64)>, NodeError> {
    let vote = log.read_vote().await.map_err(NodeError::raft)?;
    let leads = vote.filter(|vote| vote.committed && vote.leader_id.node_id == node_id);
    Ok(leads.and_then(|vote| Some((vote.leader_id.term, last_log_id?.index))))
}

/// Runs a task of the node; should it panic, the node stops, for nobody else does its work.
fn owned(
    inner: Arc<Inner>,
    task: impl Future<Output = ()> + Send + 'static,
) -> Pending<'static, ()> {
    let guard = StopOnPanic(Arc::clone(&inner.local));
    drop(inner);
    in_process(async move {
        let _guard = guard;
        task.await;
    })
}

/// What was purged from the log must be in the snapshot: without it the state would miss it.
fn check_snapshot(machine: &Machine, log: &LogStore) -> Result<(), NodeError> {
    let purged = log.purged().map_err(NodeError::raft)?;
    if machine.last_applied() >= purged || planted("missing-snapshot-accepted") {
        return Ok(());
    }
    let what = "the snapshot is missing or older than the log that was purged for it".to_owned();
    Err(NodeError::Storage(StorageError::Damaged { what }))
}

fn advertised(options: &Options, listens_on: Option<SocketAddr>) -> String {
    let listed = || options.peers.get(&options.node_id).cloned();
    let bound = || listens_on.map(|address| address.to_string());
    options.advertise_raft.clone().or_else(listed).or_else(bound).unwrap_or_default()
}

/// Why a node's part in the cluster is over.
enum End {
    Failed(String),
    Removed(u64),
}

/// Stops the node when its Raft core ends, or when it is removed from the membership.
async fn watch_raft(inner: Arc<Inner>) {
    let mut metrics = inner.raft.metrics();
    let mut was_member = false;
    let mut leader = None;
    loop {
        let ended = {
            let now = metrics.borrow_and_update();
            if now.current_leader != leader {
                leader = now.current_leader;
                report_leader(inner.local.node_id(), leader, now.current_term);
            }
            let members = &now.membership_config;
            let is_member = members
                .membership()
                .get_node(&inner.local.node_id())
                .is_some_and(|member| member.store == inner.local.store());
            let index = members.log_id().map(|id| id.index);
            let committed = now.last_applied.map(|id| id.index) >= index;
            match &now.running_state {
                Err(error) => Some(End::Failed(describe_end(error))),
                Ok(()) if was_member && !is_member && committed => {
                    Some(End::Removed(index.unwrap_or(0)))
                }
                Ok(()) => {
                    was_member |= is_member;
                    None
                }
            }
        };
        match ended {
            Some(End::Failed(why)) => return inner.local.stop(why),
            Some(End::Removed(index)) => return inner.local.stop_as_removed(index).await,
            None => {}
        }
        if metrics.changed().await.is_err() {
            return inner.local.stop("the raft core has ended".to_owned());
        }
    }
}

fn report_leader(me: u64, leader: Option<u64>, term: u64) {
    match leader {
        Some(id) if id == me => tracing::info!(node = me, term, "this node leads now"),
        Some(id) => tracing::info!(node = me, leader = id, term, "following a leader"),
        None => tracing::warn!(node = me, term, "no leader is known; an election is under way"),
    }
}

fn describe_end(error: &openraft::error::Fatal<u64>) -> String {
    match error {
        openraft::error::Fatal::StorageError(error) => describe_storage_end(error),
        error => format!("the raft core has ended: {error}"),
    }
}

fn describe_storage_end(error: &RaftStorageError<u64>) -> String {
    format!("the storage failed, and what is on disk is unknown from here on: {error}")
}
