//! How to open a node: options, timers, bounds, the clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::NodeError;

/// The wall clock, as far as this crate needs it. The leader stamps entries with the median of the
/// voters' clocks.
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds; may go back.
    fn now_ms(&self) -> u64;
}

/// Raft's timers and bounds.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// How long a replication message may take, the follower's sync included, before it is sent
    /// again. openraft's clock ticks once in one and a half of it.
    pub message_max: Duration,
    /// How long a follower refuses to elect another after a leader's last message.
    pub lease: Duration,
    /// Shortest silence of a leader after which a follower stands for election.
    pub election_min: Duration,
    /// Longest such silence. A leader that no quorum answered for so long falls silent itself.
    pub election_max: Duration,
    /// How long one start of the store lasts: an image of a running node that is this much older than
    /// what its peers have seen is told from the node.
    pub start_max: Duration,
    /// Log entries after which a snapshot is taken.
    pub snapshot_entries: u64,
    /// Log entries kept behind a snapshot, for followers that are a little late.
    pub keep_entries: u64,
}

impl Default for Tuning {
    /// A leader whose process is gone is replaced after a lease, in a fifth of a second. One that is
    /// only silent is given 350 to 500 ms: a busy machine stutters for less, and two heartbeats may be
    /// late. A message leaves room for a sync of 100 ms on a bad day.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            message_max: Duration::from_millis(120),
            lease: Duration::from_millis(150),
            election_min: Duration::from_millis(350),
            election_max: Duration::from_millis(500),
            start_max: Duration::from_secs(60),
            snapshot_entries: 20_000,
            keep_entries: 1_000,
        }
    }
}

impl Tuning {
    /// The same, with a snapshot after so many log entries, of which a twentieth is kept behind it.
    #[must_use]
    pub fn with_snapshots_every(self, entries: u64) -> Self {
        let keep_entries = (entries / 20).clamp(1, Self::default().keep_entries);
        Self { snapshot_entries: entries, keep_entries, ..self }
    }

    /// This long after a leader's last message was sent, its lease has run out everywhere, also if that
    /// message was under way for as long as it may be.
    pub(crate) fn lease_end(&self) -> Duration {
        self.lease + self.message_max
    }

    pub(crate) fn config(&self) -> Result<Arc<Config>, NodeError> {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: "mintleaf".to_owned(),
            // See `heartbeat.rs`.
            enable_heartbeat: false,
            heartbeat_interval: ms(self.message_max),
            // openraft holds no elections of its own (`election.rs`). The shorter of these two is the
            // timeout of a request for a vote, the longer one the lease.
            election_timeout_min: ms(self.lease) - 1,
            election_timeout_max: ms(self.lease),
            // Time for one chunk; the last one includes restoring the state. While a lost one is waited
            // for, its receiver is sent nothing else, and it shall serve within 10 s.
            install_snapshot_timeout: 5_000,
            snapshot_max_chunk_size: 1 << 20,
            max_payload_entries: 1024,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            max_in_snapshot_log_to_keep: self.keep_entries,
            // One purge costs one sync, so not one per entry.
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
    /// Its data directory.
    pub data: PathBuf,
    /// Random; becomes the store's identity when the directory is new.
    pub fresh_store: u128,
    /// Random; tells this process start from every other.
    pub boot_nonce: u128,
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
