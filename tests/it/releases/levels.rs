//! Nodes of two releases in one cluster: upgraded and rolled back one by one, until the level is raised.
//!
//! The other release is this tree with `tests/releases/next-level.patch`, which supports level 4 and has one command
//! there.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{THIS, await_versions, cluster_of, other_build};
use crate::harness::{Answer, Cluster, Finished, Load, eventually, mintleaf, secs};

const NEWER: &str = concat!(env!("CARGO_PKG_VERSION"), "-next");

/// Stops a node and starts it again as another build.
fn roll(cluster: &mut Cluster, id: u64, build: Option<&PathBuf>) {
    cluster.stop(id);
    cluster.use_build(id, build.map(PathBuf::as_path));
    cluster.start_node(id);
    cluster.await_ready();
}

/// Runs `mintleaf cluster level` against a node.
fn level(cluster: &Cluster, id: u64, what: &[&str]) -> Finished {
    let mut command = mintleaf().command();
    command.args(["cluster", "level"]).args(what);
    command.args(["--json", "--url", &format!("http://{}", cluster.api(id).0)]);
    Finished::of(&mut command)
}

/// Asks a node to raise the level, and repeats the request while the node knows no leader.
fn raise(cluster: &Cluster, id: u64) -> Answer {
    eventually("an answer about the level", secs(15), || {
        let answer = cluster.api(id).post("/v1/cluster/level", &json!({}));
        (answer.status != 503).then_some(answer)
    })
}

/// The reason why the level cannot rise.
fn refusal(cluster: &Cluster, id: u64) -> String {
    let refused = raise(cluster, id);
    assert_eq!(refused.problem(), (409, "level".to_owned()));
    refused.text().to_owned()
}

fn shown_level(cluster: &Cluster, id: u64) -> u64 {
    let shown: Value = serde_json::from_str(&level(cluster, id, &[]).stdout).unwrap();
    shown["level"].as_u64().unwrap()
}

/// Records a note: the one command that level 4 adds.
fn note(cluster: &Cluster, id: u64, text: &str) -> (u16, String) {
    let answer = cluster.api(id).post("/v1/cluster/note", &json!({ "note": text }));
    if answer.status == 200 {
        (200, answer.json()["note"].as_str().unwrap().to_owned())
    } else {
        answer.problem()
    }
}

#[track_caller]
fn assert_outdated((code, log): (Option<i32>, String)) {
    assert_eq!(code, Some(3), "{log}");
    let told = log.lines().rev().take(2).any(|line| line.contains(NEWER));
    assert!(told, "it does not say which version it needs: {log}");
}

#[test]
fn two_releases_are_one_cluster_and_roll_both_ways_until_the_level_is_raised() {
    let Some(newer) = other_build("MINTLEAF_NEXT_LEVEL") else { return };
    let mut cluster = mintleaf().prepare(3, &[]);
    cluster.use_build(3, Some(&newer));
    cluster.start_all();
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 50 })).ok();
    let load = Load::start(&cluster.targets(), &["orders".to_owned()], 1);
    await_versions(&cluster, &[THIS, THIS, NEWER]);

    assert_eq!(note(&cluster, 3, "too early").0, 409);
    assert_eq!(note(&cluster, 3, "too early").1, "level");
    for id in cluster.ids() {
        let refused = refusal(&cluster, id);
        for older in [1, 2] {
            let named = format!("node {older} runs version {THIS}, which supports level 3");
            assert!(refused.contains(&named), "{refused}");
        }
        assert_eq!(shown_level(&cluster, id), 3, "what all founders support");
    }

    // Every node is upgraded, rolled back to the last release, and upgraded again.
    for build in [Some(&newer), None, Some(&newer)] {
        for id in [2, 3, 1] {
            roll(&mut cluster, id, build);
        }
        load.await_more(100);
    }
    await_versions(&cluster, &[NEWER; 3]);

    // A node that cannot be reached holds the level back, too.
    cluster.stop(1);
    let refused = refusal(&cluster, 2);
    assert!(refused.contains("node 1 cannot be asked"), "{refused}");
    cluster.start_node(1);
    cluster.await_ready();

    assert_eq!(raise(&cluster, 3).ok()["level"], 4);
    let raised = level(&cluster, 1, &["raise", "--yes"]);
    assert_eq!(raised.code, Some(0), "there is nothing left to raise it to: {raised:?}");
    assert_eq!(shown_level(&cluster, 1), 4);
    for id in cluster.ids() {
        assert_eq!(note(&cluster, id, &format!("by node {id}")), (200, format!("by node {id}")));
    }

    // From now on the node's log and snapshots allow no way back.
    cluster.stop(2);
    cluster.use_build(2, None);
    for _ in 0..2 {
        cluster.start_node(2);
        assert_outdated(cluster.ended(2, secs(15)));
    }
    cluster.start_joiner(4, 1, &[]);
    assert_outdated(cluster.ended(4, secs(15)));
    cluster.use_build(2, Some(&newer));
    cluster.start_node(2);
    cluster.use_build(4, Some(&newer));
    cluster.start_node(4);
    cluster.await_ready();
    eventually("the note to be there", secs(10), || {
        (cluster_of(cluster.api(4))["note"] == "by node 3").then_some(())
    });
    load.await_more(100);
    load.stop().check();
}
