//! The main promise: after a restore no id of any kind repeats.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Given, back_up, create, delete, inspected, ready, restored, start};
use crate::harness::{Api, Load, Node, eventually, mintleaf, secs};

/// Continues after a copy was taken. Returns one more than the largest rise of any line since then: a restore
/// must raise every line by that.
fn goes_on(one: Api, other: Api, given: &mut Given) -> u64 {
    for _ in 0..20 {
        for api in [one, other] {
            given.take(api, "busy", 70);
            given.take_snowflakes(api, 50);
        }
    }
    given.take(one, "high", 300);
    create(one, "reborn", 400);
    create(one, "made-since", 500);
    for tag in ["reborn", "made-since"] {
        given.take(one, tag, 300);
    }
    create(one, "made-and-gone", 1);
    given.take(one, "made-and-gone", 200);
    delete(one, "made-and-gone");
    delete(one, "quiet");
    let highest = ["busy", "reborn", "made-since", "made-and-gone"].map(|tag| given.highest(tag));
    highest.into_iter().max().unwrap().max(given.highest("high") - (1 << 40)) + 1
}

#[test]
fn a_cluster_restored_from_an_older_backup_repeats_no_id_of_any_kind() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    let (one, other) = (cluster.api(leader), cluster.api(follower));
    let mut given = Given::default();
    // Tags that the copy knows, including deleted ones.
    for tag in ["busy", "quiet", "gone", "reborn"] {
        create(one, tag, 1);
        given.take(one, tag, 25);
    }
    create(one, "high", 1 << 40);
    given.take(other, "high", 25);
    delete(one, "gone");
    delete(one, "reborn");
    given.take_snowflakes(other, 50);
    let copy = cluster.dir().join("copy");
    back_up(other, &copy);
    let found = inspected(&copy);
    let shown = other.get("/v1/cluster").ok();
    assert_eq!((&found["cluster_id"], &found["tags"]), (&shown["cluster_id"], &json!(3)));
    assert_eq!((&found["node_id"], &found["whole"]), (&json!(follower), &json!(true)));

    let advance = goes_on(one, other, &mut given).to_string();
    for id in [1, 2, 3] {
        cluster.stop(id);
    }

    let data = cluster.dir().join("restored");
    let last = given.highest("").to_string();
    let said =
        restored(&copy, &data, 7, &["--advance-all-by", &advance, "--snowflake-above", &last]);
    assert_ne!(said["cluster_id"], shown["cluster_id"]);
    let mut nodes = vec![start(7, data, &[])];
    let seed = nodes[0].raft().to_string();
    for id in [2, 3] {
        let data = cluster.dir().join(format!("joined-{id}"));
        nodes.push(start(id, data, &["--join", &seed]));
        let voter =
            json!({ "id": id, "raft": nodes.last().unwrap().raft().to_string(), "voter": true });
        nodes[0].api().post("/v1/cluster/nodes", &voter).ok();
    }
    for tag in ["gone", "reborn", "made-since", "made-and-gone"] {
        create(nodes[0].api(), tag, 1);
    }
    let tags = ["busy", "quiet", "gone", "reborn", "high", "made-since", "made-and-gone"];
    for round in 0..3 {
        for node in &nodes {
            for tag in tags {
                given.take(node.api(), tag, 40);
            }
            given.take_snowflakes(node.api(), 50);
        }
        // What the state remembers of the restore survives its processes.
        let restarted = &mut nodes[round];
        restarted.start().unwrap();
        ready(&nodes[round]);
    }
    let never_made = nodes[1].api();
    create(never_made, "later", 5);
    assert!(never_made.get("/v1/segment/later").ids()[0] >= 5 + advance.parse::<u64>().unwrap());
}

#[test]
fn one_directory_of_three_is_enough_to_go_on_within_half_a_minute() {
    let mut cluster = mintleaf().cluster(3);
    let mut given = Given::default();
    create(cluster.api(1), "orders", 1);
    create(cluster.api(1), "gone", 1);
    for id in [1, 2, 3] {
        given.take(cluster.api(id), "orders", 100);
        given.take(cluster.api(id), "gone", 100);
        given.take_snowflakes(cluster.api(id), 50);
    }
    delete(cluster.api(1), "gone");
    // A quorum without the survivor may have deleted the tag. A linearizable read waits until that node has
    // deleted it, too.
    assert_eq!(cluster.api(2).get("/v1/tags/gone").status, 404);
    // A quorum granted what one node gave. The survivor need not have belonged to it.
    cluster.kill(2);
    let api = cluster.api(3);
    eventually("ids", secs(10), || api.try_get("/v1/snowflake").ok()?.is_ok().then_some(()));
    for _ in 0..5 {
        given.take(api, "orders", 100);
    }
    cluster.kill(1);
    cluster.kill(3);

    let began = Instant::now();
    let (survivor, data) = (cluster.data(2), cluster.dir().join("restored"));
    let found = inspected(&survivor);
    assert_eq!((&found["node_id"], &found["whole"]), (&json!(2), &json!(true)));
    let advance = (given.highest("orders") + 1).to_string();
    let said =
        restored(&survivor, &data, 1, &["--advance-all-by", &advance, "--stopped-at", "now"]);
    let node = start(1, data, &[]);
    given.take(node.api(), "orders", 500);
    create(node.api(), "gone", 1);
    given.take(node.api(), "gone", 500);
    assert!(began.elapsed() < secs(30), "{:?}", began.elapsed());
    // Snowflakes begin where every window of the old cluster must have ended.
    let from: jiff::Timestamp = said["snowflakes_from"].as_str().unwrap().parse().unwrap();
    assert!(from > jiff::Timestamp::now(), "{from}");
    let api = node.api();
    let answer = eventually("a snowflake id", secs(20), || {
        api.try_get("/v1/snowflake").ok().filter(|answer| answer.is_ok())
    });
    let first = answer.ids()[0];
    given.note("", vec![first]);
    let shown = api.get(&format!("/v1/snowflake/{first}")).ok();
    assert!(shown["timestamp_ms"].as_i64().unwrap() >= from.as_millisecond(), "{shown} {from}");

    // A copy of the restored cluster begins above what was given in it, and above what may have been given before.
    let copy = cluster.dir().join("copy");
    back_up(node.api(), &copy);
    create(node.api(), "since", 1);
    given.take(node.api(), "since", 30);
    drop(node);
    let data = cluster.dir().join("restored-again");
    let last = given.highest("").to_string();
    restored(&copy, &data, 1, &["--advance-all-by", "700", "--snowflake-above", &last]);
    let node = start(1, data, &[]);
    create(node.api(), "since", 1);
    for tag in ["orders", "gone", "since"] {
        given.take(node.api(), tag, 500);
    }
    assert!(given.highest("since") > 700 + advance.parse::<u64>().unwrap());
}

#[test]
fn a_backup_is_taken_under_load_without_a_failed_request() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    for number in 0..300 {
        create(cluster.api(leader), &format!("tag-{number}"), 1);
    }
    create(cluster.api(leader), "orders", 1);
    let load = Load::start(&cluster.targets(), &["orders".to_owned()], 6);
    load.await_more(200);
    for round in 0..5 {
        let copy = cluster.dir().join(format!("copy-{round}"));
        back_up(cluster.api(1 + round % 3), &copy);
        assert_eq!(inspected(&copy)["tags"], 301);
    }
    load.await_more(200);
    let history = load.stop();
    history.check();
    assert_eq!(history.failures().count(), 0);
}

#[test]
fn a_backup_is_whole_through_a_leader_that_drains_and_while_leadership_moves() {
    let mut cluster = mintleaf().prepare(3, &["--drain", "300s"]);
    cluster.start_all();
    create(cluster.api(1), "orders", 1);
    let nodes = [1, 2, 3].map(|id| cluster.api(id));
    for (to, asked) in [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2)] {
        let copy = cluster.dir().join(format!("copy-{to}-{asked}"));
        let made = create_acknowledged(nodes[asked - 1], &format!("tag-{to}-{asked}"));
        std::thread::scope(|scope| {
            scope.spawn(|| nodes[0].post("/v1/cluster/leader", &json!({ "id": to })));
            back_up(nodes[asked % 3], &copy);
        });
        assert_eq!(inspected(&copy)["tags"], made, "every tag that was acknowledged");
    }
    let leader = cluster.leader();
    cluster.process(leader).signal("TERM");
    let made = create_acknowledged(nodes[(leader % 3) as usize], "late");
    let copy = cluster.dir().join("copy-of-one-that-drains");
    back_up(cluster.api(leader), &copy);
    let found = inspected(&copy);
    assert_eq!((&found["tags"], &found["whole"]), (&json!(made), &json!(true)));
    assert_eq!(found["node_id"], leader);
}

/// Creates a tag; returns the number of tags after that.
fn create_acknowledged(api: Api, tag: &str) -> usize {
    create(api, tag, 1);
    api.get("/v1/tags?limit=1000").ok()["tags"].as_array().unwrap().len()
}

#[test]
fn old_and_restored_cluster_refuse_each_other() {
    let mut cluster = mintleaf().cluster(3);
    create(cluster.api(1), "orders", 1);
    let copy = cluster.dir().join("copy");
    back_up(cluster.api(1), &copy);
    let data = cluster.dir().join("restored");
    restored(&copy, &data, 9, &["--advance-all-by", "1000000", "--stopped-at", "now"]);
    let mut node = start(9, data, &[]);
    let add = |to: &Node, raft: std::net::SocketAddr| {
        let body = json!({ "id": 4, "raft": raft.to_string() });
        to.api().post("/v1/cluster/nodes", &body).problem()
    };
    assert_eq!(add(&node, cluster.raft(2)), (409, "wrong_cluster".to_owned()));
    let body = json!({ "id": 9, "raft": node.raft().to_string() });
    let refused = cluster.api(2).post("/v1/cluster/nodes", &body);
    assert_eq!(refused.problem(), (409, "wrong_cluster".to_owned()), "{refused:?}");
    // Both clusters continue. Within the advance neither gives an id of the other.
    let mut given = Given::default();
    for _ in 0..10 {
        for id in [1, 2, 3] {
            given.take(cluster.api(id), "orders", 50);
        }
        given.take(node.api(), "orders", 50);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(node.process_mut().unwrap().is_running());
    assert!([1, 2, 3].iter().all(|&id| cluster.process(id).is_running()));
}
