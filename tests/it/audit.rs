//! The audit of admin changes: which actions have an entry and which do not, on three nodes and over restarts.

use serde_json::{Value, json};

use crate::auth::{entry, token, write};
use crate::harness::{Api, Cluster, Finished, eventually, mintleaf, secs};

/// The whole audit according to one node.
fn audit(api: Api) -> Vec<Value> {
    api.get("/v1/audit?limit=1000").ok()["entries"].as_array().unwrap().clone()
}

/// The actions in the audit, each with its target.
fn actions(api: Api) -> Vec<String> {
    let told = |entry: &Value| {
        format!("{} {}", entry["action"].as_str().unwrap(), entry["target"].as_str().unwrap())
    };
    audit(api).iter().map(told).collect()
}

#[test]
fn every_change_of_a_tag_has_one_entry_with_what_was_before() {
    let dev = mintleaf().dev();
    let api = dev.api();
    api.post("/v1/tags", &json!({ "tag": "orders", "step": 5, "description": "shop" })).ok();
    api.patch("/v1/tags/orders", &json!({ "step": 7, "frozen": true })).ok();
    assert_eq!(api.delete("/v1/tags/orders").status, 204);
    let row = |step, frozen| json!({ "max_id": "1", "step": step, "description": "shop", "rate_limit": null, "frozen": frozen });
    let expected = [
        ("tag.create", Value::Null, row(5, false)),
        ("tag.update", json!({ "step": 5, "frozen": false }), json!({ "step": 7, "frozen": true })),
        ("tag.delete", row(7, true), Value::Null),
    ];
    let entries = audit(api);
    assert_eq!(entries.len(), expected.len(), "{entries:?}");
    for (at, (entry, (action, before, after))) in entries.iter().zip(expected).enumerate() {
        assert_eq!((&entry["index"], &entry["target"]), (&json!(at + 1), &json!("orders")));
        assert_eq!((&entry["actor"], &entry["action"]), (&json!("anonymous"), &json!(action)));
        assert_eq!((&entry["before"], &entry["after"]), (&before, &after), "{action}");
        assert!(entry["time"].as_str().unwrap().ends_with('Z'), "{entry}");
    }
}

#[test]
fn the_actor_is_the_name_of_the_token_and_anonymous_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    let tokens = entry("ops", "admin", "") + &entry("eye", "read", "");
    write(&file, &format!("anonymous = \"admin\"\n{tokens}"));
    let setting = format!("MINTLEAF_AUTH_FILE={}", file.display());
    let mut dev = mintleaf().under(["env".to_owned(), setting]).dev();
    let api = dev.api();
    let create = |tag: &str, name: Option<&str>| {
        let shown = name.map(|name| format!("Bearer {}", token(name)));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(shown.as_deref().map(|shown| ("authorization", shown)));
        let body = json!({ "tag": tag }).to_string();
        api.send(&hyper::Method::POST, "/v1/tags", &headers, &body).status
    };
    assert_eq!(create("a", Some("ops")), 201);
    assert_eq!(create("b", None), 201);
    assert_eq!(create("c", Some("eye")), 403);
    assert_eq!(create("d", Some("nobody")), 401);
    let told: Vec<Value> =
        audit(api).iter().map(|entry| json!([entry["actor"], entry["target"]])).collect();
    assert_eq!(told, [json!(["ops", "a"]), json!(["anonymous", "b"])]);
    let log = dev.process().log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("mintleaf::audit")).collect();
    let [by_ops, by_nobody] = lines[..] else { panic!("{lines:?}") };
    assert!(by_ops.contains("actor=\"ops\""), "{by_ops}");
    assert!(by_nobody.contains("actor=\"anonymous\""), "{by_nobody}");
}

#[test]
fn what_is_refused_and_what_is_no_admin_change_has_no_entry() {
    let dev = mintleaf().dev();
    let api = dev.api();
    assert_eq!(api.get("/v1/segment/made-on-first-use").ids(), [1]);
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    assert_eq!(api.post("/v1/tags", &json!({ "tag": "orders" })).status, 409);
    assert_eq!(api.patch("/v1/tags/nobody", &json!({ "step": 5 })).status, 404);
    assert_eq!(api.patch("/v1/tags/orders", &json!({ "step": 0 })).status, 400);
    assert_eq!(
        api.patch("/v1/tags/orders", &json!({ "max_id": "1000000000000000000" })).status,
        409
    );
    assert_eq!(api.delete("/v1/tags/nobody").status, 404);
    assert_eq!(api.get("/v1/segment/orders?count=5000").ids().len(), 5_000);
    assert_eq!(actions(api), ["tag.create orders"]);
}

#[test]
fn pages_follow_each_other_and_the_command_line_shows_all() {
    let dev = mintleaf().dev();
    let api = dev.api();
    let longest = "🙂".repeat(256);
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    for number in 0..250 {
        api.patch("/v1/tags/orders", &json!({ "step": number + 1, "description": longest })).ok();
    }
    let (mut after, mut indexes, mut pages) = (0, Vec::new(), 0);
    loop {
        let answer = api.get(&format!("/v1/audit?limit=1000&after={after}"));
        assert!(answer.body.len() < 300 * 1024, "{} bytes", answer.body.len());
        let page = answer.ok();
        let entries = page["entries"].as_array().unwrap();
        indexes.extend(entries.iter().map(|entry| entry["index"].as_u64().unwrap()));
        pages += 1;
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(indexes, (1..=251).collect::<Vec<_>>());
    assert!(pages > 1, "a page ends by its bytes, too");
    let page = api.get("/v1/audit?after=3&limit=2").ok();
    assert_eq!((page["entries"][0]["index"].as_u64(), page["next"].as_u64()), (Some(4), Some(5)));
    assert_eq!(api.get("/v1/audit").ok()["entries"].as_array().unwrap().len(), 100);
    assert_eq!(api.get("/v1/audit?after=251").ok(), json!({ "entries": [], "next": null }));
    let newest = api.get("/v1/audit?sort=newest&limit=2").ok();
    assert_eq!(
        (newest["entries"][0]["index"].as_u64(), newest["next"].as_u64()),
        (Some(251), Some(250))
    );
    let oldest = api.get("/v1/audit?sort=newest&after=2").ok();
    assert_eq!((oldest["entries"][0]["index"].as_u64(), &oldest["next"]), (Some(1), &Value::Null));
    for wrong in ["limit=0", "limit=1001", "sort=none", "after=-1", "since=3", "consistency=none"] {
        assert_eq!(api.get(&format!("/v1/audit?{wrong}")).status, 400, "{wrong}");
    }

    let ask = |args: &[&str]| {
        let run = Finished::of(mintleaf().command().args(args).args(["--url", &dev.url()]));
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    let all: Vec<Value> = serde_json::from_str(&ask(&["audit", "--json"])).unwrap();
    assert_eq!(all.len(), 251);
    let newest = ask(&["audit", "--newest", "--limit", "2", "--json"]);
    let newest: Vec<Value> = serde_json::from_str(&newest).unwrap();
    assert_eq!([&newest[0]["index"], &newest[1]["index"]], [251, 250]);
    let older = ask(&["audit", "--newest", "--after", "2", "--json"]);
    assert_eq!(serde_json::from_str::<Vec<Value>>(&older).unwrap()[0]["index"], 1);
    let backwards = ask(&["audit", "--newest", "--json"]);
    let mut backwards: Vec<Value> = serde_json::from_str(&backwards).unwrap();
    backwards.reverse();
    assert_eq!(backwards, all);
    let table = ask(&["audit", "--after", "1", "--limit", "3"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.starts_with("INDEX") && table.contains("tag.update"), "{table}");
    assert!(table.contains("step=1000") && table.contains("step=1 "), "{table}");
    // A table has what a change changed, and of something new what it has.
    assert!(!table.contains("null") && !table.contains("frozen"), "{table}");
    let created = ask(&["audit", "--limit", "1"]);
    assert!(created.contains("step=") && !created.contains("null"), "{created}");
}

/// Creates a tag, and repeats the request during an election.
fn create(api: Api, tag: &str) {
    eventually(&format!("{tag} to be there"), secs(10), || {
        let status = api.post("/v1/tags", &json!({ "tag": tag })).status;
        [201, 409].contains(&status).then_some(())
    });
}

#[test]
fn the_audit_outlives_restarts_snapshots_and_the_leader() {
    let mut cluster = mintleaf().prepare(3, &["--snapshot-entries", "100"]);
    cluster.start_all();
    cluster.await_ready();
    for number in 0..150 {
        create(cluster.api(number % 3 + 1), &format!("tag-{number}"));
    }
    let whole = audit(cluster.api(1));
    assert_eq!(whole.len(), 150);
    let leader = cluster.leader();
    cluster.kill(leader);
    cluster.start_node(leader);
    cluster.await_ready();
    for id in cluster.ids() {
        assert_eq!(audit(cluster.api(id)), whole, "node {id}");
    }
    // A node without its data receives the audit with a snapshot.
    let through = cluster.leader();
    let wiped = cluster.others(through)[0];
    cluster.kill(wiped);
    cluster.wipe(wiped);
    assert_eq!(cluster.api(through).delete(&format!("/v1/cluster/nodes/{wiped}")).status, 204);
    cluster.start_joiner(wiped, through, &["--snapshot-entries", "100"]);
    eventually("the node to have the audit", secs(20), || {
        let page = cluster.api(wiped).try_get("/v1/audit?limit=1000&consistency=stale").ok()?;
        let page = page.is_ok().then(|| page.json())?;
        page["entries"].as_array()?.starts_with(&whole).then_some(())
    });
}

/// Waits until the last entries of the audit are these.
fn await_actions(cluster: &Cluster, through: u64, expected: &[String]) {
    eventually(&format!("the audit to end with {expected:?}"), secs(10), || {
        actions(cluster.api(through)).ends_with(expected).then_some(())
    });
}

#[test]
fn changes_of_the_membership_and_the_leader_are_recorded() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let (asked, other) = (cluster.others(leader)[0], cluster.others(leader)[1]);
    let api = cluster.api(asked);
    let handed = api.post("/v1/cluster/leader", &json!({ "id": other }));
    assert_eq!(handed.status, 204, "{handed:?}");
    await_actions(&cluster, asked, &["leader.transfer cluster".to_owned()]);
    let entry = audit(api).pop().unwrap();
    assert_eq!(
        (&entry["before"], &entry["after"]),
        (&json!({ "leader": leader }), &json!({ "leader": other }))
    );

    let raft = cluster.raft(leader).to_string();
    // It leads already: nothing changes.
    assert_eq!(api.post("/v1/cluster/leader", &json!({ "id": other })).status, 204);
    let demote = json!({ "id": leader, "raft": raft, "voter": false });
    eventually("the node to lose its vote", secs(20), || {
        api.post("/v1/cluster/nodes", &demote).is_ok().then_some(())
    });
    await_actions(&cluster, asked, &[format!("node.update {leader}")]);
    let transfers = audit(api).iter().filter(|it| it["action"] == "leader.transfer").count();
    assert_eq!(transfers, 1);
    let entry = audit(api).pop().unwrap();
    assert_eq!(
        (&entry["before"]["voter"], &entry["after"]["voter"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(entry["after"]["raft"], raft);
    let before = audit(api).len();
    let same =
        json!({ "id": leader, "raft": raft, "voter": false, "http": entry["after"]["http"] });
    for same in [&demote, &same] {
        assert_eq!(api.post("/v1/cluster/nodes", same).status, 200);
        assert_eq!(audit(api).len(), before, "{same} changes nothing");
    }

    // When a node removes itself, the removal is recorded first.
    let removed = cluster.api(leader).delete(&format!("/v1/cluster/nodes/{leader}"));
    assert_eq!(removed.status, 204, "{removed:?}");
    await_actions(&cluster, asked, &[format!("node.remove {leader}")]);
    let entry = audit(api).pop().unwrap();
    assert_eq!((&entry["before"]["raft"], &entry["after"]), (&json!(raft), &Value::Null));
    // No higher level is supported by all members. Nothing changes, so nothing is recorded.
    let before = audit(api).len();
    assert_eq!(api.post("/v1/cluster/level", &json!({})).status, 200);
    assert_eq!(audit(api).len(), before);
}

#[test]
fn the_node_that_was_asked_logs_a_change_once_and_the_others_do_not() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let asked = cluster.others(leader)[0];
    cluster.api(asked).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    cluster.api(asked).patch("/v1/tags/orders", &json!({ "description": "a \"shop\"" })).ok();
    // A node answers before it has written its log: a kill may lose the last lines.
    eventually("the node to log the update", secs(10), || {
        cluster.process(asked).log().contains("tag.update").then_some(())
    });
    cluster.kill(asked);
    cluster.start_node(asked);
    cluster.await_ready();
    for id in cluster.ids() {
        let log = cluster.process(id).log();
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains("mintleaf::audit")).collect();
        assert_eq!(lines.len(), if id == asked { 2 } else { 0 }, "node {id}: {lines:?}");
        if let [created, updated] = lines[..] {
            assert!(created.contains("tag.create") && created.contains("anonymous"), "{created}");
            assert!(updated.contains("tag.update") && updated.contains("shop"), "{updated}");
        }
    }
}

/// A port may have leading zeros. With thousands of them, an address did not fit into an entry of the audit,
/// and then not into one of the log.
#[test]
fn an_address_that_no_entry_can_hold_changes_nothing() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let api = cluster.api(leader);
    let zeros = "0".repeat(60_000);
    for id in cluster.ids() {
        let raft = cluster.raft(id).to_string();
        for change in [
            json!({ "id": id, "raft": raft, "http": format!("127.0.0.1:{zeros}80") }),
            json!({ "id": id, "raft": raft.replace(':', &format!(":{zeros}")) }),
        ] {
            let refused = api.post("/v1/cluster/nodes", &change);
            assert_eq!(refused.problem(), (400, "invalid_argument".to_owned()));
        }
    }
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    assert_eq!(actions(api), ["tag.create orders"]);
    assert_eq!(cluster.leader(), leader);
}
