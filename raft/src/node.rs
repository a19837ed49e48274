//! [`Node`]: one member of the cluster, and the owner of everything in this crate that runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use mintleaf_storage::{DataDir, LogEngine, SledEngine, Snapshots, StorageError};
use openraft::{Config, SnapshotPolicy, StorageError as RaftStorageError};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::StateMachine;
use crate::coalesce::{self, Proposal};
use crate::guard::Refusal;
use crate::local::Local;
use crate::machine::Machine;
use crate::members::{Change, MemberError};
use crate::store::LogStore;
use crate::transport::{Client, Listener, NetworkFactory, Request, Response};
use crate::types::{Member, Raft};

/// Bytes of one proposal at most, commands taken together.
pub const PROPOSAL_BYTES_MAX: usize = 32 << 10;
const READ_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(20);
const START_TIMEOUT: Duration = Duration::from_secs(30);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The wall clock, as far as this crate needs it. The leader stamps entries with it.
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds; may go back.
    fn now_ms(&self) -> u64;
}

/// Raft's timers and bounds.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Between two heartbeats. Also the time a replication message may take, the follower's sync
    /// included, before it is sent again.
    pub heartbeat: Duration,
    /// Shortest election timeout.
    pub election_min: Duration,
    /// Longest election timeout, and how long followers stay loyal to a silent leader.
    pub election_max: Duration,
    /// Log entries after which a snapshot is taken.
    pub snapshot_entries: u64,
    /// Log entries kept behind a snapshot, for followers that are a little late.
    pub keep_entries: u64,
}

impl Default for Tuning {
    /// A follower stands for election `election_max` plus its own timeout after the leader's last
    /// sign of life, so a dead leader is replaced after 1.2 to 1.6 s. The heartbeat leaves room
    /// for a sync of 100 ms on a bad day.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(450),
            election_max: Duration::from_millis(750),
            snapshot_entries: 20_000,
            keep_entries: 1_000,
        }
    }
}

impl Tuning {
    /// After this long without a sign of the leader, followers vote for another.
    pub(crate) fn lease(&self) -> Duration {
        self.election_max + self.heartbeat
    }

    pub(crate) fn transfer_max(&self) -> Duration {
        4 * self.election_max
    }

    fn config(&self) -> Result<Arc<Config>, NodeError> {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: "mintleaf".to_owned(),
            heartbeat_interval: ms(self.heartbeat),
            election_timeout_min: ms(self.election_min),
            election_timeout_max: ms(self.election_max),
            // Time for one chunk; the last one includes restoring the state.
            install_snapshot_timeout: 10_000,
            snapshot_max_chunk_size: 1 << 20,
            max_payload_entries: 1024,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            max_in_snapshot_log_to_keep: self.keep_entries,
            // One purge costs one sync, so not one per entry.
            purge_batch_size: 1024,
            // Switched on once the peers were asked whether this store is still known.
            enable_elect: false,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| NodeError::Options(error.to_string()))?;
        Ok(Arc::new(config))
    }
}

/// How to open a [`Node`].
#[derive(Debug, Clone)]
pub struct Options {
    /// This node's Raft id, 1 or more.
    pub node_id: u64,
    /// Its data directory.
    pub data: PathBuf,
    /// Random; becomes the store's identity when the directory is new.
    pub fresh_store: u128,
    /// Where the internal listener binds; `None` for a cluster of one that has no peers.
    pub listen: Option<SocketAddr>,
    /// What to tell others instead of the bound address.
    pub advertise_raft: Option<String>,
    /// Where clients reach this node.
    pub advertise_http: String,
    /// The founders' internal addresses, this node among them. Only looked at while new.
    pub peers: BTreeMap<u64, String>,
    /// A member to ask for admission instead. Only looked at while new.
    pub join: Option<String>,
    /// What members prove to each other.
    pub secret: Option<Vec<u8>>,
    /// Timers and bounds.
    pub tuning: Tuning,
}

/// Why a node could not be opened or went on no longer.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(StorageError),
    /// The internal listener cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The options contradict each other or the data directory.
    #[error("{0}")]
    Options(String),
    /// Raft refused or ended.
    #[error("raft: {0}")]
    Raft(String),
    /// This node must not go on; says why and what to do.
    #[error("{0}")]
    Stopped(String),
}

impl NodeError {
    pub(crate) fn raft(error: impl ToString) -> Self {
        Self::Raft(error.to_string())
    }
}

/// Whether a proposal may be made again when nobody knows what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It may be applied twice, and only costs something.
    Always,
    /// It must not be applied twice.
    Never,
}

/// Why a proposal or a read was not carried through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// No leader or no quorum in time. Not applied, unless [`Retry::Always`] was given.
    #[error("the cluster did not answer in time: {0}")]
    Unavailable(String),
    /// It may or may not be applied, now or later.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// Too many proposals wait already. Not applied.
    #[error("too many proposals are waiting")]
    Overloaded,
}

impl ProposeError {
    /// Whether the same request may succeed later. After [`ProposeError::Unknown`], look first.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// Everything that the tasks of a node share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) local: Arc<Local>,
    pub(crate) raft: Raft,
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Set while leadership is handed over: nothing is appended meanwhile.
    pub(crate) paused: watch::Sender<bool>,
    /// Held while the membership changes.
    pub(crate) changing: Mutex<()>,
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

    /// The cluster this node has taken part in; `None` while it is new.
    pub(crate) fn formed(&self) -> Option<u128> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let took_part = metrics.last_log_index.is_some() || metrics.current_term > 0;
        if took_part { self.local.cluster() } else { None }
    }

    pub(crate) async fn propose(
        &self,
        commands: Vec<Vec<u8>>,
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
        let confirmed =
            timeout(READ_ATTEMPT_TIMEOUT, self.raft.get_read_log_id()).await.ok()?.ok()?;
        confirmed.0.map(|log_id| log_id.index)
    }
}

fn stopping() -> ProposeError {
    ProposeError::Unavailable("this node is stopping".to_owned())
}

/// A running member of the cluster.
pub struct Node {
    inner: Arc<Inner>,
    tasks: JoinSet<()>,
    listens_on: Option<SocketAddr>,
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
        let dir = DataDir::open(&options.data, options.fresh_store)?;
        let engine: Arc<dyn LogEngine> = Arc::new(SledEngine::open(&dir)?);
        let snapshots = Arc::new(Snapshots::open(&dir)?);
        let log = LogStore::start(engine).map_err(NodeError::raft)?;
        let local = Local::load(options.node_id, dir.store_id(), dir.starts(), log.clone())?;
        let local = Arc::new(local);
        let listener = bind(options.listen).await?;
        let listens_on = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let secret = header_value(options.secret.as_deref())?;
        let client = Arc::new(Client::new(Arc::clone(&local), secret));
        let machine = Machine::open(state, snapshots)?;
        let last_log_id = log.last_log_id().map_err(NodeError::raft)?;
        let raft = Raft::new(
            options.node_id,
            options.tuning.config()?,
            NetworkFactory(Arc::clone(&client)),
            log,
            machine,
        );
        let raft = raft.await.map_err(NodeError::raft)?;
        local.watch(raft.metrics());
        let (queue, proposals) = mpsc::channel(coalesce::QUEUE_MAX);
        let advertise_raft = advertised(&options, listens_on);
        let inner = Arc::new(Inner {
            options,
            local,
            raft,
            client,
            clock,
            paused: watch::Sender::new(false),
            changing: Mutex::new(()),
            queue,
            advertise_raft,
        });
        let mut node = Self { inner, tasks: JoinSet::new(), listens_on, _dir: dir };
        node.start(last_log_id.map(|id| id.index), listener, proposals).await?;
        Ok(node)
    }

    async fn start(
        &mut self,
        last_log_index: Option<u64>,
        listener: Option<Listener>,
        proposals: mpsc::Receiver<Proposal>,
    ) -> Result<(), NodeError> {
        let inner = &self.inner;
        let mut metrics = inner.raft.metrics();
        let loaded = metrics.wait_for(|now| now.last_log_index == last_log_index);
        timeout(START_TIMEOUT, loaded)
            .await
            .map_err(|_| NodeError::raft("did not start in time"))?
            .map_err(NodeError::raft)?;
        self.tasks.spawn(watch_raft(Arc::clone(inner)));
        if inner.formed().is_some() {
            self.come_back(last_log_index).await?;
        } else {
            self.begin_entering()?;
        }
        let inner = &self.inner;
        if let Some(listener) = listener {
            let secret = inner.options.secret.clone();
            self.tasks.spawn(listener.serve(Arc::clone(inner), secret));
        }
        self.tasks.spawn(coalesce::run(Arc::clone(inner), proposals));
        inner.raft.runtime_config().elect(true);
        inner.elect_if_alone().await;
        Ok(())
    }

    async fn come_back(&self, last_log_index: Option<u64>) -> Result<(), NodeError> {
        let members = self.inner.local.members();
        let members = members.nodes().map(|(id, member)| (*id, member.clone())).collect();
        self.inner.announce_return(&members, last_log_index).await;
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
        self.tasks.spawn(async move {
            if let Err(error) = Arc::clone(&inner).enter_cluster().await {
                inner.local.stop(error.to_string());
            }
        });
        Ok(())
    }

    /// Where the internal listener is bound.
    #[must_use]
    pub fn listens_on(&self) -> Option<SocketAddr> {
        self.listens_on
    }

    /// A handle for callers; it works from any runtime, as long as the node lives.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { inner: Arc::clone(&self.inner) }
    }

    /// Resolves with the reason once this node must stop: its Raft core died, its storage failed,
    /// it was removed, or its peers found its data in doubt. Doubt stops a node; it never guesses.
    pub async fn stopped(&self) -> String {
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

async fn bind(address: Option<SocketAddr>) -> Result<Option<Listener>, NodeError> {
    let Some(address) = address else { return Ok(None) };
    let bound = Listener::bind(address).await;
    bound.map(Some).map_err(|source| NodeError::Listen { address, source })
}

fn header_value(secret: Option<&[u8]>) -> Result<Option<HeaderValue>, NodeError> {
    let value = secret.map(HeaderValue::from_bytes).transpose();
    let mut value =
        value.map_err(|_| NodeError::Options("the cluster secret must be printable".to_owned()))?;
    if let Some(value) = &mut value {
        value.set_sensitive(true);
    }
    Ok(value)
}

fn advertised(options: &Options, listens_on: Option<SocketAddr>) -> String {
    let listed = || options.peers.get(&options.node_id).cloned();
    let bound = || listens_on.map(|address| address.to_string());
    options.advertise_raft.clone().or_else(listed).or_else(bound).unwrap_or_default()
}

/// Stops the node when its Raft core ends, or when it is removed from the membership.
async fn watch_raft(inner: Arc<Inner>) {
    let mut metrics = inner.raft.metrics();
    let mut was_member = false;
    loop {
        let ended = {
            let now = metrics.borrow_and_update();
            let members = &now.membership_config;
            let is_member = members
                .membership()
                .get_node(&inner.local.node_id())
                .is_some_and(|member| member.store == inner.local.store());
            let index = members.log_id().map(|id| id.index);
            let committed = now.last_applied.map(|id| id.index) >= index;
            match &now.running_state {
                Err(error) => Some(describe_end(error)),
                Ok(()) if was_member && !is_member && committed => {
                    let members_index = index.unwrap_or(0);
                    Some(Refusal::Removed { members_index }.to_string())
                }
                Ok(()) => {
                    was_member |= is_member;
                    None
                }
            }
        };
        if let Some(why) = ended {
            return inner.local.stop(why);
        }
        if metrics.changed().await.is_err() {
            return inner.local.stop("the raft core has ended".to_owned());
        }
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

/// A member's part in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Leads the current term.
    Leader,
    /// Votes.
    Voter,
    /// Replicates only.
    Learner,
}

/// One member, as this node knows it.
#[derive(Debug, Clone)]
pub struct MemberStatus {
    /// Raft id.
    pub id: u64,
    /// Internal address.
    pub raft: String,
    /// Client address.
    pub http: String,
    /// Part in the cluster.
    pub role: Role,
    /// Last log index known to be on that member's disk; known to the leader, and of oneself.
    pub matched_index: Option<u64>,
    /// Whether the last call to it, within the last seconds, was answered.
    pub reachable: Option<bool>,
}

/// What this node knows of the cluster, without asking anybody.
#[derive(Debug, Clone)]
pub struct Status {
    /// The cluster's name; `None` before it has formed.
    pub cluster_id: Option<u128>,
    /// This node.
    pub node_id: u64,
    /// The leader, when one is known and, if it is this node, has a quorum behind it.
    pub leader_id: Option<u64>,
    /// Raft's current term.
    pub term: u64,
    /// Last index in this node's log.
    pub last_log_index: Option<u64>,
    /// Last index this node has applied.
    pub last_applied_index: Option<u64>,
    /// Last index covered by this node's newest snapshot.
    pub snapshot_index: Option<u64>,
    /// Every member, by id.
    pub members: Vec<MemberStatus>,
}

/// What callers do with a [`Node`]; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
}

impl Handle {
    /// Has commands applied, in order and together, and returns their replies in that order.
    /// Works on any node: followers send them to the leader.
    ///
    /// # Errors
    /// See [`ProposeError`]; always by the deadline.
    ///
    /// # Panics
    /// When the commands are larger than [`PROPOSAL_BYTES_MAX`].
    pub async fn propose(
        &self,
        commands: Vec<Vec<u8>>,
        retry: Retry,
        deadline: Instant,
    ) -> Result<Vec<Vec<u8>>, ProposeError> {
        let bytes: usize = commands.iter().map(Vec::len).sum();
        assert!(bytes <= PROPOSAL_BYTES_MAX, "a proposal of {bytes} bytes is too large");
        self.inner.propose(commands, retry, deadline, false).await
    }

    /// Waits until this node has applied everything that was committed when the call began: a
    /// read of the local state is linearizable afterwards.
    ///
    /// # Errors
    /// [`ProposeError::Unavailable`] when no quorum confirmed a leader by the deadline.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ProposeError> {
        let late = |what: &str| ProposeError::Unavailable(what.to_owned());
        let index = loop {
            match timeout_at(deadline, self.inner.read_index()).await {
                Ok(Some(index)) => break index,
                Ok(None) if Instant::now() + READ_RETRY_INTERVAL < deadline => {
                    tokio::time::sleep(READ_RETRY_INTERVAL).await;
                }
                _ => return Err(late("no leader with a quorum")),
            }
        };
        let mut metrics = self.inner.raft.metrics();
        let applied = metrics.wait_for(|now| now.last_applied.is_some_and(|id| id.index >= index));
        match timeout_at(deadline, applied).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(late("this node lags behind the leader")),
        }
    }

    /// Adds a node as a learner and, if `voter`, promotes it once it has caught up. May be asked
    /// again after it was not finished in time. `http` may be empty: the node is asked for it.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn add_member(
        &self,
        id: u64,
        raft: String,
        http: String,
        voter: bool,
    ) -> Result<(), MemberError> {
        self.inner.change(Change::Add { id, raft, http, voter, store: None }).await
    }

    /// Removes a node, voter or learner; it stops by itself when it learns of it.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn remove_member(&self, id: u64) -> Result<(), MemberError> {
        self.inner.change(Change::Remove { id }).await
    }

    /// Makes a voter the leader. New proposals wait about one election timeout meanwhile.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn transfer_leader(&self, id: u64) -> Result<(), MemberError> {
        self.inner.change(Change::Transfer { id }).await
    }

    /// What this node knows of the cluster, without asking anybody.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = self.inner.raft.metrics();
        let now = metrics.borrow();
        let me = self.inner.local.node_id();
        // A leader that lost its quorum does not notice by itself; do not claim to lead then.
        let lease_ms = self.inner.options.tuning.lease().as_millis();
        let deposed = now.current_leader == Some(me)
            && now.membership_config.voter_ids().count() > 1
            && now.millis_since_quorum_ack.is_none_or(|ms| u128::from(ms) > 2 * lease_ms);
        let leader_id = now.current_leader.filter(|_| !deposed);
        let voters: Vec<u64> = now.membership_config.voter_ids().collect();
        let role = |id: u64| match id {
            id if leader_id == Some(id) => Role::Leader,
            id if voters.contains(&id) => Role::Voter,
            _ => Role::Learner,
        };
        let matched = |id: u64| match id {
            id if id == me => now.last_log_index,
            id => now.replication.as_ref().and_then(|all| *all.get(&id)?).map(|id| id.index),
        };
        let members = now.membership_config.nodes().map(|(&id, member)| MemberStatus {
            id,
            raft: member.raft.clone(),
            http: member.http.clone(),
            role: role(id),
            matched_index: matched(id),
            reachable: if id == me { Some(true) } else { self.inner.client.is_reachable(id) },
        });
        Status {
            cluster_id: self.inner.formed(),
            node_id: me,
            leader_id,
            term: now.current_term,
            last_log_index: now.last_log_index,
            last_applied_index: now.last_applied.map(|id| id.index),
            snapshot_index: now.snapshot.map(|id| id.index),
            members: members.collect(),
        }
    }
}
