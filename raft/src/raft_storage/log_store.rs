//! openraft's log storage over a [`LogEngine`], and the one thread that syncs.
//!
//! Appends and votes are written immediately and can be read immediately. The sync thread acknowledges them: it
//! drains its queue, syncs the engine once, then fires every callback. openraft waits for that callback before it
//! sends an entry on; an observer of the log need not. Truncations and purges run on that thread too, in the order of requests.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, OnceLock};
use std::thread;

use mintleaf_codec::CodecError;
use mintleaf_storage::{LogEngine, MetaKey, StorageError, SyncReadings};
use openraft::storage::{LogFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, OptionalSend, StorageIOError};
use tokio::sync::{mpsc, oneshot};

use super::disk_format;
use super::durable_snapshot::DurableSnapshotReader;
use super::sync_pace::SyncPace;
use crate::runtime;
use crate::types::{RaftEntry, RaftLogId, RaftVote, Types};

type RaftStorageError = openraft::StorageError<u64>;

/// Maximum size of the entries in one replication message; a longer entry travels alone.
///
/// A message that takes much longer than recent ones is given up, unless its receiver reports that it is writing it
/// (`client/network.rs`). 64 KiB in 300 ms is the slowest link that works.
const READ_BYTES_MAX: usize = 64 << 10;

/// The replicated log of this node. Clones share one engine and one sync thread.
#[derive(Clone)]
pub(crate) struct LogStore {
    engine: Arc<dyn LogEngine>,
    snapshot: DurableSnapshotReader,
    jobs: mpsc::UnboundedSender<Job>,
    pace: Arc<SyncPace>,
    observer: Arc<OnceLock<Arc<dyn LogObserver>>>,
    node_id: u64,
}

/// What takes notice of changes of the log and of the vote before they are on disk.
pub(crate) trait LogObserver: Send + Sync {
    /// This node votes, or follows the leader that has this vote.
    fn voted(&self, vote: RaftVote);

    /// These entries were appended.
    fn appended(&self, entries: &[RaftEntry]);

    /// All entries up to this one are committed.
    fn committed(&self, log_id: RaftLogId);
}

/// A job of the sync thread. openraft waits for each job before it requests the next, and the node writes few records
/// itself, so the queue stays short without a bound.
enum Job {
    /// Sync, then notify openraft that its entries are on disk.
    Flushed(LogFlushed<Types>),
    /// Sync, then answer.
    Sync(oneshot::Sender<Result<(), StorageError>>),
    /// Drop the log from this index on, then answer.
    Truncate(u64, oneshot::Sender<Result<(), StorageError>>),
    /// Drop the log up to this index, leaving the mark, then answer.
    Purge(u64, Vec<u8>, oneshot::Sender<Result<(), StorageError>>),
}

impl LogStore {
    /// How long the syncs took since the log was opened; `None` if they are not measured.
    pub(crate) fn sync_times(&self) -> Option<SyncReadings> {
        self.engine.sync_times()
    }

    /// How long recent syncs took.
    pub(crate) fn sync_pace(&self) -> &Arc<SyncPace> {
        &self.pace
    }

    /// Starts the sync thread of this node's log; it ends when the last clone is dropped.
    pub(crate) fn start(
        node_id: u64,
        engine: Arc<dyn LogEngine>,
        snapshot: DurableSnapshotReader,
    ) -> io::Result<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (pace, observer) = (Arc::<SyncPace>::default(), Arc::default());
        let syncer = Syncer { engine: Arc::clone(&engine), queue, pace: Arc::clone(&pace) };
        #[cfg(feature = "simulation")]
        if let Some(process) = runtime::Process::current() {
            process.spawn(syncer.run_simulated(Arc::clone(&process)));
            return Ok(Self { engine, snapshot, jobs, pace, observer, node_id });
        }
        let sync = move || {
            runtime::lower_priority();
            syncer.run();
        };
        thread::Builder::new().name("mintleaf-sync".to_owned()).spawn(sync)?;
        Ok(Self { engine, snapshot, jobs, pace, observer, node_id })
    }

    /// Sets the one observer of this log.
    pub(crate) fn observe(&self, observer: Arc<dyn LogObserver>) {
        assert!(self.observer.set(observer).is_ok(), "a log has one observer");
    }

    /// Writes a small value at once. The future resolves when it is on disk.
    pub(crate) fn put_meta(
        &self,
        key: MetaKey,
        value: &[u8],
    ) -> impl Future<Output = Result<(), StorageError>> + Send + use<'_> {
        let put = self.engine.put_meta(key, value);
        async move {
            put?;
            self.ask(Job::Sync).await
        }
    }

    pub(crate) fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.engine.get_meta(key)
    }

    /// Reads the values that every start relies on before openraft does, so that the error distinguishes a damaged
    /// value from one that could not be read this time.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        let damaged = |what: &'static str| move |error| disk_format::damaged(what, &error);
        if let Some(vote) = self.get_meta(MetaKey::Vote)? {
            disk_format::decode_vote(&vote).map_err(damaged("the vote"))?;
        }
        if let Some(log_id) = self.get_meta(MetaKey::Committed)? {
            disk_format::decode_log_id(&log_id).map_err(damaged("the position committed"))?;
        }
        if let Some((_, mark)) = self.engine.purge_mark() {
            disk_format::decode_log_id(&mark).map_err(damaged("the mark of what was purged"))?;
        }
        let Some((_, last)) = self.engine.bounds() else { return Ok(()) };
        for record in self.engine.read(last..last + 1, usize::MAX)? {
            disk_format::decode_entry(&record).map_err(damaged("the last entry"))?;
        }
        Ok(())
    }

    /// The vote, but not that it elected this node. openraft would go on leading in the same term after a restart, though
    /// followers may hold entries of that term that this node has lost (`client/early_appends.rs`).
    fn without_leadership(&self, vote: RaftVote) -> RaftVote {
        RaftVote { committed: vote.committed && vote.leader_id.node_id != self.node_id, ..vote }
    }

    /// The log id of the last entry, or of the last purged one if the log is empty.
    pub(crate) fn last_log_id(&self) -> Result<Option<RaftLogId>, RaftStorageError> {
        let Some((_, last)) = self.engine.bounds() else { return self.purged() };
        Ok(self.read(last, last + 1, usize::MAX)?.pop().map(|entry| entry.log_id))
    }

    /// Whether the log holds entries, or held some that were purged.
    pub(crate) fn holds_entries(&self) -> bool {
        self.engine.bounds().is_some() || self.engine.purge_mark().is_some()
    }

    /// The last entry that was purged.
    pub(crate) fn purged(&self) -> Result<Option<RaftLogId>, RaftStorageError> {
        let mark = self.engine.purge_mark().map(|(_, mark)| disk_format::decode_log_id(&mark));
        mark.transpose().map_err(|error| undecodable(ErrorSubject::Logs, &error))
    }

    /// Reads the entries in `from..to` that the log holds.
    fn read(&self, from: u64, to: u64, bytes: usize) -> Result<Vec<RaftEntry>, RaftStorageError> {
        let from = self.engine.bounds().map_or(from, |(first, _)| from.max(first));
        let records = self.engine.read(from..to, bytes).map_err(|error| read_failed(&error))?;
        let decode = |record: &Vec<u8>| {
            disk_format::decode_entry(record)
                .map_err(|error| undecodable(ErrorSubject::Logs, &error))
        };
        records.iter().map(decode).collect()
    }

    async fn ask(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<(), StorageError>>) -> Job,
    ) -> Result<(), StorageError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.send(job(answer)).map_err(|_| sync_thread_gone())?;
        answered.await.map_err(|_| sync_thread_gone())?
    }
}

/// The sync thread.
struct Syncer {
    engine: Arc<dyn LogEngine>,
    queue: mpsc::UnboundedReceiver<Job>,
    pace: Arc<SyncPace>,
}

impl Syncer {
    fn run(mut self) {
        let mut held_back = None;
        while let Some(job) = held_back.take().or_else(|| self.queue.blocking_recv()) {
            self.pace.begin();
            held_back = self.carry_out(job);
            self.pace.end();
        }
    }

    /// Runs the sync thread as a task in simulated time.
    #[cfg(feature = "simulation")]
    async fn run_simulated(mut self, process: Arc<runtime::Process>) {
        let mut held_back = None;
        loop {
            let job = match held_back.take() {
                None => self.queue.recv().await,
                held_back => held_back,
            };
            let Some(job) = job else { return };
            self.pace.begin();
            process.wait_for_disk().await;
            held_back = self.carry_out(job);
            self.pace.end();
        }
    }

    /// Carries out a job, together with every other one that the same sync covers. Returns the job that must be
    /// carried out next.
    fn carry_out(&mut self, job: Job) -> Option<Job> {
        match job {
            Job::Truncate(index, answer) => reply(answer, self.engine.truncate_from(index)),
            Job::Purge(index, mark, answer) => reply(answer, self.engine.purge_upto(index, &mark)),
            first => return sync_all(self.engine.as_ref(), &mut self.queue, first),
        }
        None
    }
}

/// Syncs once for `first` and everything queued behind it. Returns the job that ended the run of syncs, which must be
/// carried out after it.
fn sync_all(
    engine: &dyn LogEngine,
    queue: &mut mpsc::UnboundedReceiver<Job>,
    first: Job,
) -> Option<Job> {
    let mut waiting = vec![first];
    let mut next = None;
    while let Ok(job) = queue.try_recv() {
        if matches!(job, Job::Truncate(..) | Job::Purge(..)) {
            next = Some(job);
            break;
        }
        waiting.push(job);
    }
    // The sync comes before the callbacks, because on a callback openraft counts this node towards the quorum (Raft
    // paper, figure 2: persistent state is updated before responding to RPCs).
    let synced = engine.sync();
    for job in waiting {
        match job {
            Job::Flushed(callback) => callback.log_io_completed(match &synced {
                Ok(()) => Ok(()),
                Err(error) => Err(io::Error::other(error.to_string())),
            }),
            Job::Sync(answer) => reply(
                answer,
                match &synced {
                    Ok(()) => Ok(()),
                    Err(error) => Err(failed(error)),
                },
            ),
            Job::Truncate(..) | Job::Purge(..) => unreachable!("ends the run"),
        }
    }
    next
}

// At shutdown the asker may be gone. The answer is then not needed.
fn reply(answer: oneshot::Sender<Result<(), StorageError>>, result: Result<(), StorageError>) {
    let _ = answer.send(result);
}

fn failed(error: &StorageError) -> StorageError {
    StorageError::Io {
        action: "sync the log".to_owned(),
        source: io::Error::other(error.to_string()),
    }
}

fn sync_thread_gone() -> StorageError {
    StorageError::Io {
        action: "sync the log".to_owned(),
        source: io::Error::other("sync thread has ended"),
    }
}

fn no_snapshot() -> StorageError {
    StorageError::Io {
        action: "purge the log".to_owned(),
        source: io::Error::other("the snapshot that replaces it was not written"),
    }
}

fn read_failed(error: &StorageError) -> RaftStorageError {
    StorageIOError::new(ErrorSubject::Logs, ErrorVerb::Read, openraft::AnyError::new(error)).into()
}

fn write_failed(subject: ErrorSubject<u64>, error: &StorageError) -> RaftStorageError {
    StorageIOError::new(subject, ErrorVerb::Write, openraft::AnyError::new(error)).into()
}

fn undecodable(subject: ErrorSubject<u64>, error: &CodecError) -> RaftStorageError {
    StorageIOError::new(subject, ErrorVerb::Read, openraft::AnyError::new(error)).into()
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<RaftEntry>, RaftStorageError> {
        let from = match range.start_bound() {
            Bound::Included(&index) => index,
            Bound::Excluded(&index) => index + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&index) => index + 1,
            Bound::Excluded(&index) => index,
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, to, usize::MAX)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<RaftEntry>, RaftStorageError> {
        self.read(start, end, READ_BYTES_MAX)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, RaftStorageError> {
        Ok(LogState { last_purged_log_id: self.purged()?, last_log_id: self.last_log_id()? })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    // A vote is on disk before it is answered (Raft paper, 5.2 and figure 2): openraft's core awaits this call, and
    // only then does `Raft::vote`, which `rpc_handler` awaits, return the answer.
    async fn save_vote(&mut self, vote: &RaftVote) -> Result<(), RaftStorageError> {
        if let Some(observer) = self.observer.get() {
            observer.voted(*vote);
        }
        self.put_meta(MetaKey::Vote, &disk_format::encode_vote(&self.without_leadership(*vote)))
            .await
            .map_err(|error| write_failed(ErrorSubject::Vote, &error))
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVote>, RaftStorageError> {
        let record = self.get_meta(MetaKey::Vote).map_err(|error| read_failed(&error))?;
        let vote = record.map(|record| disk_format::decode_vote(&record));
        let vote = vote.transpose().map_err(|error| undecodable(ErrorSubject::Vote, &error))?;
        // Releases before 0.3 write that this node was elected.
        Ok(vote.map(|vote| self.without_leadership(vote)))
    }

    // The committed position only shortens the replay at the next start, so it is not synced separately.
    async fn save_committed(
        &mut self,
        committed: Option<RaftLogId>,
    ) -> Result<(), RaftStorageError> {
        let Some(log_id) = committed else { return Ok(()) };
        if let Some(observer) = self.observer.get() {
            observer.committed(log_id);
        }
        self.engine
            .put_meta(MetaKey::Committed, &disk_format::encode_log_id(log_id))
            .map_err(|error| write_failed(ErrorSubject::Logs, &error))
    }

    async fn read_committed(&mut self) -> Result<Option<RaftLogId>, RaftStorageError> {
        let record = self.get_meta(MetaKey::Committed).map_err(|error| read_failed(&error))?;
        let log_id = record.map(|record| disk_format::decode_log_id(&record));
        log_id.transpose().map_err(|error| undecodable(ErrorSubject::Logs, &error))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), RaftStorageError>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        // Entries below the purge mark are in the snapshot already.
        let purged = self.engine.purge_mark().map(|(index, _)| index);
        let above_mark = |entry: &RaftEntry| Some(entry.log_id.index) > purged;
        let entries: Vec<RaftEntry> = entries.into_iter().filter(above_mark).collect();
        let Some(first) = entries.first().map(|entry| entry.log_id.index) else {
            callback.log_io_completed(Ok(()));
            return Ok(());
        };
        if let Some(observer) = self.observer.get() {
            observer.appended(&entries);
        }
        let records = entries.into_iter().map(disk_format::encode_entry).collect();
        self.engine
            .append(first, records)
            .map_err(|error| write_failed(ErrorSubject::Logs, &error))?;
        self.jobs
            .send(Job::Flushed(callback))
            .map_err(|_| write_failed(ErrorSubject::Logs, &sync_thread_gone()))
    }

    async fn truncate(&mut self, log_id: RaftLogId) -> Result<(), RaftStorageError> {
        self.ask(|answer| Job::Truncate(log_id.index, answer))
            .await
            .map_err(|error| write_failed(ErrorSubject::Log(log_id), &error))
    }

    async fn purge(&mut self, log_id: RaftLogId) -> Result<(), RaftStorageError> {
        // openraft may request this before the snapshot that replaces these entries is on disk. Writing the snapshot
        // needs nothing from openraft's core, so the core may wait here.
        if !self.snapshot.reaches(log_id).await {
            return Err(write_failed(ErrorSubject::Log(log_id), &no_snapshot()));
        }
        let mark = disk_format::encode_log_id(log_id);
        self.ask(|answer| Job::Purge(log_id.index, mark, answer))
            .await
            .map_err(|error| write_failed(ErrorSubject::Log(log_id), &error))
    }
}
