//! How many ids a grab reserves: the step at first, more with use, and never more than `step_max`.

use serde_json::{Value, json};

use crate::harness::{Api, Cluster, mintleaf};

fn row(api: Api, tag: &str) -> Value {
    api.get(&format!("/v1/tags/{tag}")).ok()
}

/// Takes ids of a tag at the nodes in turn.
fn in_turn(cluster: &Cluster, tag: &str, rounds: usize) -> Vec<u64> {
    let nodes = cluster.ids();
    let asked = nodes.iter().cycle().take(rounds * nodes.len());
    asked.map(|node| cluster.api(*node).get(&format!("/v1/segment/{tag}")).ids()[0]).collect()
}

#[test]
fn ids_of_a_tag_begin_with_its_first_one_at_whatever_node_they_are_asked_for_at_once() {
    let mut cluster = mintleaf().prepare(3, &["--auto-create-tags"]);
    cluster.start_all();
    for round in 0..30 {
        let [creates, asked] = [cluster.api(round % 3 + 1), cluster.api((round + 1) % 3 + 1)];
        let tag = format!("made-{round}");
        creates.post("/v1/tags", &json!({ "tag": tag })).ok();
        assert_eq!(asked.get(&format!("/v1/segment/{tag}")).ids(), [1], "round {round}");
        let path = format!("/v1/segment/used-{round}");
        assert_eq!([creates.get(&path).ids(), asked.get(&path).ids()], [[1], [1001]], "{round}");
    }
}

#[test]
fn three_nodes_with_a_step_max_of_1_give_1_2_3_in_the_order_in_which_they_are_asked() {
    let mut cluster = mintleaf().cluster(3);
    for (tag, shape) in [
        ("plain", json!({})),
        ("daily", json!({ "period": "year", "format": "{period}-{id}" })),
        ("strict", json!({ "order": "strict" })),
    ] {
        let mut new = json!({ "tag": tag, "step": 1, "step_max": 1 });
        new.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
        assert_eq!(cluster.api(1).post("/v1/tags", &new).ok()["step_max"], 1);
    }
    assert_eq!(in_turn(&cluster, "plain", 10), (1..=30).collect::<Vec<_>>());
    assert_eq!(in_turn(&cluster, "strict", 10), (1..=30).collect::<Vec<_>>());
    for number in 1..=30 {
        let node = cluster.ids()[number % 3];
        let answer = cluster.api(node).get("/v1/segment/daily").ok();
        let text = answer["ids"][0].as_str().unwrap();
        assert!(text.ends_with(&format!("-{number}")), "{text} for {number}");
    }
    // A caller who wants more gets it by several grabs, unless it wants no gap.
    assert_eq!(cluster.api(1).get("/v1/segment/plain?count=5").ids(), [31, 32, 33, 34, 35]);
    assert_eq!(row(cluster.api(2), "plain")["max_id"], "36", "nothing is reserved ahead");

    for node in cluster.ids() {
        cluster.kill(node);
    }
    cluster.start_all();
    cluster.await_ready();
    assert_eq!(row(cluster.api(3), "plain")["step_max"], 1);
    assert_eq!(in_turn(&cluster, "plain", 5), (36..=50).collect::<Vec<_>>());
}

#[test]
fn a_tag_begins_with_its_step_grows_with_use_and_stays_within_its_bound() {
    let cluster = mintleaf().cluster(3);
    let api = cluster.api(1);
    for (tag, step_max) in [("bounded", json!(40)), ("free", json!(null))] {
        api.post("/v1/tags", &json!({ "tag": tag, "step": 5, "step_max": step_max })).ok();
        assert_eq!(in_turn(&cluster, tag, 1), [1, 6, 11], "{tag}");
        assert_eq!(row(api, tag)["max_id"], "16", "{tag}");
        for _ in 0..2_000 {
            api.get(&format!("/v1/segment/{tag}")).ok();
        }
    }
    let held = |tag: &str| row(api, tag)["max_id"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(held("bounded") <= 2_016 + 2 * 40, "{}", held("bounded"));
    assert!(held("free") >= 10_000, "{}", held("free"));
    let raised = json!({ "step_max": null, "step": 50 });
    assert_eq!(api.patch("/v1/tags/bounded", &raised).ok()["step_max"], Value::Null);
}

#[test]
fn a_bound_below_the_step_is_refused_and_the_command_line_shows_one() {
    let dev = mintleaf().dev();
    let api = dev.api();
    for (new, field) in [
        (json!({ "tag": "t", "step": 5, "step_max": 4 }), "step_max"),
        (json!({ "tag": "t", "step_max": 0 }), "step_max"),
        (json!({ "tag": "t", "step_max": 1u64 << 31 }), "step_max"),
    ] {
        let answer = api.post("/v1/tags", &new);
        assert_eq!(answer.status, 400, "{new}");
        assert!(answer.text().contains(field), "{}", answer.text());
    }
    api.post("/v1/tags", &json!({ "tag": "t", "step_max": 4 })).ok();
    assert_eq!(row(api, "t")["step"], 4, "the default step is no larger");
    assert_eq!(api.patch("/v1/tags/t", &json!({ "step": 5 })).status, 400);
    assert_eq!(api.patch("/v1/tags/t", &json!({ "step": 5, "step_max": 9 })).ok()["step"], 5);
    for default in
        [json!({ "tag": "inv", "format": "I-{id}" }), json!({ "tag": "day", "period": "day" })]
    {
        assert_eq!(api.post("/v1/tags", &default).ok()["step"], 10);
    }
}
