//! Registers that go on from a copy: without a gap behind their true last numbers, and higher without them.

use std::fs;

use serde_json::{Value, json};

use super::{back_up, restored, run, start};
use crate::harness::{Api, mintleaf};

const NOW: [&str; 4] = ["--advance-all-by", "100", "--stopped-at", "now"];

fn next(api: Api, key: &str) -> u64 {
    let answer = api.post(&format!("/v1/register/inv/{key}"), &json!({}));
    answer.ok()["id"].as_str().unwrap().parse().unwrap()
}

/// The marks before and after the last change in the audit, and the one who made it.
fn last_change(api: Api) -> (Value, Value, Value) {
    let audit = api.get("/v1/audit").ok();
    let last = audit["entries"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["action"], &last["target"]), (&json!("tag.update"), &json!("inv")));
    (last["before"]["max_id"].clone(), last["after"]["max_id"].clone(), last["actor"].clone())
}

#[test]
fn a_register_of_an_old_copy_has_no_gap_with_its_true_mark_and_one_in_the_audit_without() {
    let mut cluster = mintleaf().cluster(1);
    let (api, dir) = (cluster.api(1), cluster.dir().to_owned());
    api.post("/v1/tags", &json!({ "tag": "inv", "kind": "register" })).ok();
    let before: Vec<u64> = ["a", "b", "c"].into_iter().map(|key| next(api, key)).collect();
    assert_eq!(before, [1, 2, 3]);
    let copy = dir.join("copy");
    back_up(api, &copy);
    // What the copy lacks.
    assert_eq!((next(api, "d"), next(api, "e")), (4, 5));
    cluster.kill(1);

    let list = dir.join("marks.csv");
    fs::write(&list, "tag,line,mark,kind\ninv,,5,register\n").unwrap();
    let marks = ["--marks", list.to_str().unwrap()];
    restored(&copy, &dir.join("marked"), 1, &[&NOW[..], &marks].concat());
    let node = start(1, dir.join("marked"), &[]);
    assert_eq!((next(node.api(), "b"), next(node.api(), "f"), next(node.api(), "g")), (2, 6, 7));
    let by_restore = json!("mintleaf restore");
    assert_eq!(last_change(node.api()), (json!("4"), json!("6"), by_restore.clone()));
    drop(node);

    restored(&copy, &dir.join("unmarked"), 1, &NOW);
    let node = start(1, dir.join("unmarked"), &[]);
    assert_eq!(
        (next(node.api(), "b"), next(node.api(), "f"), next(node.api(), "g")),
        (2, 104, 105)
    );
    assert_eq!(last_change(node.api()), (json!("4"), json!("104"), by_restore));
}

#[test]
fn a_register_goes_on_without_a_gap_from_the_list_that_its_own_copy_gives() {
    let mut cluster = mintleaf().cluster(1);
    let (api, dir) = (cluster.api(1), cluster.dir().to_owned());
    api.post("/v1/tags", &json!({ "tag": "inv", "kind": "register" })).ok();
    api.post("/v1/tags", &json!({ "tag": "empty", "kind": "register" })).ok();
    assert_eq!(["a", "b", "c"].map(|key| next(api, key)), [1, 2, 3]);
    let copy = dir.join("copy");
    back_up(api, &copy);
    cluster.kill(1);

    let listed = run(&["inspect", "--marks", copy.to_str().unwrap()]);
    assert_eq!(listed.stdout, "tag,line,mark,kind\nempty,,0,register\ninv,,3,register\n");
    let list = dir.join("marks.csv");
    fs::write(&list, listed.stdout).unwrap();
    let marks = ["--marks", list.to_str().unwrap()];
    restored(&copy, &dir.join("new"), 1, &[&NOW[..], &marks].concat());
    let node = start(1, dir.join("new"), &[]);
    assert_eq!(["c", "d", "e"].map(|key| next(node.api(), key)), [3, 4, 5]);
    let first = node.api().post("/v1/register/empty/a", &json!({})).ok();
    assert_eq!(first["id"], json!("1"));
}
