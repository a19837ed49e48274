//! The options of a node: timers, bounds and the clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::NodeError;
use crate::transport::Security;

/// The address of a node that no other node reaches.
const NOWHERE: &str = "127.0.0.1:1";

/// The wall clock. The leader stamps entries with the median of the voters' clocks.
pub trait Clock: Send + Sync + 'static {
    /// The time in Unix milliseconds; it may go back.
    fn now_ms(&self) -> u64;
}

/// Raft's timers and bounds.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Time between two heartbeats.
    pub heartbeat: Duration,
    /// How long a candidate gets to win at first, on fast disks and links.
    pub message_max: Duration,
    /// The leader lease: for this long after a leader's last message, a follower refuses to elect another leader.
    pub lease: Duration,
    /// Shortest silence of a leader after which a follower campaigns.
    pub election_min: Duration,
    /// Longest silence of a leader after which a follower campaigns. A leader that no quorum answered for this long
    /// falls silent itself.
    pub election_max: Duration,
    /// Longest duration of one incarnation of the store: every start begins one, and so does a process after this
    /// time. Peers can distinguish a running node from an image of it that is older than this.
    pub incarnation_max: Duration,
    /// Number of log entries after which a snapshot is taken.
    pub snapshot_entries: u64,
    /// Number of log entries kept behind a snapshot. A follower that can keep up lags by two appends at most, one on
    /// its way to the disk and one that has gathered meanwhile. A slow disk would never catch up by snapshots if the log
    /// behind them ended before that.
    pub keep_entries: u64,
    /// How many incoming connections the internal listener keeps open at a time, proven or not.
    pub peer_connections_max: usize,
}

/// How many incoming connections the internal listener of a node in production keeps open at a time: 128 that have
/// not proved themselves yet, and 256 that have.
pub const PEER_CONNECTIONS_MAX: usize = 384;

impl Default for Tuning {
    /// The timers of production. A leader whose process is gone is replaced after its leader lease, in a fifth of a
    /// second. A leader that is only silent gets 350 to 500 ms: a busy machine stutters for less, and a follower
    /// misses three heartbeats before it campaigns. On slow links all of these grow (`peers/timers.rs`).
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            message_max: Duration::from_millis(120),
            lease: Duration::from_millis(150),
            election_min: Duration::from_millis(350),
            election_max: Duration::from_millis(500),
            incarnation_max: Duration::from_secs(60),
            snapshot_entries: 20_000,
            keep_entries: 4_000,
            peer_connections_max: PEER_CONNECTIONS_MAX,
        }
    }
}

impl Tuning {
    /// Takes a snapshot after this many log entries, and keeps a fifth of them behind it.
    #[must_use]
    pub fn with_snapshots_every(self, entries: u64) -> Self {
        let keep_entries = (entries / 5).clamp(1, Self::default().keep_entries);
        Self { snapshot_entries: entries, keep_entries, ..self }
    }

    pub(crate) fn config(&self) -> Result<Arc<Config>, NodeError> {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: "mintleaf".to_owned(),
            // `election/heartbeat.rs` sends the heartbeats.
            enable_heartbeat: false,
            heartbeat_interval: ms(self.message_max),
            // openraft holds no elections itself (`election/campaign.rs`). The shorter of these two is the timeout of
            // a vote request, the longer one is the leader lease.
            election_timeout_min: ms(self.lease) - 1,
            election_timeout_max: ms(self.lease),
            // Time for one chunk; the last chunk includes restoring the state. The leader sends nothing else to a
            // receiver while it waits for a lost chunk, and the receiver must serve within 10 s.
            install_snapshot_timeout: 5_000,
            snapshot_max_chunk_size: 1 << 20,
            max_payload_entries: 1024,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            max_in_snapshot_log_to_keep: self.keep_entries,
            // A purge costs a sync, so it drops many entries at once.
            purge_batch_size: self.keep_entries.clamp(1, 1024),
            enable_elect: false,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| NodeError::Options(error.to_string()))?;
        Ok(Arc::new(config))
    }
}

/// How to open a [`Node`](crate::Node).
#[derive(Debug, Clone)]
pub struct Options {
    /// This node's Raft id, 1 or more.
    pub node_id: u64,
    /// The data directory of this node.
    pub data: PathBuf,
    /// Whether the data directory may be a copy of another one, which is not in use and never will be.
    pub moved: bool,
    /// A random number that becomes the store's identity if the directory is new.
    pub fresh_store: u128,
    /// A random number that distinguishes this process from every other.
    pub boot_nonce: u128,
    /// The address of the internal listener; `None` for a cluster of one, which has no peers.
    pub listen: Option<SocketAddr>,
    /// The internal address that this node advertises instead of the bound one.
    pub advertise_raft: Option<String>,
    /// The address where clients reach this node.
    pub advertise_http: String,
    /// The zone of this node, for clients that prefer nearby nodes; empty if none was given.
    pub zone: String,
    /// The founders' internal addresses, this node's included. Only a new node founds a cluster with them.
    pub peers: BTreeMap<u64, String>,
    /// The address of the member that a new node asks to add it, instead of founding a cluster.
    pub join: Option<String>,
    /// How members prove themselves to each other.
    pub security: Security,
    /// Timers and bounds.
    pub tuning: Tuning,
}

impl Options {
    /// A node of tests and benchmarks, which is a cluster by itself. Its id stands for the random numbers too.
    pub fn alone(node_id: u64, data: PathBuf) -> Self {
        Self {
            node_id,
            data,
            moved: false,
            fresh_store: node_id.into(),
            boot_nonce: node_id.into(),
            listen: None,
            advertise_raft: Some(NOWHERE.to_owned()),
            advertise_http: NOWHERE.to_owned(),
            zone: String::new(),
            peers: [(node_id, NOWHERE.to_owned())].into(),
            join: None,
            security: Security::Plain,
            tuning: Tuning::default(),
        }
    }

    /// The list of founders that this node was started with, in order; empty for a node that joins.
    pub(crate) fn founders(&self) -> String {
        let listed = self.peers.iter().map(|(id, address)| format!("{id}={address}"));
        listed.collect::<Vec<_>>().join(",")
    }
}
