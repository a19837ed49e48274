//! openraft's state machine over the caller's [`StateMachine`], and its snapshots.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mintleaf_storage::{SnapshotTemp, Snapshots, StorageError, planted};
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{
    AnyError, EntryPayload, ErrorSubject, ErrorVerb, OptionalSend, SnapshotMeta, StorageIOError,
};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use crate::coverage::Coverage;
use crate::local::{Local, StopOnPanic};
use crate::records;
use crate::runtime;
use crate::types::{Member, RaftEntry, RaftLogId, RaftMembership, Replies, Types};
use crate::{FrozenState, Newer, RestoreError, StateMachine};

type RaftStorageError = openraft::StorageError<u64>;
type RaftSnapshotMeta = SnapshotMeta<u64, Member>;

/// Applies committed entries, in order, to the caller's state machine.
///
/// The state lives in memory: a start rebuilds it from the newest snapshot and the log behind it.
pub(crate) struct Machine {
    state: Arc<dyn StateMachine>,
    snapshots: Arc<Snapshots>,
    coverage: Arc<Coverage>,
    last_applied: Option<RaftLogId>,
    membership: RaftMembership,
    // openraft would wait for ever for the replies of an apply that panicked.
    guard: StopOnPanic,
}

impl Machine {
    /// Loads the newest snapshot, if there is one.
    pub(crate) fn open(
        state: Arc<dyn StateMachine>,
        snapshots: Arc<Snapshots>,
        coverage: Coverage,
        local: Arc<Local>,
    ) -> Result<Self, StorageError> {
        let mut machine = Self {
            state,
            snapshots,
            coverage: Arc::new(coverage),
            last_applied: None,
            membership: RaftMembership::default(),
            guard: StopOnPanic(local),
        };
        if let Some(newest) = load_newest(&machine.snapshots, &*machine.state, machine.local())? {
            machine.coverage.begin_at(newest.last_log_id);
            machine.take_over(newest);
        }
        if planted("double-apply-after-snapshot")
            && let Some(last) = &mut machine.last_applied
        {
            last.index -= 1;
        }
        Ok(machine)
    }

    /// How far the newest snapshot reaches, right after opening.
    pub(crate) fn last_applied(&self) -> Option<RaftLogId> {
        self.last_applied
    }

    fn take_over(&mut self, meta: RaftSnapshotMeta) {
        self.last_applied = meta.last_log_id;
        self.membership = meta.last_membership;
    }

    fn apply_entry(&mut self, entry: RaftEntry) -> Result<Replies, Newer> {
        // An entry applied twice would raise a mark twice and let replicas differ. That none is
        // left out, the engine sees to: it takes no append with a hole before it.
        let (last, next) = (self.last_applied, entry.log_id);
        assert!(last < Some(next), "entry {next} is applied after {last:?}");
        let replies = match entry.payload {
            EntryPayload::Blank => Replies::default(),
            EntryPayload::Normal(batch) => {
                let apply = |command: &Vec<u8>| self.state.apply(batch.now_ms, command);
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

    /// Ends the node at an entry that it cannot apply; nothing is applied after it.
    fn end_at(&self, newer: &Newer) -> RaftStorageError {
        self.local().stop_as_outdated(newer);
        StorageIOError::write_state_machine(AnyError::new(newer)).into()
    }

    fn local(&self) -> &Arc<Local> {
        &self.guard.0
    }
}

impl RaftStateMachine<Types> for Machine {
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
        applied.map_err(|newer| self.end_at(&newer))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotWriter {
        SnapshotWriter {
            snapshots: Arc::clone(&self.snapshots),
            coverage: Arc::clone(&self.coverage),
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
        let (coverage, reach) = (Arc::clone(&self.coverage), meta.last_log_id);
        let local = Arc::clone(self.local());
        let installed = runtime::blocking(move || {
            let temp = match *snapshot {
                SnapshotFile::Receiving(temp) => temp,
                SnapshotFile::Sending(file) => copy(&snapshots, file)?,
            };
            coverage
                .replace(reach, || snapshots.install(temp))
                .and_then(|()| load_newest(&snapshots, &*state, &local))
                .map_err(|error| snapshot_failed(&error))
        });
        let installed = installed.await.map_err(|error| io_failed(&io::Error::other(error)))??;
        let installed = installed.filter(|installed| installed.last_log_id == meta.last_log_id);
        self.take_over(installed.expect("the snapshot installed is the one announced"));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, RaftStorageError> {
        let snapshots = Arc::clone(&self.snapshots);
        let current = runtime::blocking(move || current_snapshot(&snapshots)).await;
        let current = current.map_err(|error| io_failed(&io::Error::other(error)))?;
        current.map_err(|error| snapshot_failed(&error))
    }
}

/// Loads the newest snapshot, if there is one, and returns how far it reaches. One that this build is too
/// old for stops the node, and stays where it is for another build.
fn load_newest(
    snapshots: &Snapshots,
    state: &dyn StateMachine,
    local: &Local,
) -> Result<Option<RaftSnapshotMeta>, StorageError> {
    let Some(snapshot) = snapshots.latest()? else { return Ok(None) };
    let meta = decode_meta(&snapshot.meta)?;
    state.restore(&mut snapshot.body()).map_err(|error| {
        let source = match error {
            RestoreError::Newer(newer) => {
                local.stop_as_outdated(&newer);
                io::Error::other(newer)
            }
            RestoreError::Io(source) => source,
        };
        StorageError::Io { action: "restore the snapshot".to_owned(), source }
    })?;
    Ok(Some(meta))
}

/// Takes in a snapshot that comes as another store's own file.
fn copy(snapshots: &Snapshots, mut file: File) -> Result<SnapshotTemp, RaftStorageError> {
    let mut temp = snapshots.create().map_err(|error| snapshot_failed(&error))?;
    io::copy(&mut file, &mut temp).map_err(|error| io_failed(&error))?;
    Ok(temp)
}

fn current_snapshot(snapshots: &Snapshots) -> Result<Option<Snapshot<Types>>, StorageError> {
    let Some(newest) = snapshots.latest()? else { return Ok(None) };
    let meta = decode_meta(&newest.meta)?;
    Ok(Some(Snapshot { meta, snapshot: Box::new(SnapshotFile::Sending(newest.file)) }))
}

fn decode_meta(meta: &[u8]) -> Result<RaftSnapshotMeta, StorageError> {
    records::decode_snapshot_meta(meta)
        .map_err(|error| records::damaged("the snapshot's head", &error))
}

/// Writes one frozen state to disk while the state machine goes on applying.
pub(crate) struct SnapshotWriter {
    snapshots: Arc<Snapshots>,
    coverage: Arc<Coverage>,
    last_applied: Option<RaftLogId>,
    membership: RaftMembership,
    frozen: Mutex<Option<FrozenState>>,
}

impl RaftSnapshotBuilder<Types> for SnapshotWriter {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, RaftStorageError> {
        let mut frozen = self.frozen.lock().take();
        let meta = records::encode_snapshot_meta(self.last_applied, &self.membership);
        let (snapshots, coverage) = (Arc::clone(&self.snapshots), Arc::clone(&self.coverage));
        let last_applied = self.last_applied;
        let written = runtime::blocking(move || {
            let mut body = |out: &mut dyn Write| match frozen.take() {
                Some(write) => write(out),
                None => Err(io::Error::other("the frozen state was written already")),
            };
            let temp = snapshots.prepare(&meta, &mut body)?;
            coverage.replace(last_applied, || snapshots.install(temp))?;
            current_snapshot(&snapshots)
        });
        let current = written.await.map_err(|error| io_failed(&io::Error::other(error)))?;
        current
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

/// A snapshot file on its way out of or into this node.
///
/// Reads and writes are the plain blocking ones: a chunk is at most 1 MiB of page cache, and a
/// detour through a thread pool per chunk would cost more than it saves.
pub(crate) enum SnapshotFile {
    Sending(File),
    Receiving(SnapshotTemp),
}

/// What both kinds of file can do.
trait ReadWriteSeek: Read + Write + Seek {}

impl<T: Read + Write + Seek> ReadWriteSeek for T {}

impl SnapshotFile {
    fn file(&mut self) -> &mut dyn ReadWriteSeek {
        match self {
            Self::Sending(file) => file,
            Self::Receiving(temp) => temp,
        }
    }
}

impl AsyncRead for SnapshotFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.file().read(buf.initialize_unfilled());
        Poll::Ready(read.map(|len| buf.advance(len)))
    }
}

impl AsyncWrite for SnapshotFile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.file().write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.file().flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for SnapshotFile {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.file().seek(position).map(|_| ())
    }

    fn poll_complete(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(self.file().stream_position())
    }
}

#[cfg(test)]
mod tests;
