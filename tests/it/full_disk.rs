//! A disk that takes no more bytes.

use std::process::Command;

use serde_json::json;

use crate::harness::{Cluster, Finished, eventually, mintleaf, secs};

/// The largest size of a file on the full disk: enough for its log lines, but less than its log of commands,
/// whose space was allocated earlier.
const FULL_BYTES: u32 = 64 * 1024;

/// Stops all files of a running node from growing.
fn fill_the_disk_of(cluster: &mut Cluster, id: u64) {
    let pid = cluster.process(id).pid();
    let mut limit = Command::new("prlimit");
    let limited =
        Finished::of(limit.args([format!("--pid={pid}"), format!("--fsize={FULL_BYTES}")]));
    assert_eq!(limited.code, Some(0), "{limited:?}");
}

#[test]
fn a_node_whose_disk_is_full_ends_with_1_and_comes_back_once_there_is_room() {
    // While the signal is ignored, a write beyond the limit fails, as on a full disk.
    let mut cluster = mintleaf().under(["env", "--ignore-signal=XFSZ"]).cluster(3);
    let leader = cluster.leader();
    let full = cluster.others(leader)[0];
    fill_the_disk_of(&mut cluster, full);
    // The others continue, and write more than the disk can take.
    let tags = 2 * FULL_BYTES / 256;
    for number in 1..=tags {
        let tag = json!({ "tag": format!("tag-{number}"), "description": "x".repeat(256) });
        cluster.api(leader).post("/v1/tags", &tag).ok();
    }
    let (code, log) = cluster.ended(full, secs(20));
    assert_eq!(code, Some(1), "{log}");
    let last = log.lines().last().unwrap_or_default();
    assert!(last.contains("cannot write the write-ahead log: File too large"), "{last}");
    let ids = cluster.api(leader).get("/v1/segment/tag-1?count=10").ids();
    assert_eq!(ids.len(), 10);

    cluster.start_node(full);
    eventually("the node to be ready, with everything", secs(20), || {
        let ready = cluster.api(full).try_get("/readyz").ok()?.status == 200;
        let last = format!("/v1/tags/tag-{tags}?consistency=stale");
        (ready && cluster.api(full).get(&last).status == 200).then_some(())
    });
}
