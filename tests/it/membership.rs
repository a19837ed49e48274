//! Changes of the membership: nodes join, are promoted, removed, wiped, moved, and restored from old copies.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{
    Answer, Api, Cluster, Finished, Load, eventually, known_leader, mintleaf, secs,
};

const SECRET: &str = "correct-horse-battery-staple-in-the-stable";

/// A member's role, as a node shows it.
fn role(api: Api, id: u64) -> Option<String> {
    let cluster: Value = serde_json::from_slice(&api.try_get("/v1/cluster").ok()?.body).ok()?;
    let node = cluster["nodes"].as_array()?.iter().find(|node| node["id"] == id)?;
    Some(node["role"].as_str()?.to_owned())
}

fn await_role(api: Api, id: u64, expected: Option<&str>) {
    eventually(&format!("node {id} to be {expected:?}"), secs(15), || {
        (role(api, id).as_deref() == expected).then_some(())
    });
}

/// Adds a node, or makes a learner a voter. Repeats the request while the learner is not caught up.
fn add(cluster: &Cluster, through: u64, id: u64, voter: bool) {
    let body = json!({ "id": id, "raft": cluster.raft(id).to_string(), "voter": voter });
    eventually(&format!("node {id} to be added"), secs(30), || {
        let answer = cluster.api(through).post("/v1/cluster/nodes", &body);
        // The leader shows a node as a learner a moment before that node's own request to join is answered.
        let busy = answer.text().contains("another change is in progress");
        assert!([200, 503].contains(&answer.status) || busy, "{answer:?}");
        (answer.status == 200).then_some(())
    });
}

fn remove(cluster: &Cluster, through: u64, id: u64) -> Answer {
    cluster.api(through).delete(&format!("/v1/cluster/nodes/{id}"))
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

#[test]
fn node_joins_as_learner_is_promoted_and_removed_under_load() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 50 })).ok();
    cluster.start_joiner(4, 2, &[]);
    await_role(cluster.api(1), 4, Some("learner"));
    eventually("the learner to be ready", secs(10), || {
        (cluster.api(4).try_get("/readyz").ok()?.status == 200).then_some(())
    });
    let load = Load::start(&cluster.targets(), &["orders".to_owned()], 2);
    load.await_more(200);
    add(&cluster, 3, 4, true);
    await_role(cluster.api(4), 4, Some("voter"));
    // Adding a member again changes nothing.
    add(&cluster, 3, 4, true);
    load.await_more(200);

    assert_eq!(remove(&cluster, 2, 4).status, 204);
    let (exit, log) = cluster.ended(4, secs(10));
    assert_eq!(exit, Some(3));
    assert!(log.contains("was removed from the cluster"), "{log}");
    await_role(cluster.api(1), 4, None);
    load.await_more(200);
    let history = load.stop();
    history.check();
    let failed: Vec<_> = history.failures().filter(|op| op.node != 4).collect();
    assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed[0]);

    // The removed node gets the same answer when it is started again.
    cluster.start_node(4);
    let (exit, log) = cluster.ended(4, secs(20));
    assert_eq!(exit, Some(3), "{log}");
    assert_eq!(log.matches("was removed from the cluster").count(), 2, "{log}");
}

#[test]
fn removed_leader_stops_and_another_takes_over() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let other = cluster.others(leader)[0];
    assert_eq!(remove(&cluster, other, leader).status, 204);
    let (exit, log) = cluster.ended(leader, secs(15));
    assert_eq!(exit, Some(3));
    assert!(log.contains("was removed from the cluster"), "{log}");
    eventually("another leader", secs(10), || {
        known_leader(cluster.api(other)).filter(|&now| now != leader)
    });
    cluster.api(other).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    assert_eq!(cluster.api(other).get("/v1/segment/orders").ids(), [1]);
}

#[test]
fn wiped_node_is_refused_and_comes_back_by_remove_and_join() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 50 })).ok();
    let leader = cluster.leader();
    let wiped = cluster.others(leader)[0];
    cluster.kill(wiped);
    cluster.wipe(wiped);
    cluster.start_node(wiped);
    let (exit, log) = cluster.ended(wiped, secs(20));
    assert_eq!(exit, Some(3), "{log}");
    assert!(log.contains("with another data directory"), "{log}");
    assert!(
        log.contains(
            "remove the node from the cluster with `mintleaf cluster remove`, and join it again"
        ),
        "{log}"
    );

    // Joining without having been removed is refused as well.
    cluster.wipe(wiped);
    cluster.start_joiner(wiped, leader, &[]);
    let (exit, log) = cluster.ended(wiped, secs(20));
    assert_eq!(exit, Some(3), "{log}");

    assert_eq!(remove(&cluster, leader, wiped).status, 204);
    cluster.wipe(wiped);
    cluster.start_joiner(wiped, leader, &[]);
    await_role(cluster.api(leader), wiped, Some("learner"));
    add(&cluster, leader, wiped, true);
    await_role(cluster.api(wiped), wiped, Some("voter"));
    eventually("ids from the node that came back", secs(10), || {
        (cluster.api(wiped).get("/v1/segment/orders").status == 200).then_some(())
    });
}

/// Kills a node, copies its data, starts it `starts` more times, and then starts it from the copy, under the
/// same leader or another.
fn restore_after(starts: u64, another_leader: bool) -> (Option<i32>, String) {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let [node, third] = cluster.others(leader)[..] else { panic!("three nodes run") };
    let create = |api: Api, tag: &str| drop(api.post("/v1/tags", &json!({ "tag": tag })).ok());
    create(cluster.api(leader), "before");
    cluster.kill(node);
    let (data, saved) = (cluster.data(node), cluster.dir().join("saved"));
    copy(&data, &saved);
    for start in 0..starts {
        cluster.start_node(node);
        cluster.leader();
        create(cluster.api(leader), &format!("after-{start}"));
        await_acknowledged(cluster.api(leader), node);
        cluster.kill(node);
    }
    if another_leader {
        let transfer = json!({ "id": third });
        assert_eq!(cluster.api(leader).post("/v1/cluster/leader", &transfer).status, 204);
    }
    cluster.wipe(node);
    fs::rename(&saved, &data).unwrap();
    // An operator who declares a copy to be the only one may be wrong about which one it is.
    cluster.set_env(node, "MINTLEAF_MOVED", "true");
    cluster.start_node(node);
    let ended = cluster.ended(node, secs(20));
    create(cluster.api(third), "the-others-go-on");
    ended
}

/// Waits until the leader knows that a node's log on disk is as long as its own.
fn await_acknowledged(leader: Api, node: u64) {
    eventually("the node to acknowledge everything", secs(10), || {
        let cluster = leader.get("/v1/cluster").ok();
        let nodes = cluster["nodes"].as_array()?;
        let matched =
            |id: &Value| nodes.iter().find(|node| node["id"] == *id)?["matched_index"].as_u64();
        (matched(&json!(node))? == matched(&cluster["node_id"])?).then_some(())
    });
}

#[test]
fn node_restored_from_an_older_copy_is_refused() {
    for (starts, another_leader) in [(1, false), (2, false), (2, true), (1, true)] {
        let (exit, log) = restore_after(starts, another_leader);
        assert_eq!(exit, Some(3), "{log}");
        let old = log.contains("was restored from an old copy");
        assert!(old || log.contains("has lost log entries it acknowledged"), "{log}");
        assert!(log.contains("join it again"), "{log}");
    }
}

#[test]
fn node_that_comes_back_at_another_address_is_found_there() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let [moved, third] = cluster.others(leader)[..] else { panic!("three nodes run") };
    cluster.kill(moved);
    cluster.move_node(moved);
    cluster.start_node(moved);
    let (raft, http) = (cluster.raft(moved).to_string(), cluster.api(moved).0.to_string());
    eventually("the others to know the new address", secs(15), || {
        let shown = cluster.api(third).get("/v1/cluster").ok();
        let node = shown["nodes"].as_array()?.iter().find(|node| node["id"] == moved)?;
        (node["raft"] == raft && node["http"] == http).then_some(())
    });
    assert_eq!(role(cluster.api(third), moved).as_deref(), Some("voter"));
    // With another node down, there is a quorum only if the others find the node that moved.
    cluster.kill(third);
    cluster.api(moved).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    assert_eq!(cluster.api(leader).get("/v1/segment/orders").ids(), [1]);
}

#[test]
fn leadership_is_transferred_on_request() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 50 })).ok();
    let load = Load::start(&cluster.targets(), &["orders".to_owned()], 2);
    let old = cluster.leader();
    let [new, asked] = cluster.others(old)[..] else { panic!("three nodes run") };
    let transfer = |to: u64| cluster.api(asked).post("/v1/cluster/leader", &json!({ "id": to }));
    assert_eq!(transfer(new).status, 204);
    // The transfer is complete when it is answered; the others learn of it with the next heartbeat.
    assert_eq!(known_leader(cluster.api(old)), Some(new));
    eventually("the third node to hear of it", secs(5), || {
        known_leader(cluster.api(asked)).filter(|&leader| leader == new)
    });
    assert_eq!(transfer(new).status, 204, "to the leader itself");
    assert_eq!(transfer(9).problem(), (404, "not_found".to_owned()));
    load.await_more(200);
    let history = load.stop();
    history.check();
    assert_eq!(history.failures().count(), 0);
    assert_eq!(cluster.leader(), new);
}

#[test]
fn a_voter_becomes_a_learner_on_request_and_a_voter_again() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 50 })).ok();
    let leader = cluster.leader();
    let [node, third] = cluster.others(leader)[..] else { panic!("three nodes run") };
    let change = |id: u64, voter: bool| {
        let body = json!({ "id": id, "raft": cluster.raft(id).to_string(), "voter": voter });
        cluster.api(third).post("/v1/cluster/nodes", &body)
    };
    assert_eq!(change(node, false).status, 200);
    assert_eq!(role(cluster.api(leader), node).as_deref(), Some("learner"));
    assert_eq!(change(node, false).status, 200, "it is one already");
    await_role(cluster.api(node), node, Some("learner"));
    assert_eq!(cluster.api(node).get("/v1/segment/orders").status, 200, "a learner serves");
    let transfer = cluster.api(third).post("/v1/cluster/leader", &json!({ "id": node }));
    assert_eq!(transfer.problem(), (409, "conflict".to_owned()), "a learner cannot lead");
    assert_eq!(change(node, true).status, 200);
    await_role(cluster.api(node), node, Some("voter"));

    // A leader transfers leadership before it becomes a learner. A node that is down need not agree.
    assert_eq!(change(leader, false).status, 200);
    await_role(cluster.api(third), leader, Some("learner"));
    let url = format!("http://{}", cluster.api(third).0);
    cluster.kill(leader);
    let raft = cluster.raft(leader).to_string();
    let promoted = |learner: &[&str]| {
        let args = ["cluster", "add", &leader.to_string(), "--raft", &raft, "--url", &url];
        Finished::of(mintleaf().command().args(args).args(learner))
    };
    let again = promoted(&["--learner"]);
    assert_eq!(again.code, Some(0), "it is a learner already, and down");
    assert!(again.stderr.contains("nothing has changed"), "{again:?}");
    assert_eq!(promoted(&[]).code, Some(1), "it cannot catch up while it is down");
    cluster.start_node(leader);
    add(&cluster, third, leader, true);
    await_role(cluster.api(third), leader, Some("voter"));
    cluster.leader();
}

#[test]
fn the_last_voter_stays_one() {
    let cluster = mintleaf().cluster(1);
    let body = json!({ "id": 1, "raft": cluster.raft(1).to_string(), "voter": false });
    let refused = cluster.api(1).post("/v1/cluster/nodes", &body);
    assert_eq!(refused.problem(), (409, "conflict".to_owned()));
    assert!(refused.text().contains("the last voter"), "{refused:?}");
    assert_eq!(role(cluster.api(1), 1).as_deref(), Some("leader"));
}

#[test]
fn changes_of_the_membership_wait_out_an_election() {
    let mut cluster = mintleaf().cluster(3);
    cluster.start_joiner(4, 1, &[]);
    await_role(cluster.api(1), 4, Some("learner"));
    add(&cluster, 1, 4, true);
    // No leader exists each time: the nodes know only the dead one.
    let leader = cluster.leader();
    let rest = cluster.others(leader);
    let [a, b] = [rest[0], rest[1]];
    cluster.kill(leader);
    assert_eq!(remove(&cluster, a, leader).status, 204);
    await_role(cluster.api(b), leader, None);

    cluster.wipe(leader);
    cluster.start_joiner(leader, a, &[]);
    await_role(cluster.api(a), leader, Some("learner"));
    let second = cluster.leader();
    let asked = *cluster.others(second).iter().find(|&&id| id != leader).unwrap();
    cluster.kill(second);
    let body = json!({ "id": leader, "raft": cluster.raft(leader).to_string() });
    let added = cluster.api(asked).post("/v1/cluster/nodes", &body);
    assert_eq!(added.status, 200, "{added:?}");
    cluster.start_node(second);
    cluster.await_ready();

    let third = cluster.leader();
    let others = cluster.others(third);
    cluster.kill(third);
    let transfer = json!({ "id": others[0] });
    let moved = cluster.api(others[1]).post("/v1/cluster/leader", &transfer);
    assert_eq!(moved.status, 204, "{moved:?}");
    assert_eq!(known_leader(cluster.api(others[1])), Some(others[0]));
}

#[test]
fn impossible_changes_are_refused_with_the_reason() {
    let cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    let nodes = "/v1/cluster/nodes";
    assert_eq!(remove(&cluster, 1, 7).problem(), (404, "not_found".to_owned()));
    let last = remove(&cluster, 1, 1);
    assert_eq!(last.problem(), (409, "conflict".to_owned()));
    assert!(last.text().contains("last voter"), "{last:?}");
    let json = [("content-type", "application/json")];
    let unknown = api.send(&Method::DELETE, "/v1/cluster/nodes/7", &json, r#"{"forse":true}"#);
    assert_eq!(unknown.problem(), (400, "invalid_argument".to_owned()));
    for (body, named) in [
        (json!({ "raft": "127.0.0.1:1" }), "id"),
        (json!({ "id": 0, "raft": "127.0.0.1:1" }), "id"),
        (json!({ "id": 2 }), "raft"),
        (json!({ "id": 2, "raft": "nowhere" }), "raft"),
        (json!({ "id": 2, "raft": "127.0.0.1:0" }), "raft"),
        (json!({ "id": 2, "raft": "127.0.0.1:1", "http": "a b:1" }), "http"),
        (json!({ "id": 2, "raft": "127.0.0.1:1", "voter": "yes" }), "voter"),
        (json!({ "id": 2, "raft": "127.0.0.1:1", "role": "voter" }), "role"),
    ] {
        let refused = api.post(nodes, &body);
        assert_eq!(refused.problem(), (400, "invalid_argument".to_owned()), "{body}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(named), "{refused:?}");
    }
    let own = cluster.raft(1).to_string();
    let misnamed = api.post(nodes, &json!({ "id": 2, "raft": own }));
    assert_eq!(misnamed.problem(), (409, "conflict".to_owned()));
    assert!(misnamed.text().contains(&format!("no new node 2 at {own}")), "{misnamed:?}");
    assert_eq!(api.delete("/v1/cluster/nodes/x").problem(), (400, "invalid_argument".to_owned()));
}

#[test]
fn one_change_is_made_at_a_time() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let api = cluster.api(leader);
    // A listener that never answers: adding it lasts as long as the leader waits for an answer.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let body = json!({ "id": 9, "raft": mute.local_addr().unwrap().to_string() });
    let adding = thread::spawn(move || {
        // The requests below are changes too, so one of them may be first.
        eventually("a turn", secs(5), || {
            let answer = api.post("/v1/cluster/nodes", &body);
            (!answer.text().contains("another change is in progress")).then_some(answer)
        })
    });
    let refused = eventually("the change to be under way", secs(5), || {
        // A transfer to the leader itself changes nothing, but counts as a change.
        let answer = api.post("/v1/cluster/leader", &json!({ "id": leader }));
        (answer.status != 204).then_some(answer)
    });
    assert_eq!(refused.problem(), (409, "conflict".to_owned()));
    assert!(refused.text().contains("another change is in progress"), "{refused:?}");
    assert_eq!(adding.join().unwrap().problem(), (409, "conflict".to_owned()));
    assert_eq!(role(api, 9), None);
    assert_eq!(api.post("/v1/cluster/leader", &json!({ "id": leader })).status, 204);
}

#[test]
fn a_node_without_the_cluster_secret_never_joins_and_is_told_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let right = file("right", SECRET);
    let wrong = file("wrong", "something-else-entirely, and as long as it must be");
    let mut cluster = mintleaf().prepare(1, &["--cluster-secret-file", &right]);
    cluster.start_all();
    for (id, flags) in [(2, &["--cluster-secret-file", wrong.as_str()][..]), (3, &[])] {
        cluster.start_joiner(id, 1, flags);
        eventually("the reason in the log", secs(10), || {
            cluster.process(id).log().contains("--cluster-secret-file").then_some(())
        });
        assert_eq!(cluster.api(id).get("/readyz").status, 503);
        assert_eq!(role(cluster.api(1), id), None);
    }
    cluster.start_joiner(4, 1, &["--cluster-secret-file", &right]);
    await_role(cluster.api(1), 4, Some("learner"));
    for (id, _) in cluster.targets() {
        assert!(!cluster.process(id).log().contains(SECRET), "node {id} logs the secret");
    }
}
