//! A restarted node holds ids of the hot tags before it reports that it is ready, and none of the ids that it
//! held before.

use std::fs;

use serde_json::json;

use crate::harness::{Api, Cluster, eventually, mintleaf, secs};

fn loaded(api: Api) -> u64 {
    let page = api.get("/metrics");
    let line = page.text().lines().find_map(|line| line.strip_prefix("mintleaf_tags_loaded "));
    line.unwrap().parse().unwrap()
}

fn next(api: Api, tag: &str) -> u64 {
    api.get(&format!("/api/segment/get/{tag}")).text().parse().unwrap()
}

fn max_id(api: Api, tag: &str) -> u64 {
    let row = api.get(&format!("/v1/tags/{tag}")).ok();
    row["max_id"].as_str().unwrap().parse().unwrap()
}

/// Stops the only node and starts it again; returns once it is ready.
fn restart(cluster: &mut Cluster) -> Api {
    cluster.stop(1);
    cluster.start_all();
    cluster.api(1)
}

#[test]
fn hot_tags_are_held_again_before_readiness_and_every_id_of_before_is_gone() {
    let mut cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    for tag in ["hot", "deleted", "frozen", "cold"] {
        api.post("/v1/tags", &json!({ "tag": tag, "step": 100 })).ok();
    }
    for tag in ["hot", "deleted", "frozen"] {
        next(api, tag);
    }
    api.delete("/v1/tags/deleted");
    api.patch("/v1/tags/frozen", &json!({ "frozen": true })).ok();
    let mark = max_id(api, "hot");
    let api = restart(&mut cluster);
    assert_eq!(loaded(api), 1, "hot, and neither cold nor deleted nor frozen");
    assert!(max_id(api, "hot") > mark, "the ids that are held are newly reserved");
    assert!(next(api, "hot") >= mark, "nothing is carried across a restart");
    assert_eq!(api.get("/v1/tags/deleted").status, 404);

    // The list is kept from one start to the next, even if its tags are not used again.
    restart(&mut cluster);
    let mark = max_id(cluster.api(1), "hot");
    let api = restart(&mut cluster);
    assert_eq!(loaded(api), 1);
    assert!(next(api, "hot") >= mark);
}

#[test]
fn a_node_starts_without_a_list_that_is_missing_damaged_or_unknown() {
    let mut cluster = mintleaf().cluster(1);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "hot" })).ok();
    let damage: [fn(&mut Vec<u8>); 3] =
        [|bytes| bytes[7] ^= 1, |bytes| bytes.truncate(3), |bytes| bytes[0] = 200];
    for alter in damage {
        next(cluster.api(1), "hot");
        cluster.stop(1);
        let path = cluster.data(1).join("hot-tags");
        let mut bytes = fs::read(&path).unwrap();
        alter(&mut bytes);
        fs::write(&path, bytes).unwrap();
        cluster.start_all();
        assert_eq!(loaded(cluster.api(1)), 0);
        assert!(cluster.process(1).said().contains("hot tags cannot be read; starting without"));
    }
    next(cluster.api(1), "hot");
    cluster.stop(1);
    fs::remove_file(cluster.data(1).join("hot-tags")).unwrap();
    cluster.start_all();
    assert_eq!(loaded(cluster.api(1)), 0);
    assert!(!cluster.process(1).said().contains("hot tags"));
}

#[test]
fn a_node_that_is_killed_soon_after_its_start_holds_its_hot_tags_again() {
    let mut cluster = mintleaf().cluster(1);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "hot" })).ok();
    next(cluster.api(1), "hot");
    let list = cluster.data(1).join("hot-tags");
    eventually("the list to be written", secs(8), || list.exists().then_some(()));
    cluster.kill(1);
    cluster.start_all();
    assert_eq!(loaded(cluster.api(1)), 1);
}

#[test]
fn a_thousand_tags_are_held_again() {
    const TAGS: u64 = 1_000;
    let mut cluster = mintleaf().prepare(1, &["--auto-create-tags"]);
    cluster.start_all();
    for number in 0..TAGS + 20 {
        next(cluster.api(1), &format!("tag-{number}"));
    }
    let api = restart(&mut cluster);
    assert_eq!(loaded(api), TAGS, "no more than there is room for");
}
