//! What a node reports that has lost its quorum, and how it comes back.

use std::thread;

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Finished, eventually, mintleaf, secs};

#[test]
fn a_leader_that_is_the_last_of_three_says_who_is_missing_and_what_to_do() {
    let mut cluster = mintleaf().cluster(3);
    let last = cluster.leader();
    says_who_is_missing(cluster, last);
}

/// A follower stops naming the leader that it lost.
#[test]
fn a_follower_that_is_the_last_of_three_says_who_is_missing_and_what_to_do() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let last = cluster.others(leader)[0];
    says_who_is_missing(cluster, last);
}

fn says_who_is_missing(mut cluster: Cluster, last: u64) {
    cluster.api(last).post("/v1/tags", &json!({ "tag": "never-asked-for" })).ok();
    // A node reports since when it has missed nodes that it heard from before.
    eventually("the last node to have heard the others", secs(15), || {
        let view = cluster.api(last).try_get("/v1/cluster").ok()?.try_json()?;
        let nodes = view["nodes"].as_array()?;
        nodes.iter().all(|node| node["reachable"] == true).then_some(())
    });
    for other in cluster.others(last) {
        cluster.kill(other);
    }
    let api = cluster.api(last);
    let reason = eventually("the loss to be noticed", secs(15), || {
        let ready = api.try_get("/readyz").ok()?.json();
        let reasons = ready["reasons"].as_array()?.clone();
        reasons.iter().find_map(|it| {
            it.as_str().filter(|it| it.starts_with("no_quorum: ")).map(str::to_owned)
        })
    });
    assert!(reason.contains("1 of 3 voters can be reached and 2 are needed"), "{reason}");
    for other in cluster.ids().into_iter().filter(|&id| id != last) {
        assert!(reason.contains(&format!("node {other} for ")), "{reason}");
    }
    assert!(reason.contains("mintleaf help quorum-loss"), "{reason}");
    assert!(reason.contains("tags of which nothing is held get 503"), "{reason}");
    assert_eq!(api.get("/v1/cluster").ok()["leader_id"], Value::Null);
    assert_eq!(api.get("/v1/segment/never-asked-for").problem(), (503, "unavailable".to_owned()));
    eventually("the log to say so", secs(15), || {
        let log = cluster.process(last).log();
        log.contains("no quorum: 1 of 3 voters").then_some(())
    });
    let mut status = mintleaf().command();
    status.args(["cluster", "status", "--url", &format!("http://{}", api.0)]);
    let status = Finished::of(&mut status);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.stdout.contains("no quorum: 1 of 3 voters"), "{status:?}");
    assert!(status.stdout.contains("what to do: mintleaf help quorum-loss"), "{status:?}");
    let mut doctor = mintleaf().command();
    doctor.args(["doctor", "--node-id", "9", "--raft", "127.0.0.1:0", "--data"]);
    let doctor =
        doctor.arg(cluster.dir().join("none")).args(["--url", &format!("http://{}", api.0)]);
    let doctor = Finished::of(doctor);
    assert!(doctor.stdout.contains("no quorum: 1 of 3 voters"), "{doctor:?}");
    let all: Vec<String> =
        cluster.ids().into_iter().map(|id| format!("http://{}", cluster.api(id).0)).collect();
    for urls in [all.join(","), all.iter().rev().cloned().collect::<Vec<_>>().join(",")] {
        let mut next = mintleaf().command();
        next.args(["next", "never-asked-for", "--url", &urls]);
        let next = Finished::of(&mut next);
        assert_eq!(next.code, Some(1), "{next:?}");
        assert!(
            !next.stderr.contains("cannot reach")
                && next.stderr.contains("mintleaf cluster status"),
            "the node that answers is heard, whichever is asked last: {next:?}"
        );
    }

    let back = cluster.ids().into_iter().find(|&id| id != last).unwrap();
    cluster.start_node(back);
    eventually("the quorum to be back", secs(15), || {
        let said = cluster.process(last).log().contains("the quorum is back");
        let ready = api.try_get("/readyz").ok()?.json();
        (said && ready["reasons"] == json!([])).then_some(())
    });
    api.post("/v1/tags", &json!({ "tag": "after" })).ok();
}

/// A change of the voters takes effect before it is committed. So one that can never be committed stops the cluster.
#[test]
fn a_change_that_would_lose_the_quorum_is_refused_unless_it_is_forced() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let [dead, live] = cluster.others(leader)[..] else { panic!("three nodes run") };
    cluster.kill(dead);
    let (api, path) = (cluster.api(leader), format!("/v1/cluster/nodes/{live}"));
    let demotion = json!({ "id": live, "raft": cluster.raft(live).to_string(), "voter": false });
    let own = cluster.api(live).delete(&path);
    for refused in [own, api.delete(&path), api.post("/v1/cluster/nodes", &demotion)] {
        assert_eq!(refused.problem(), (409, "conflict".to_owned()), "{refused:?}");
        let text = refused.text();
        assert!(text.contains(&format!("node {dead} does not answer: 1 of the 2 ")), "{text}");
    }
    let mut asked = mintleaf().command();
    let url = format!("http://{}", cluster.api(live).0);
    asked.args(["cluster", "remove", &leader.to_string(), "--yes", "--url", &url]);
    let asked = Finished::of(&mut asked);
    assert!(asked.code == Some(1) && asked.stderr.contains("does not answer"), "{asked:?}");
    assert_eq!(api.get("/v1/cluster").ok()["voters"], json!([[1, 2, 3]]));
    assert_eq!(api.get("/v1/audit").ok()["entries"], json!([]));
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();

    // When forced, it stops the cluster, and each half of the change is judged separately.
    let forced = thread::spawn(move || {
        let json = [("content-type", "application/json")];
        api.send(&Method::DELETE, &path, &json, r#"{"force":true}"#).status
    });
    let reason = eventually("the loss to be noticed", secs(15), || {
        let reasons = api.try_get("/readyz").ok()?.json()["reasons"].to_string();
        reasons.contains("no_quorum: ").then_some(reasons)
    });
    let half =
        format!("after it, 1 of 2 voters can be reached and 2 are needed; missing: node {dead} ");
    assert!(reason.contains(&half) && !reason.contains("before it, "), "{reason}");
    assert!(api.get("/metrics").text().contains("mintleaf_quorum_reachable 0\n"));
    eventually("the log to say so", secs(15), || {
        cluster.process(leader).log().contains("no quorum: a change of the voters").then_some(())
    });
    let mut status = mintleaf().command();
    status.args(["cluster", "status", "--url", &format!("http://{}", api.0)]);
    let status = Finished::of(&mut status);
    assert!(status.stdout.contains("after it, 1 of 2 voters can be reached"), "{status:?}");
    assert_ne!(forced.join().unwrap(), 409);
    cluster.start_node(dead);
    eventually("the quorum to be back", secs(15), || {
        let answer = api.patch("/v1/tags/orders", &json!({ "description": "after" }));
        (answer.status == 200).then_some(())
    });
}
