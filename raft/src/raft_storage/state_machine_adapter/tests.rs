use openraft::LeaderId;
use openraft::testing::StoreBuilder;

use super::*;
use crate::raft_storage::tests::Builder;

fn log_id(index: u64) -> RaftLogId {
    RaftLogId::new(LeaderId::new(1, 1), index)
}

fn blank(index: u64) -> RaftEntry {
    RaftEntry { log_id: log_id(index), payload: EntryPayload::Blank }
}

#[tokio::test]
async fn a_snapshot_that_took_long_does_not_replace_a_later_one() {
    let (_dir, _log, mut machine) = Builder.build().await.unwrap();
    machine.apply([blank(1)]).await.unwrap();
    let mut slow = machine.get_snapshot_builder().await;
    machine.apply([blank(2)]).await.unwrap();
    let mut quick = machine.get_snapshot_builder().await;
    quick.build_snapshot().await.unwrap();
    slow.build_snapshot().await.unwrap();
    let current = machine.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(current.meta.last_log_id, Some(log_id(2)));
}
