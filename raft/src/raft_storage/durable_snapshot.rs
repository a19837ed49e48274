//! How much of the log is covered by the snapshot on disk.

use mintleaf_storage::StorageError;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::types::RaftLogId;

/// The last log entry that the current snapshot file holds. The state machine adapter updates it whenever it replaces
/// that file.
///
/// openraft asks for the log to be purged as soon as it has passed a received snapshot on to be installed. A crash
/// after the purge leaves nothing except the snapshot, so the log waits until the snapshot is on disk: see
/// [`DurableSnapshotReader::reaches`].
#[derive(Default)]
pub(crate) struct DurableSnapshot {
    reach: watch::Sender<Option<RaftLogId>>,
    /// Held while another file replaces the current one.
    replacing: Mutex<()>,
}

impl DurableSnapshot {
    /// The view of the log store.
    pub(crate) fn reader(&self) -> DurableSnapshotReader {
        DurableSnapshotReader(self.reach.subscribe())
    }

    /// Records how far the file that was found at the start reaches.
    pub(crate) fn begin_at(&self, reach: Option<RaftLogId>) {
        self.reach.send_replace(reach);
    }

    /// Replaces the current snapshot with one that reaches this far. `install` returns once the new one is on disk. A
    /// snapshot is dropped if a later one arrived from the leader while it was being written: the log may be purged
    /// up to the later one by then.
    pub(crate) fn replace(
        &self,
        reach: Option<RaftLogId>,
        install: impl FnOnce() -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let _replacing = self.replacing.lock();
        let current = *self.reach.borrow();
        if current > reach {
            return Ok(());
        }
        install()?;
        self.reach.send_replace(reach);
        Ok(())
    }
}

/// The log store's view of the snapshots.
#[derive(Clone)]
pub(crate) struct DurableSnapshotReader(watch::Receiver<Option<RaftLogId>>);

impl DurableSnapshotReader {
    /// Waits until the snapshot on disk holds this entry. Returns `false` if it never will: after a failed
    /// installation no task is left to write it.
    pub(crate) async fn reaches(&mut self, log_id: RaftLogId) -> bool {
        self.0.wait_for(|reach| *reach >= Some(log_id)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use mintleaf_storage::{DataDir, SledEngine};
    use openraft::LeaderId;
    use openraft::storage::RaftLogStorage;
    use tempfile::TempDir;
    use tokio::time::timeout;

    use super::*;
    use crate::raft_storage::LogStore;

    fn log_id(index: u64) -> RaftLogId {
        RaftLogId::new(LeaderId::new(1, 1), index)
    }

    fn log_over(durable: &DurableSnapshot) -> (TempDir, LogStore) {
        let temp = TempDir::new().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let engine = Arc::new(SledEngine::open(&dir).unwrap());
        (temp, LogStore::start(1, engine, durable.reader()).unwrap())
    }

    #[tokio::test]
    async fn a_purge_waits_until_the_snapshot_is_on_disk() {
        let durable = DurableSnapshot::default();
        let (_dir, mut log) = log_over(&durable);
        let mut early = log.clone();
        let mut purge = tokio::spawn(async move { early.purge(log_id(5)).await });
        durable.replace(Some(log_id(4)), || Ok(())).unwrap();
        timeout(Duration::from_millis(50), &mut purge).await.expect_err("5 is in no snapshot yet");
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, None);
        durable.replace(Some(log_id(5)), || Ok(())).unwrap();
        purge.await.unwrap().unwrap();
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, Some(log_id(5)));
    }

    #[tokio::test]
    async fn a_purge_fails_when_no_snapshot_will_come() {
        let durable = DurableSnapshot::default();
        let (_dir, mut log) = log_over(&durable);
        drop(durable);
        log.purge(log_id(5)).await.unwrap_err();
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, None);
    }
}
