//! How much of the log the snapshot on disk stands for.

use mintleaf_storage::{StorageError, planted};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::types::RaftLogId;

/// The last entry that the current snapshot file holds, for those who replace that file.
///
/// openraft has the log purged for a snapshot as soon as it has handed it over to be installed. A
/// crash after the purge leaves nothing but the snapshot, so the log waits until that is on disk:
/// see [`CoverageReader::reaches`].
#[derive(Default)]
pub(crate) struct Coverage {
    reach: watch::Sender<Option<RaftLogId>>,
    /// Held while another file takes the place of the current one.
    replacing: Mutex<()>,
}

impl Coverage {
    /// For the log.
    pub(crate) fn reader(&self) -> CoverageReader {
        CoverageReader(self.reach.subscribe())
    }

    /// Notes how far the file found at a start reaches.
    pub(crate) fn begin_at(&self, reach: Option<RaftLogId>) {
        self.reach.send_replace(reach);
    }

    /// Puts a snapshot that reaches this far into the place of the current one, by `install`, which
    /// returns once it is on disk. A snapshot that was being written while a later one came in from
    /// the leader is left out: the log is purged up to the later one by then.
    pub(crate) fn replace(
        &self,
        reach: Option<RaftLogId>,
        install: impl FnOnce() -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let _replacing = self.replacing.lock();
        let current = *self.reach.borrow();
        if current > reach && !planted("older-snapshot-over-newer") {
            return Ok(());
        }
        install()?;
        self.reach.send_replace(reach);
        Ok(())
    }
}

/// What the log knows of the snapshots.
#[derive(Clone)]
pub(crate) struct CoverageReader(watch::Receiver<Option<RaftLogId>>);

impl CoverageReader {
    /// Waits until the snapshot on disk holds this entry. `false` when it never will, because nobody
    /// is left to write it: an installation failed.
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
    use crate::store::LogStore;

    fn log_id(index: u64) -> RaftLogId {
        RaftLogId::new(LeaderId::new(1, 1), index)
    }

    fn log_over(coverage: &Coverage) -> (TempDir, LogStore) {
        let temp = TempDir::new().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let engine = Arc::new(SledEngine::open(&dir).unwrap());
        (temp, LogStore::start(engine, coverage.reader()).unwrap())
    }

    #[tokio::test]
    async fn a_purge_waits_until_the_snapshot_is_on_disk() {
        let coverage = Coverage::default();
        let (_dir, mut log) = log_over(&coverage);
        let mut early = log.clone();
        let mut purge = tokio::spawn(async move { early.purge(log_id(5)).await });
        coverage.replace(Some(log_id(4)), || Ok(())).unwrap();
        timeout(Duration::from_millis(50), &mut purge).await.expect_err("5 is in no snapshot yet");
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, None);
        coverage.replace(Some(log_id(5)), || Ok(())).unwrap();
        purge.await.unwrap().unwrap();
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, Some(log_id(5)));
    }

    #[tokio::test]
    async fn a_purge_fails_when_no_snapshot_will_come() {
        let coverage = Coverage::default();
        let (_dir, mut log) = log_over(&coverage);
        drop(coverage);
        log.purge(log_id(5)).await.unwrap_err();
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, None);
    }
}
