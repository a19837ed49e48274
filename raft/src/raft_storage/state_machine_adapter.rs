//! openraft's state machine over the caller's [`StateMachine`], and its snapshots.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use mintleaf_storage::{SnapshotTemp, Snapshots, StorageError};
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{
    AnyError, EntryPayload, ErrorSubject, ErrorVerb, OptionalSend, SnapshotMeta, StorageIOError,
};
use parking_lot::Mutex;

use super::disk_format;
use super::durable_snapshot::DurableSnapshot;
use super::replay::Replay;
use crate::runtime;
use crate::state_machine::{FrozenState, Newer, RestoreError, Stamp, StateMachine};
use crate::stop::{StopHandle, StopOnPanic};
use crate::types::{Member, RaftEntry, RaftLogId, RaftMembership, Replies, SnapshotFile, Types};

type RaftStorageError = openraft::StorageError<u64>;
type RaftSnapshotMeta = SnapshotMeta<u64, Member>;

/// Applies committed entries, in order, to the caller's state machine.
///
/// The state is held in memory: a start restores it from the newest snapshot and the log after it.
pub(crate) struct StateMachineAdapter {
    state: Arc<dyn StateMachine>,
    snapshots: Arc<Snapshots>,
    durable: Arc<DurableSnapshot>,
    replay: Arc<Replay>,
    last_applied: Option<RaftLogId>,
    membership: RaftMembership,
    // Without this, openraft would wait for ever for the replies of an apply that panicked.
    guard: StopOnPanic,
}

impl StateMachineAdapter {
    /// Restores the newest snapshot, if there is one.
    pub(crate) fn open(
        state: Arc<dyn StateMachine>,
        snapshots: Arc<Snapshots>,
        durable: DurableSnapshot,
        stop: StopHandle,
    ) -> Result<Self, StorageError> {
        let mut machine = Self {
            state,
            snapshots,
            durable: Arc::new(durable),
            replay: Arc::default(),
            last_applied: None,
            membership: RaftMembership::default(),
            guard: StopOnPanic(stop),
        };
        if let Some(newest) = load_newest(
            &machine.snapshots,
            &*machine.state,
            &machine.replay,
            machine.stop_handle(),
        )? {
            machine.durable.begin_at(newest.last_log_id);
            machine.adopt(newest);
        }
        Ok(machine)
    }

    /// How far the newest snapshot reaches, right after opening.
    pub(crate) fn last_applied(&self) -> Option<RaftLogId> {
        self.last_applied
    }

    /// How much a start would replay.
    pub(crate) fn replay(&self) -> Arc<Replay> {
        Arc::clone(&self.replay)
    }

    fn adopt(&mut self, meta: RaftSnapshotMeta) {
        self.last_applied = meta.last_log_id;
        self.membership = meta.last_membership;
    }

    fn apply_entry(&mut self, entry: RaftEntry) -> Result<Replies, Newer> {
        // An entry that is applied twice would raise a watermark twice and make replicas differ. The log engine
        // ensures that no entry is skipped: it accepts no append after a gap.
        let (last, next) = (self.last_applied, entry.log_id);
        assert!(last < Some(next), "entry {next} is applied after {last:?}");
        let replies = match entry.payload {
            EntryPayload::Blank => Replies::default(),
            EntryPayload::Normal(batch) => {
                self.replay.applied(&batch.commands);
                let stamp = stamp_of(next, batch.now_ms);
                let apply = |command: &Vec<u8>| self.state.apply(stamp, command);
                Replies(batch.commands.iter().map(apply).collect::<Result<_, _>>()?)
            }
            EntryPayload::Membership(membership) => {
                self.membership = RaftMembership::new(Some(entry.log_id), membership);
                Replies::default()
            }
        };
        self.last_applied = Some(next);
        Ok(replies)
    }

    /// Stops the node at an entry that it cannot apply; nothing is applied after it.
    fn stop_at(&self, newer: &Newer) -> RaftStorageError {
        self.stop_handle().stop_as_outdated(newer);
        StorageIOError::write_state_machine(AnyError::new(newer)).into()
    }

    fn stop_handle(&self) -> &StopHandle {
        &self.guard.0
    }
}

impl RaftStateMachine<Types> for StateMachineAdapter {
    type SnapshotBuilder = SnapshotWriter;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<RaftLogId>, RaftMembership), RaftStorageError> {
        Ok((self.last_applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Replies>, RaftStorageError>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let applied: Result<_, Newer> =
            entries.into_iter().map(|entry| self.apply_entry(entry)).collect();
        applied.map_err(|newer| self.stop_at(&newer))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotWriter {
        self.replay.freeze();
        SnapshotWriter {
            snapshots: Arc::clone(&self.snapshots),
            durable: Arc::clone(&self.durable),
            replay: Arc::clone(&self.replay),
            last_applied: self.last_applied,
            membership: self.membership.clone(),
            frozen: Mutex::new(Some(self.state.freeze())),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotFile>, RaftStorageError> {
        let temp = self.snapshots.create().map_err(|error| snapshot_failed(&error))?;
        Ok(Box::new(SnapshotFile::Receiving(temp)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, Member>,
        snapshot: Box<SnapshotFile>,
    ) -> Result<(), RaftStorageError> {
        let (snapshots, state) = (Arc::clone(&self.snapshots), Arc::clone(&self.state));
        let (durable, reach) = (Arc::clone(&self.durable), meta.last_log_id);
        let replay = self.replay();
        let stop = self.stop_handle().clone();
        let installed = runtime::blocking(move || {
            let temp = match *snapshot {
                SnapshotFile::Receiving(temp) => temp,
                SnapshotFile::Sending(file) => copy(&snapshots, file)?,
            };
            durable
                .replace(reach, || snapshots.install(temp))
                .and_then(|()| load_newest(&snapshots, &*state, &replay, &stop))
                .map_err(|error| snapshot_failed(&error))
        });
        let installed = installed.await.map_err(|error| io_failed(&io::Error::other(error)))??;
        let installed = installed.filter(|installed| installed.last_log_id == meta.last_log_id);
        self.adopt(installed.expect("the snapshot installed is the one announced"));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, RaftStorageError> {
        let snapshots = Arc::clone(&self.snapshots);
        let newest = runtime::blocking(move || snapshots.latest()?.map(sent).transpose()).await;
        let newest = newest.map_err(|error| io_failed(&io::Error::other(error)))?;
        newest.map_err(|error| snapshot_failed(&error))
    }
}

/// The stamp of the entry with this id and its leader's time.
pub(crate) fn stamp_of(entry: RaftLogId, now_ms: u64) -> Stamp {
    let leader = entry.leader_id;
    Stamp { now_ms, term: leader.term, leader_id: leader.node_id }
}

/// Restores the newest snapshot, if there is one, and returns its metadata. A snapshot of a level that this build
/// does not support stops the node, and stays on disk for another build.
fn load_newest(
    snapshots: &Snapshots,
    state: &dyn StateMachine,
    replay: &Replay,
    stop: &StopHandle,
) -> Result<Option<RaftSnapshotMeta>, StorageError> {
    let Some(snapshot) = snapshots.latest()? else { return Ok(None) };
    let meta = decode_meta(&snapshot.meta)?;
    state.restore(&mut snapshot.body()).map_err(|error| {
        let source = match error {
            RestoreError::Newer(newer) => {
                stop.stop_as_outdated(&newer);
                io::Error::other(newer)
            }
            RestoreError::Io(source) => source,
        };
        StorageError::Io { action: "restore the snapshot".to_owned(), source }
    })?;
    replay.freeze();
    replay.snapshot(snapshot.body_bytes());
    Ok(Some(meta))
}

/// Copies a snapshot that openraft passes on as an open file.
fn copy(snapshots: &Snapshots, mut file: File) -> Result<SnapshotTemp, RaftStorageError> {
    let mut temp = snapshots.create().map_err(|error| snapshot_failed(&error))?;
    io::copy(&mut file, &mut temp).map_err(|error| io_failed(&error))?;
    Ok(temp)
}

/// A snapshot of the disk as openraft sends it.
fn sent(snapshot: mintleaf_storage::Snapshot) -> Result<Snapshot<Types>, StorageError> {
    let meta = decode_meta(&snapshot.meta)?;
    Ok(Snapshot { meta, snapshot: Box::new(SnapshotFile::Sending(snapshot.file)) })
}

fn decode_meta(meta: &[u8]) -> Result<RaftSnapshotMeta, StorageError> {
    disk_format::decode_snapshot_meta(meta)
        .map_err(|error| disk_format::damaged("the snapshot's head", &error))
}

/// Writes one frozen state to disk while the state machine continues to apply entries (Raft paper, 7).
pub(crate) struct SnapshotWriter {
    snapshots: Arc<Snapshots>,
    durable: Arc<DurableSnapshot>,
    replay: Arc<Replay>,
    last_applied: Option<RaftLogId>,
    membership: RaftMembership,
    frozen: Mutex<Option<FrozenState>>,
}

impl RaftSnapshotBuilder<Types> for SnapshotWriter {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, RaftStorageError> {
        let mut frozen = self.frozen.lock().take();
        let meta = disk_format::encode_snapshot_meta(self.last_applied, &self.membership);
        let (snapshots, durable) = (Arc::clone(&self.snapshots), Arc::clone(&self.durable));
        let replay = Arc::clone(&self.replay);
        let last_applied = self.last_applied;
        let written = runtime::blocking(move || {
            let mut body = |out: &mut dyn Write| match frozen.take() {
                Some(write) => write(out),
                None => Err(io::Error::other("the frozen state was written already")),
            };
            let temp = snapshots.prepare(&meta, &mut body)?;
            durable.replace(last_applied, || snapshots.install(temp))?;
            let Some(newest) = snapshots.latest()? else { return Ok(None) };
            replay.snapshot(newest.body_bytes());
            sent(newest).map(Some)
        });
        let newest = written.await.map_err(|error| io_failed(&io::Error::other(error)))?;
        newest
            .map_err(|error| snapshot_failed(&error))?
            .ok_or_else(|| io_failed(&io::Error::other("the snapshot just written is gone")))
    }
}

fn snapshot_failed(error: &StorageError) -> RaftStorageError {
    StorageIOError::new(ErrorSubject::Snapshot(None), ErrorVerb::Write, AnyError::new(error)).into()
}

fn io_failed(error: &io::Error) -> RaftStorageError {
    StorageIOError::new(ErrorSubject::Snapshot(None), ErrorVerb::Write, AnyError::new(error)).into()
}

#[cfg(test)]
mod tests;
