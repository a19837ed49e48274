//! A change of a tag holds on every node while leadership moves, while a node drains, and once a node is removed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    Answer, Api, Cluster, Finished, eventually, known_leader, mintleaf, ms, pause, secs,
};

/// Time for any request to a cluster. On a busy machine, moving leadership sometimes ends in an election.
const SOON: Duration = secs(10);

/// A tag for each way of holding ids. Nodes hold many ids of each, so that a change affects held ids.
const TAGS: [&str; 4] = ["plain", "strict", "hidden", "daily"];

fn body(tag: &str) -> Value {
    let mut body = match tag {
        "plain" => json!({}),
        "strict" => json!({ "order": "strict" }),
        "hidden" => json!({ "digits": 12 }),
        _ => json!({ "period": "day" }),
    };
    body["tag"] = json!(tag);
    body["step"] = json!(100_000);
    body
}

/// The answer to a request that is repeated while no leader is found in time.
#[track_caller]
fn answered(what: &str, request: impl Fn() -> Answer) -> Answer {
    eventually(what, SOON, || Some(request()).filter(|answer| answer.status != 503))
}

/// Asserts that a change was made. `already` is the status if an earlier attempt without an answer has made it.
#[track_caller]
fn made(what: &str, (status, already): (u16, u16), request: impl Fn() -> Answer) {
    let answer = answered(what, request);
    assert!([status, already].contains(&answer.status), "{what}: {answer:?}");
}

/// The ids from a node, as texts.
#[track_caller]
fn ids(node: Api, tag: &str, count: u64) -> Vec<String> {
    let path = format!("/v1/segment/{tag}?count={count}");
    let ids = answered("ids", || node.get(&path)).ok()["ids"].clone();
    ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Takes ids of every tag at every node, one after the other, until the test is over; returns all of them.
fn take<'scope>(
    scope: &'scope Scope<'scope, '_>,
    nodes: &[Api],
    over: &'scope AtomicBool,
) -> Vec<ScopedJoinHandle<'scope, Vec<(&'static str, String)>>> {
    let takers = nodes.iter().map(|&node| {
        scope.spawn(move || {
            let mut taken = Vec::new();
            while !over.load(Relaxed) {
                for tag in TAGS {
                    let path = format!("/v1/segment/{tag}?count=3");
                    // A tag may be frozen or deleted, and a node may be gone.
                    let answer = node.try_get(&path).ok().filter(|answer| answer.status == 200);
                    let ids = answer.map(|answer| answer.ok()["ids"].clone());
                    for id in ids.iter().flat_map(|ids| ids.as_array().unwrap()) {
                        taken.push((tag, id.as_str().unwrap().to_owned()));
                    }
                }
                pause(ms(2));
            }
            taken
        })
    });
    takers.collect()
}

/// Stops the takers, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Takes ids at all nodes while `meanwhile` runs, and checks that no id came twice.
fn without_repetition(nodes: &[Api], meanwhile: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let taken: Vec<_> = thread::scope(|scope| {
        let ends = Ends(&over);
        let takers = take(scope, nodes, &over);
        meanwhile();
        drop(ends);
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    for tag in TAGS {
        let of_tag = taken.iter().filter(|(of, _)| *of == tag).map(|(_, id)| id);
        let distinct: BTreeSet<&String> = of_tag.clone().collect();
        assert_eq!(distinct.len(), of_tag.count(), "an id of {tag} came twice");
        assert!(distinct.len() > 100, "only {} of {tag}", distinct.len());
    }
}

/// Names a mark of a tag that is reserved or above, by an update or an import; returns the mark.
fn name_mark(asked: Api, tag: &str, above: u64, by_import: bool) -> u64 {
    let path = format!("/v1/tags/{tag}");
    eventually("a mark to be named", SOON, || {
        let row = answered("the tag", || asked.get(&path)).ok();
        let mark = row["max_id"].as_str().unwrap().parse::<u64>().unwrap() + above;
        let max_id = mark.to_string();
        let is_named = match by_import {
            true => {
                let row = json!({ "tag": tag, "max_id": max_id });
                let import = json!({ "import": "x", "tags": [row] });
                let told = asked.post("/v1/import", &import).ok();
                told["tags"][0]["outcome"] != "refused"
            }
            // A grab may have passed the mark first: 409.
            false => asked.patch(&path, &json!({ "max_id": max_id })).status == 200,
        };
        is_named.then_some(mark)
    })
}

/// Makes every kind of change to every tag through one node, and checks on all nodes what each change promises.
fn change_and_look(asked: Api, nodes: &[Api]) {
    for (tag, by_import) in [("plain", false), ("strict", true), ("strict", false), ("plain", true)]
    {
        for above in [0, 700] {
            let mark = name_mark(asked, tag, above, by_import);
            for &node in nodes {
                let id: u64 = ids(node, tag, 1)[0].parse().unwrap();
                assert!(id >= mark, "{id} of {tag} below {mark}, by import: {by_import}");
            }
        }
    }
    for tag in TAGS {
        let (row, ids_of) = (format!("/v1/tags/{tag}"), format!("/v1/segment/{tag}"));
        let await_status = |status: u16| {
            for &node in nodes {
                eventually(&format!("{status} for {tag} at {}", node.0), SOON, || {
                    (node.get(&ids_of).status == status).then_some(())
                });
            }
        };
        for (frozen, status) in [(true, 423), (false, 200)] {
            made("freeze", (200, 200), || asked.patch(&row, &json!({ "frozen": frozen })));
            await_status(status);
            for &node in nodes.iter().filter(|_| frozen) {
                assert_eq!(node.get(&ids_of).status, 423, "{tag} stays frozen");
            }
        }
        made("delete", (204, 404), || asked.delete(&row));
        await_status(404);
        made("create", (201, 409), || asked.post("/v1/tags", &body(tag)));
        for &node in nodes {
            assert_eq!(ids(node, tag, 5).len(), 5, "{tag}");
        }
    }
}

fn cluster(flags: &[&str]) -> Cluster {
    let mut cluster = mintleaf().prepare(3, flags);
    cluster.start_all();
    for tag in TAGS {
        made("create", (201, 409), || cluster.api(1).post("/v1/tags", &body(tag)));
    }
    cluster
}

/// Moves leadership from node to node until the test is over; returns how often.
fn hand_round(nodes: &[Api], over: &AtomicBool) -> u64 {
    let mut moved = 0;
    for id in (1..=3).cycle() {
        if over.load(Relaxed) {
            break;
        }
        let asked = nodes[(id as usize) % 3];
        let told = asked.post("/v1/cluster/leader", &json!({ "id": id }));
        moved += u64::from(told.status == 204);
        pause(ms(100));
    }
    moved
}

#[test]
fn marks_freezes_and_deletions_hold_on_every_node_while_leadership_moves() {
    let cluster = cluster(&[]);
    let nodes = [1, 2, 3].map(|id| cluster.api(id));
    without_repetition(&nodes, || {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let ends = Ends(&over);
            let mover = scope.spawn(|| hand_round(&nodes, &over));
            for asked in nodes {
                change_and_look(asked, &nodes);
            }
            drop(ends);
            assert!(mover.join().unwrap() > 3, "leadership moved");
        });
    });
}

#[test]
fn marks_freezes_and_deletions_hold_on_a_leader_that_drains_and_through_it() {
    let mut cluster = cluster(&["--drain", "300s"]);
    let leader = cluster.leader();
    let nodes = [1, 2, 3].map(|id| cluster.api(id));
    let other = cluster.api(cluster.others(leader)[0]);
    without_repetition(&nodes, || {
        cluster.process(leader).signal("TERM");
        change_and_look(other, &nodes);
        change_and_look(cluster.api(leader), &nodes);
        assert_eq!(cluster.api(leader).get("/readyz").status, 503, "it drains still");
    });
}

#[test]
fn marks_freezes_and_deletions_hold_on_the_nodes_that_are_left_when_a_leader_is_removed() {
    let mut cluster = cluster(&[]);
    let leader = cluster.leader();
    let left: Vec<Api> = cluster.others(leader).iter().map(|&id| cluster.api(id)).collect();
    without_repetition(&[1, 2, 3].map(|id| cluster.api(id)), || {
        made("remove", (204, 404), || left[0].delete(&format!("/v1/cluster/nodes/{leader}")));
        for &asked in &left {
            change_and_look(asked, &left);
        }
        let (code, log) = cluster.ended(leader, secs(15));
        assert_eq!(code, Some(3), "{log}");
    });
}

#[test]
fn every_row_of_an_import_comes_in_while_leadership_moves_and_nodes_drain() {
    const ROWS: u64 = 4_000;
    let mut cluster = mintleaf().prepare(3, &["--drain", "300s"]);
    cluster.start_all();
    let nodes = [1, 2, 3].map(|id| cluster.api(id));
    let file = cluster.dir().join("leaf_alloc.csv");
    let rows = (0..ROWS).map(|row| format!("shop-{row},{}\n", 1_000 + row));
    fs::write(&file, "biz_tag,max_id\n".to_owned() + &rows.collect::<String>()).unwrap();
    let import = |node: Api| {
        let url = format!("http://{}", node.0);
        let mut command = mintleaf().command();
        let done = Finished::of(command.arg("import").arg(&file).args(["--json", "--url", &url]));
        assert_eq!(done.code, Some(0), "{done:?}");
        let told: Value = serde_json::from_str(&done.stdout).unwrap();
        let count = |field: &str| told[field].as_u64().unwrap();
        (count("created"), count("raised"), count("unchanged"))
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&over);
        let mover = scope.spawn(|| hand_round(&nodes, &over));
        // If a part was proposed twice because its answer was lost, it counts as unchanged the second time.
        let (created, raised, unchanged) = import(nodes[0]);
        assert_eq!((created + unchanged, raised), (ROWS, 0));
        assert_eq!(import(nodes[1]), (0, 0, ROWS));
        drop(ends);
        mover.join().unwrap();
    });
    let leader = cluster.leader();
    cluster.process(leader).signal("TERM");
    assert_eq!(import(cluster.api(leader)), (0, 0, ROWS), "through the leader that drains");
    let other = cluster.others(leader)[0];
    eventually("another leader", SOON, || {
        known_leader(cluster.api(other)).filter(|&now| now != leader)
    });
    assert_eq!(cluster.api(other).get("/v1/tags/shop-3999").ok()["max_id"], "4999");
}
