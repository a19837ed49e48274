//! Secrets that are replaced on a running cluster.

use serde_json::json;

use super::{
    Busy, NOT_TAKEN, TAKEN, assert_all_run, await_said, new_secret, reload_secrets, replace,
    secret_file, start_with,
};
use crate::harness::{Cluster, eventually, mintleaf, ms, pause, secs};
use crate::mixups::reachable;

#[test]
fn a_secret_is_replaced_under_load_without_a_failed_request() {
    let (old, new) = (new_secret(), new_secret());
    let mut cluster = start_with(&old);
    let busy = Busy::start(&cluster);
    let mut shown = vec![keys(&cluster)];
    for secrets in [&[&*new, &*old][..], &[&*new]] {
        for id in cluster.ids() {
            reload_secrets(&mut cluster, id, secrets, TAKEN);
            busy.go_on();
        }
        let used = keys(&cluster);
        let brief = used.iter().map(|key| &key[..8]).collect::<Vec<_>>().join(",");
        let said = cluster.process(1).said();
        let line = said.lines().rfind(|line| line.contains(TAKEN)).unwrap();
        assert!(line.contains("keys=") && line.contains(&brief), "no {brief} in {line}");
        shown.push(used);
    }
    let [before, between, after] = &shown[..] else { panic!("three stages") };
    assert_eq!(*between, [&after[..], &before[..]].concat(), "the new key first");
    assert_ne!(before, after);
    // Connections that were proven with the old secret are closed a second later.
    pause(ms(1_500));
    busy.end_without_a_failure();

    // A node that missed the replacement cannot come back.
    let leader = cluster.leader();
    let [late, other] = cluster.others(leader)[..] else { panic!("three nodes run") };
    cluster.kill(late);
    replace(&secret_file(&cluster, late), &old);
    cluster.start_node(late);
    await_said(&mut cluster, late, "--cluster-secret-file");
    for id in [leader, other] {
        eventually("the late node to be shown unreachable", secs(5), || {
            (reachable(cluster.api(id), late) == Some(false)).then_some(())
        });
    }
    assert_eq!(cluster.api(late).get("/readyz").status, 503);
    assert_all_run(&mut cluster, &[1, 2, 3]);
    // With the new secret it can, and needs no restart.
    reload_secrets(&mut cluster, late, &[&new], TAKEN);
    cluster.await_ready();
}

/// The fingerprints that every node shows of its secrets, the same at each.
fn keys(cluster: &Cluster) -> Vec<String> {
    let of = |id| {
        let keys = cluster.api(id).get("/v1/cluster").ok()["keys"].clone();
        serde_json::from_value::<Vec<String>>(keys).expect("a list of fingerprints")
    };
    let first = of(1);
    assert!(cluster.ids().into_iter().all(|id| of(id) == first), "a node with other keys");
    first
}

#[test]
fn an_unusable_file_changes_nothing_and_the_right_one_is_taken_afterwards() {
    let (old, new) = (new_secret(), new_secret());
    let mut cluster = start_with(&old);
    let too_many = [&*new, &*old, &*new];
    for unusable in [&[][..], &["too short"], &[&*new, "too short"], &too_many] {
        for id in cluster.ids() {
            reload_secrets(&mut cluster, id, unusable, NOT_TAKEN);
        }
        assert!(!cluster.process(1).said().contains(&new), "the log shows a secret");
        // A change at every node is forwarded to the leader.
        for id in cluster.ids() {
            let tag = format!("tag-{id}-of-{}", unusable.len());
            cluster.api(id).post("/v1/tags", &json!({ "tag": tag })).ok();
        }
    }
    // New connections are proven with the previous secret.
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    cluster.kill(follower);
    replace(&secret_file(&cluster, follower), &old);
    cluster.start_node(follower);
    cluster.await_ready();
    for secrets in [&[&*new, &*old][..], &[&*new]] {
        for id in cluster.ids() {
            reload_secrets(&mut cluster, id, secrets, TAKEN);
        }
    }
    cluster.await_ready();
}

#[test]
fn signals_to_read_files_again_end_no_node_and_fail_no_request() {
    let mut cluster = start_with(&new_secret());
    let busy = Busy::start(&cluster);
    for _ in 0..20 {
        for id in cluster.ids() {
            cluster.process(id).signal("HUP");
        }
        pause(ms(50));
    }
    assert_all_run(&mut cluster, &[1, 2, 3]);
    busy.end_without_a_failure();

    for nodes in [1, 3] {
        let mut dev = mintleaf().dev_with_nodes(nodes);
        for n in 0..20 {
            dev.process().signal("HUP");
            let node = usize::from(n % nodes) + 1;
            assert_eq!(dev.node(node).get("/api/segment/get/orders").status, 200);
        }
        assert!(dev.process().is_running(), "dev has ended");
    }
}
