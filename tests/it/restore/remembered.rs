//! When the last backup was taken, over restarts of the node that it was taken from.

use std::fs;

use super::back_up;
use crate::harness::{Api, eventually, mintleaf, secs};

fn last_backup(api: Api) -> u64 {
    let page = api.get("/metrics");
    let name = "mintleaf_backup_last_timestamp_seconds ";
    let line = page.text().lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_node_remembers_its_last_backup_over_a_kill_and_starts_without_a_time_that_it_cannot_read() {
    let mut cluster = mintleaf().cluster(1);
    assert_eq!(last_backup(cluster.api(1)), 0);
    let file = cluster.data(1).join("last-backup");
    back_up(cluster.api(1), &cluster.dir().join("copy"));
    eventually("the time to be on disk", secs(5), || file.exists().then_some(()));
    let taken = last_backup(cluster.api(1));
    assert!(taken > 1_790_000_000, "{taken}");
    cluster.kill(1);
    cluster.start_all();
    assert_eq!(last_backup(cluster.api(1)), taken);
    cluster.stop(1);
    fs::write(&file, "yesterday").unwrap();
    cluster.start_all();
    assert_eq!(last_backup(cluster.api(1)), 0);
    back_up(cluster.api(1), &cluster.dir().join("another"));
    eventually("the next time", secs(5), || (last_backup(cluster.api(1)) >= taken).then_some(()));
}
