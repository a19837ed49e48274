//! openraft's own storage suite, over the sled engine.

use std::sync::Arc;

use mintleaf_storage::{DataDir, MetaKey, SledEngine, Snapshots};
use openraft::storage::RaftLogStorage;
use openraft::testing::{StoreBuilder, Suite};
use openraft::{LeaderId, StorageError, Vote};
use tempfile::TempDir;

use super::disk_format;
use super::durable_snapshot::{DurableSnapshot, DurableSnapshotReader};
use super::log_store::LogStore;
use super::state_machine_adapter::StateMachineAdapter;
use crate::stop::StopHandle;
use crate::tests::Sum;
use crate::types::{RaftLogId, Types};

/// A reader that reports every entry as covered by a durable snapshot, because the suite purges entries that no
/// snapshot holds.
pub(crate) fn everything_covered() -> DurableSnapshotReader {
    let durable = DurableSnapshot::default();
    durable.begin_at(Some(RaftLogId::new(LeaderId::new(u64::MAX, u64::MAX), u64::MAX)));
    durable.reader()
}

pub(crate) struct Builder;

impl StoreBuilder<Types, LogStore, StateMachineAdapter, (TempDir, DataDir)> for Builder {
    async fn build(
        &self,
    ) -> Result<((TempDir, DataDir), LogStore, StateMachineAdapter), StorageError<u64>> {
        let temp = TempDir::new().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let engine = Arc::new(SledEngine::open(&dir).unwrap());
        let log = LogStore::start(7, engine, everything_covered()).unwrap();
        let snapshots = Arc::new(Snapshots::open(&dir).unwrap());
        let stop = StopHandle::new();
        let durable = DurableSnapshot::default();
        let machine = StateMachineAdapter::open(Arc::<Sum>::default(), snapshots, durable, stop);
        Ok(((temp, dir), log, machine.unwrap()))
    }
}

#[test]
fn openraft_accepts_the_storage() {
    Suite::test_all(Builder).unwrap();
}

#[tokio::test]
async fn a_vote_on_disk_never_says_that_it_elected_its_own_node() {
    let ((_temp, _dir), mut log, _) = Builder.build().await.unwrap();
    log.save_vote(&Vote::new_committed(3, 7)).await.unwrap();
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(3, 7)));
    log.save_vote(&Vote::new_committed(4, 2)).await.unwrap();
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new_committed(4, 2)));
    // As releases before 0.3 wrote it.
    let elected = disk_format::encode_vote(&Vote::new_committed(5, 7));
    log.put_meta(MetaKey::Vote, &elected).await.unwrap();
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(5, 7)));
}
