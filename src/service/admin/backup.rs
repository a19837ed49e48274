//! Backups: the whole state as of one moment, written while the node goes on.
//!
//! The state is frozen behind a read barrier, which takes microseconds however large it is. A thread of lower priority
//! writes it out as fast as its reader takes it, so neither applying nor handing out ids waits for it.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use mintleaf_core::backup::{BackupHead, write_backup};
use mintleaf_core::state::{Actor, FrozenState, State};
use mintleaf_core::version::VERSION;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::Span;

use crate::metrics::BackupOutcome;
use crate::service::error::Error;
use crate::service::log_access::{Consistency, refresh};
use crate::service::parts::ServiceParts;

/// Backups that a node writes at one time: each has a thread, and keeps a frozen state in memory.
const BACKUPS_MAX: usize = 2;
/// Bytes of a backup that are handed over at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for the reader at most.
const CHUNKS_WAITING_MAX: usize = 4;

/// Takes backups.
pub struct BackupService {
    pub(in crate::service) parts: ServiceParts,
    places: Arc<Semaphore>,
    /// When the last complete one of this process start ended, in Unix seconds; 0 before the first.
    last_taken: watch::Sender<u64>,
}

/// The pieces of a backup as they are written. The end of a whole backup is `None`; a backup that broke off ends
/// with an error.
pub struct BackupPieces(Receiver<Option<Bytes>>);

impl BackupService {
    pub(in crate::service) fn new(parts: ServiceParts) -> Self {
        let (places, last_taken) = (Arc::new(Semaphore::new(BACKUPS_MAX)), watch::Sender::new(0));
        Self { parts, places, last_taken }
    }

    /// When the last complete backup of this process start ended, in Unix seconds; 0 before the first.
    pub fn last_taken(&self) -> watch::Receiver<u64> {
        self.last_taken.subscribe()
    }

    /// Takes a backup that holds every change that was acknowledged before the call.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a quorum; [`Error::Overloaded`] while the node writes others.
    pub async fn take(&self, actor: &Actor) -> Result<BackupPieces, Error> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Error::Overloaded)?;
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        let (head, frozen) = self.freeze()?;
        let (pieces, reader) = mpsc::channel(CHUNKS_WAITING_MAX);
        let (actor, clock) = (actor.clone(), Arc::clone(&self.parts.clock));
        let (metrics, last_taken) = (Arc::clone(&self.parts.metrics), self.last_taken.clone());
        let span = Span::current();
        let write = move || {
            let _of_the_request = span.entered();
            mintleaf_raft::lower_priority();
            let is_whole = write_pieces(&head, &frozen, &pieces, place);
            let (actor, tags, log_index) = (actor.as_str(), head.tags, head.log_index);
            if is_whole {
                let now_s = clock.now_ms() / 1000;
                metrics.backup_ended(BackupOutcome::Complete);
                metrics.backup_was_taken(now_s);
                last_taken.send_replace(now_s);
                tracing::info!(actor, tags, log_index, "a backup was taken");
            } else {
                metrics.backup_ended(BackupOutcome::BrokenOff);
                tracing::warn!(actor, tags, log_index, "a backup broke off: its reader went away");
            }
        };
        let started = thread::Builder::new().name("mintleaf-backup".to_owned()).spawn(write);
        started.map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        Ok(BackupPieces(reader))
    }

    /// Freezes the state as this node has applied it, with the head that a backup of it has.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while the node is in no cluster.
    pub fn freeze(&self) -> Result<(BackupHead, FrozenState), Error> {
        let node = self.parts.replica.node();
        // The position is read before the state, so the state holds what every entry up to it did.
        let status = node.status();
        let taken_at_ms = node.median_now_ms().unwrap_or_else(|| self.parts.clock.now_ms());
        let cluster_id = status.cluster_id;
        let cluster_id =
            cluster_id.ok_or_else(|| Error::unavailable("this node is in no cluster yet"))?;
        Ok(self.parts.replica.read(|state: &State| {
            let head = BackupHead {
                cluster_id,
                node_id: status.node_id,
                log_index: status.last_applied_index.unwrap_or(0),
                level: state.level(),
                version_needed: state.version_needed().to_owned(),
                version: VERSION.to_owned(),
                taken_at_ms,
                tags: state.len() as u64,
            };
            (head, state.freeze())
        }))
    }
}

impl BackupPieces {
    /// Polls for the next piece; `None` after the last one.
    ///
    /// # Errors
    /// When the backup broke off.
    pub fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<io::Result<Bytes>>> {
        self.0.poll_recv(context).map(|piece| match piece {
            Some(Some(piece)) => Some(Ok(piece)),
            Some(None) => None,
            None => Some(Err(io::Error::other("the backup broke off"))),
        })
    }
}

/// Writes a backup to its reader, and ends early if the reader goes away. Returns whether the reader took all of it.
fn write_pieces(
    head: &BackupHead,
    frozen: &FrozenState,
    pieces: &Sender<Option<Bytes>>,
    place: OwnedSemaphorePermit,
) -> bool {
    let mut out = BufWriter::with_capacity(CHUNK_BYTES, ChannelWriter(pieces));
    let written = write_backup(head, frozen, &mut out).and_then(|()| out.flush());
    // Without this end the reader takes the backup for one that broke off.
    let is_whole = written.is_ok() && pieces.blocking_send(None).is_ok();
    drop(place);
    is_whole
}

/// Sends each write as one piece.
struct ChannelWriter<'a>(&'a Sender<Option<Bytes>>);

impl Write for ChannelWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Some(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
