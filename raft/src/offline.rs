//! A node's directory while no node runs on it: reading a stopped node's directory, and making the directory of a new
//! cluster's only node.
//!
//! Reading returns all that the directory holds: the snapshot, and every log entry above it, committed or not. An
//! entry that one node appended may also be on a quorum, so each entry may have been acknowledged.
//!
//! A new directory has the cluster id and the store that the caller drew. The node that starts on it accepts no
//! message of any other cluster, and no other cluster accepts its messages (`identity`). The log is empty: it begins
//! after one snapshot, which holds the state that the caller supplied and a membership of that one node.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mintleaf_storage::{
    DataDir, LogEngine, MetaKey, NewDir, SledEngine, Snapshots, StoppedDir, StorageError,
};
use openraft::{EntryPayload, LeaderId, Membership};
use thiserror::Error;

use crate::raft_storage::{disk_format, stamp_of};
use crate::state_machine::{FrozenState, Newer, RestoreError, StateMachine};
use crate::types::{Member, RaftLogId, RaftMembership, RaftVote};

/// The term of the last entry that a new cluster's snapshot covers.
const FIRST_TERM: u64 = 1;
/// How many bytes of log entries are read at once.
const READ_BYTES: usize = 1 << 20;

/// What a stopped node's directory records about it, besides its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoppedNode {
    /// The node that the directory belongs to.
    pub node_id: Option<u64>,
    /// The cluster that the node belongs to; `None` before it has taken part in one.
    pub cluster_id: Option<u128>,
    /// The term of the last entry in its log or its snapshot; `None` if both are empty. Of two directories, the one
    /// with the higher term, then leader, then index holds everything acknowledged that the other holds: a leader that was
    /// cut off goes on appending in its old term what is never committed.
    pub log_term: Option<u64>,
    /// The leader that wrote that entry. Two nodes can lead one after the other in one term, in the order of their ids.
    pub log_leader: Option<u64>,
    /// The index of that entry.
    pub log_index: Option<u64>,
}

/// The beginning of a new cluster of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// The one node's Raft id, 1 or more.
    pub node_id: u64,
    /// A random number, which becomes the store's identity.
    pub store: u128,
    /// A random number, which becomes the cluster's identity.
    pub cluster_id: u128,
    /// The last index that counts as applied, 1 or more.
    pub log_index: u64,
}

/// Why a directory could not be read or made.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// The directory is damaged: it holds less than what its node acknowledged.
    #[error("{} is damaged: {what}", .dir.display())]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// Which bytes, and how they differ from what was acknowledged.
        what: String,
    },
    /// The log or the snapshot has a higher level than this build supports.
    #[error("{0}")]
    Newer(Newer),
    /// The directory cannot be used.
    #[error(transparent)]
    Storage(StorageError),
}

/// Reads a stopped node's directory into `state`, which is empty: first the snapshot, then every log entry above it.
/// `applied` receives the index of each entry. The directory is not written to. A copy of its log is kept in
/// `scratch` until this returns, a directory that must not exist.
///
/// # Errors
/// [`OfflineError`]: when a node runs on the directory, when anything that its node acknowledged is damaged, or when
/// this build does not support its level.
pub fn read_stopped(
    source: &Path,
    scratch: &Path,
    state: &dyn StateMachine,
    mut applied: impl FnMut(u64),
) -> Result<StoppedNode, OfflineError> {
    let in_source = |error| in_directory(source, error);
    let dir = StoppedDir::open(source).map_err(in_source)?;
    let mut last = restore_snapshot(&dir, state, in_source)?;
    let Some(log) = dir.copy_log(scratch).map_err(in_source)? else {
        let node_id = dir.owner();
        return Ok(StoppedNode { node_id, ..StoppedNode::default() });
    };
    let log = &log.engine;
    let cluster_id = log.get_meta(MetaKey::Cluster).map_err(in_source)?;
    let cluster_id = cluster_id.map(|record| disk_format::decode_cluster_id(&record)).transpose();
    let cluster_id =
        cluster_id.map_err(|error| in_source(disk_format::damaged("the cluster id", &error)))?;
    let purged = log.purge_mark().map(|(index, _)| index);
    if purged > last.map(|id| id.index) {
        let what = "the snapshot is missing or older than the log that was purged for it";
        return Err(in_source(StorageError::Damaged { what: what.to_owned() }));
    }
    while let Some(read) = read_entries(log, last.map(|id| id.index)).map_err(in_source)? {
        for record in read {
            let entry = disk_format::decode_entry(&record)
                .map_err(|error| in_source(disk_format::damaged("a log entry", &error)))?;
            if let EntryPayload::Normal(batch) = entry.payload {
                let stamp = stamp_of(entry.log_id, batch.now_ms);
                for command in &batch.commands {
                    state.apply(stamp, command).map_err(OfflineError::Newer)?;
                }
            }
            last = Some(entry.log_id);
            applied(entry.log_id.index);
        }
    }
    Ok(StoppedNode {
        node_id: dir.owner(),
        cluster_id,
        log_term: last.map(|id| id.leader_id.term),
        log_leader: last.map(|id| id.leader_id.node_id),
        log_index: last.map(|id| id.index),
    })
}

/// Restores the snapshot, and returns the last entry that it covers.
fn restore_snapshot(
    dir: &StoppedDir,
    state: &dyn StateMachine,
    in_source: impl Fn(StorageError) -> OfflineError,
) -> Result<Option<RaftLogId>, OfflineError> {
    let Some(snapshot) = dir.snapshot().map_err(&in_source)? else { return Ok(None) };
    let meta = disk_format::decode_snapshot_meta(&snapshot.meta)
        .map_err(|error| in_source(disk_format::damaged("the snapshot's head", &error)))?;
    state.restore(&mut snapshot.body()).map_err(|error| match error {
        RestoreError::Newer(newer) => OfflineError::Newer(newer),
        RestoreError::Io(error) => {
            in_source(StorageError::Damaged { what: format!("the snapshot: {error}") })
        }
    })?;
    Ok(meta.last_log_id)
}

/// Some of the next entries above `last`; `None` when there are no more.
fn read_entries(
    log: &dyn LogEngine,
    last: Option<u64>,
) -> Result<Option<Vec<Vec<u8>>>, StorageError> {
    let Some((first, end)) = log.bounds() else { return Ok(None) };
    let from = last.map_or(first, |last| first.max(last + 1));
    let read = log.read(from..end.saturating_add(1), READ_BYTES)?;
    Ok((!read.is_empty()).then_some(read))
}

/// The directory where a new cluster of one node begins. Until the cluster has begun, no node starts on it, and
/// dropping this removes it.
#[derive(Debug)]
pub struct NewCluster(NewDir);

impl NewCluster {
    /// Prepares a directory at `data`, which must not exist or must be an empty directory.
    ///
    /// # Errors
    /// [`OfflineError::Storage`] when the directory is not empty, or cannot be written.
    pub fn prepare(data: &Path) -> Result<Self, OfflineError> {
        NewDir::begin(data).map(Self).map_err(OfflineError::Storage)
    }

    /// Where a directory may be made for temporary data until the cluster begins.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.0.scratch()
    }

    /// Begins the cluster with this state. The directory is complete when this returns.
    ///
    /// # Errors
    /// [`OfflineError::Storage`] when the directory cannot be written.
    pub fn begin(self, beginning: &Beginning, state: FrozenState) -> Result<(), OfflineError> {
        let Self(dir) = self;
        fill(&dir, beginning, state).and_then(|()| dir.finish()).map_err(OfflineError::Storage)
    }
}

fn fill(new: &NewDir, beginning: &Beginning, state: FrozenState) -> Result<(), StorageError> {
    let &Beginning { node_id, store, cluster_id, log_index } = beginning;
    let dir = new.open_for(store, node_id)?;
    let last = RaftLogId::new(LeaderId::new(FIRST_TERM, node_id), log_index);
    write_snapshot(&dir, last, state)?;
    let engine = SledEngine::open(&dir)?;
    engine.purge_upto(log_index, &disk_format::encode_log_id(last))?;
    engine
        .put_meta(MetaKey::Vote, &disk_format::encode_vote(&RaftVote::new(FIRST_TERM, node_id)))?;
    engine.put_meta(MetaKey::Cluster, &disk_format::encode_cluster_id(cluster_id))?;
    engine.sync()
}

/// Writes the state as a snapshot up to `last`, in a membership of the one node. That node's addresses are not known
/// yet; it announces them once it has started.
fn write_snapshot(dir: &DataDir, last: RaftLogId, state: FrozenState) -> Result<(), StorageError> {
    let node_id = last.leader_id.node_id;
    let member = Member { store: dir.store_id(), ..Member::default() };
    let voters = vec![BTreeSet::from([node_id])];
    let membership = Membership::new(voters, BTreeMap::from([(node_id, member)]));
    let members = RaftMembership::new(Some(last), membership);
    let meta = disk_format::encode_snapshot_meta(Some(last), &members);
    let mut state = Some(state);
    Snapshots::open(dir)?.write(&meta, &mut |out: &mut dyn Write| match state.take() {
        Some(write) => write(out),
        None => Err(io::Error::other("the state was written already")),
    })
}

/// The error for a directory that is being read. It may be the last copy, so the text never advises removing it.
fn in_directory(dir: &Path, error: StorageError) -> OfflineError {
    match error {
        StorageError::Damaged { what } => OfflineError::Damaged { dir: dir.to_path_buf(), what },
        other => OfflineError::Storage(other),
    }
}
