use std::collections::BTreeSet;

use mintleaf_storage::{DataDir, SledEngine};
use openraft::Membership;

use super::*;
use crate::suite::everything_covered;
use crate::tests::{ELECTION_MAX, StoppedClock};

#[tokio::test]
async fn only_voters_clocks_count() {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
    let engine = Arc::new(SledEngine::open(&dir).unwrap());
    let log = LogStore::start(engine, everything_covered()).unwrap();
    let local = Local::load(1, 7, 1, log, Arc::new(StoppedClock), ELECTION_MAX).unwrap();
    let nodes: BTreeMap<u64, Member> = (1..=3).map(|id| (id, Member::default())).collect();
    let membership = Membership::new(vec![BTreeSet::from([1, 2])], nodes);
    let membership_config = Arc::new(RaftMembership::new(None, membership));
    let metrics = RaftMetrics { membership_config, ..RaftMetrics::new_initial(1) };
    local.watch(watch::Sender::new(metrics).subscribe());
    let own_ms = StoppedClock.now_ms();
    local.clocks().read(2, own_ms + 9_000);
    local.clocks().read(3, own_ms + 5_000);
    assert_eq!(local.median_ms(), own_ms, "the lower of two voters, and node 3 is a learner");
}
