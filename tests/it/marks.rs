//! A mark that an administrator or an import names binds what nodes hold: after the answer, no node gives an id
//! below it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Scope};
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Api, eventually, mintleaf, secs};

/// Ids that a caller received, each with the time before its request.
type Taken = Vec<(Instant, u64)>;

/// Takes ids of a tag at a node, one after the other, until the test is over.
fn take<'scope>(
    scope: &'scope Scope<'scope, '_>,
    node: Api,
    tag: &'scope str,
    over: &'scope AtomicBool,
) -> thread::ScopedJoinHandle<'scope, Taken> {
    scope.spawn(move || {
        let mut taken = Taken::new();
        while !over.load(Relaxed) {
            let asked = Instant::now();
            let answer = node.get(&format!("/v1/segment/{tag}"));
            if answer.is_ok() {
                taken.push((asked, answer.ids()[0]));
            }
        }
        taken
    })
}

/// Stops the takers, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn max_id(node: Api, tag: &str) -> u64 {
    let row: Value = node.get(&format!("/v1/tags/{tag}")).ok();
    row["max_id"].as_str().unwrap().parse().unwrap()
}

/// Names a mark of a tag, by an update or by an import, and returns the result; `None` if the tag's own mark
/// has already passed it.
fn name(node: Api, tag: &str, mark: u64, by_import: bool) -> Option<String> {
    let max_id = mark.to_string();
    if by_import {
        let row = json!({ "tag": tag, "max_id": max_id });
        let told = node.post("/v1/import", &json!({ "import": "leaf.sql", "tags": [row] })).ok();
        return Some(told["tags"][0]["outcome"].as_str().unwrap().to_owned());
    }
    let answer = node.patch(&format!("/v1/tags/{tag}"), &json!({ "max_id": max_id }));
    (answer.status != 409).then(|| answer.ok()).map(|_| "updated".to_owned())
}

#[test]
fn no_node_gives_an_id_below_a_mark_that_was_named_whether_it_changed_a_row_or_not() {
    let cluster = mintleaf().cluster(3);
    let tags = ["plain", "strict"];
    // The grabs are so large that every mark lies within what nodes hold.
    for (tag, order) in [("plain", "trend"), ("strict", "strict")] {
        let new = json!({ "tag": tag, "order": order, "step": 1_000_000 });
        cluster.api(1).post("/v1/tags", &new).ok();
    }
    let over = AtomicBool::new(false);
    let mut named = Vec::new();
    let taken: Vec<(&str, Taken)> = thread::scope(|scope| {
        let ends = Ends(&over);
        let mut takers = Vec::new();
        for node in cluster.ids() {
            for tag in tags {
                takers.push((tag, take(scope, cluster.api(node), tag, &over)));
            }
        }
        for round in 0..12_usize {
            let node = cluster.api(cluster.ids()[round % 3]);
            for tag in tags {
                // Every other mark is within what is already reserved. All of that may be held.
                let is_reserved = round % 2 == 0;
                let (mark, outcome) = eventually("a mark to be named", secs(5), || {
                    let mark = max_id(node, tag) + if is_reserved { 0 } else { 500_000 };
                    Some((mark, name(node, tag, mark, is_reserved || round % 4 == 1)?))
                });
                named.push((tag, Instant::now(), mark, outcome));
                // Nodes hold ids again, and the next mark skips some of them.
                for node in cluster.ids() {
                    let above = || Some(()).filter(|()| next(cluster.api(node), tag) >= mark);
                    eventually("ids above the mark", secs(5), above);
                }
            }
        }
        drop(ends);
        takers.into_iter().map(|(tag, taker)| (tag, taker.join().unwrap())).collect()
    });
    for expected in ["unchanged", "raised", "updated"] {
        assert!(named.iter().any(|(_, _, _, outcome)| outcome == expected), "never {expected}");
    }
    for (tag, answered, mark, outcome) in &named {
        let of_tag = taken.iter().filter(|(of, _)| of == tag).flat_map(|(_, taken)| taken);
        let below = of_tag.filter(|(asked, id)| asked > answered && id < mark).count();
        assert_eq!(below, 0, "ids of {tag} below {mark}, which was {outcome}");
    }
}

fn next(node: Api, tag: &str) -> u64 {
    node.get(&format!("/v1/segment/{tag}")).ids()[0]
}
