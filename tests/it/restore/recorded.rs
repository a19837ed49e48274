//! The audit of a restored cluster.

use serde_json::{Value, json};

use super::{back_up, create, inspected, restored, run, start};
use crate::harness::{Api, mintleaf};

/// The whole audit, according to the command line.
#[track_caller]
fn audit(api: Api) -> Vec<Value> {
    let shown = run(&["audit", "--json", "--url", &format!("http://{}", api.0)]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    serde_json::from_str(&shown.stdout).unwrap()
}

#[test]
fn a_restored_cluster_says_of_which_it_was_made_and_what_rose_by_how_much() {
    let mut cluster = mintleaf().cluster(1);
    let old = cluster.api(1);
    create(old, "orders", 1);
    create(old, "users", 1);
    let file = cluster.dir().join("backup");
    back_up(old, &file);
    let before = audit(old);
    cluster.kill(1);
    let flags = [
        "--advance-all-by",
        "1000",
        "--advance",
        "orders=5000",
        "--stopped-at",
        "2100-01-01T00:00:00Z",
    ];
    let data = cluster.dir().join("restored");
    let made = restored(&file, &data, 7, &flags);
    let node = start(7, data, &[]);
    let entries = audit(node.api());
    assert_eq!(entries[..before.len()], before, "who changed what in the old cluster stays");
    let [restore, orders] = &entries[before.len()..] else { panic!("{entries:?}") };
    assert_eq!(
        (&restore["action"], &restore["target"]),
        (&json!("cluster.restore"), &json!("cluster"))
    );
    assert_eq!(restore["actor"], "mintleaf restore");
    let source = inspected(&file);
    assert_eq!(
        restore["before"],
        json!({ "cluster_id": source["cluster_id"], "log_index": source["log_index"] })
    );
    assert_eq!(restore["after"]["cluster_id"], made["cluster_id"]);
    assert_eq!(restore["after"]["advance"], "1000");
    assert!(restore["after"]["floor_ms"].as_u64() > Some(4_102_444_800_000), "{restore}");
    assert!(restore["time"].as_str() >= before[1]["time"].as_str(), "{restore}");
    assert_eq!((&orders["action"], &orders["target"]), (&json!("tag.update"), &json!("orders")));
    assert_eq!(
        (&orders["before"], &orders["after"]),
        (&json!({ "max_id": "1" }), &json!({ "max_id": "5001" }))
    );
    // Later changes follow.
    create(node.api(), "new", 1);
    assert_eq!(audit(node.api()).last().unwrap()["index"], entries.len() + 1);
}
