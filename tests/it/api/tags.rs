//! `/v1/tags`.

use std::time::Instant;

use hyper::Method;

use super::*;

#[test]
fn created_tag_is_answered_whole_and_found_again() {
    let cluster = strict();
    let api = cluster.api(1);
    let body = json!({ "tag": "a/b 订", "step": 5, "start": "1001", "description": "shop" });
    let created = api.post("/v1/tags", &body);
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), "/v1/tags/a%2Fb%20%E8%AE%A2");
    assert_eq!(created.header("content-type"), "application/json");
    assert_eq!(created.header("cache-control"), "no-store");
    let tag = created.ok();
    assert_eq!(tag["max_id"], "1001");
    assert_eq!((&tag["step"], &tag["description"]), (&json!(5), &json!("shop")));
    for time in ["created_at", "updated_at"] {
        assert!(tag[time].as_str().unwrap().ends_with('Z'), "{tag}");
    }
    assert_eq!(api.get(created.header("location")).ok(), tag);
    assert_eq!(api.get("/v1/segment/a%2Fb%20%E8%AE%A2").ids(), [1001]);

    let defaults = api.post("/v1/tags", &json!({ "tag": "plain" })).ok();
    assert_eq!((&defaults["step"], &defaults["max_id"]), (&json!(1000), &json!("1")));
    assert_eq!(defaults["description"], "");
}

#[test]
fn a_tag_that_exists_is_a_conflict() {
    let cluster = strict();
    create(cluster.api(1), "orders", 5).ok();
    let again = create(cluster.api(1), "orders", 9);
    assert_eq!(refusal(&again, 409, "/v1/tags").0, "tag_exists");
    assert_eq!(cluster.api(1).get("/v1/tags/orders").ok()["step"], 5);
}

#[test]
fn bodies_are_read_strictly_and_bounds_are_named() {
    let dev = mintleaf().dev();
    let long = "x".repeat(257);
    let name = "x".repeat(129);
    let big = u64::MAX;
    for (body, named) in [
        (json!({}), "tag"),
        (json!([]), "body"),
        (json!({ "tag": "" }), "tag"),
        (json!({ "tag": 5 }), "tag"),
        (json!({ "tag": name }), "tag"),
        (json!({ "tag": "a\nb" }), "tag"),
        (json!({ "tag": " a" }), "tag"),
        (json!({ "tag": "a\u{3000}" }), "tag"),
        (json!({ "tag": "a\u{200b}b" }), "tag"),
        (json!({ "tag": "a\u{202e}b" }), "tag"),
        (json!({ "tag": "." }), "tag"),
        (json!({ "tag": ".." }), "tag"),
        (json!({ "tag": "t", "step": 0 }), "step"),
        (json!({ "tag": "t", "step": 2_147_483_648_u32 }), "step"),
        (json!({ "tag": "t", "step": "5" }), "step"),
        (json!({ "tag": "t", "step": 1.5 }), "step"),
        (json!({ "tag": "t", "start": "0" }), "start"),
        (json!({ "tag": "t", "start": "9223372036854775808" }), "start"),
        (json!({ "tag": "t", "start": big }), "start"),
        (json!({ "tag": "t", "description": long }), "description"),
        (json!({ "tag": "t", "stpe": 5 }), "stpe"),
    ] {
        let (code, detail) = refusal(&dev.api().post("/v1/tags", &body), 400, "/v1/tags");
        assert_eq!(code, "invalid_argument", "{body}");
        assert!(detail.contains(named), "{body}: {detail}");
    }
    let at_the_bounds = json!({
        "tag": "x".repeat(128), "step": 2_147_483_647.0_f64, "start": LAST_ID,
        "description": "订".repeat(256),
    });
    assert_eq!(dev.api().post("/v1/tags", &at_the_bounds).status, 201);
}

#[test]
fn a_request_with_a_body_has_no_parameters() {
    let cluster = strict();
    let api = cluster.api(1);
    create(api, "orders", 5).ok();
    let body = json!({ "tag": "more", "step": 7 });
    for answer in [
        api.post("/v1/tags?dry_run=true", &body),
        api.patch("/v1/tags/orders?force=true", &json!({ "step": 9 })),
        api.delete("/v1/tags/orders?force=true"),
        api.get("/v1/snowflake/4194304?layout=41,10,12"),
    ] {
        assert_eq!((answer.status, &*answer.problem().1), (400, "invalid_argument"), "{answer:?}");
    }
    assert_eq!(api.get("/v1/tags/orders").ok()["step"], 5);
    assert_eq!(api.get("/v1/tags/more").status, 404);
}

#[test]
fn a_node_that_carried_a_change_to_the_leader_knows_of_it() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let api = cluster.api(cluster.others(leader)[0]);
    let held = |tag: &str| {
        create(api, tag, 1_000).ok();
        api.get(&format!("/v1/segment/{tag}")).ids()
    };
    for round in 0..20 {
        let (gone, raised) = (format!("gone-{round}"), format!("raised-{round}"));
        assert_eq!((held(&gone), held(&raised)), (vec![1], vec![1]));
        assert_eq!(api.delete(&format!("/v1/tags/{gone}")).status, 204);
        assert_eq!(api.get(&format!("/v1/segment/{gone}")).status, 404, "round {round}");
        let import = json!({ "import": "leaf", "tags": [{ "tag": raised, "max_id": 90_000 }] });
        assert_eq!(api.post("/v1/import", &import).ok()["tags"][0]["outcome"], "raised");
        assert!(api.get(&format!("/v1/segment/{raised}")).ids()[0] >= 90_000, "round {round}");
    }
}

#[test]
fn only_json_objects_within_64_kib_are_taken() {
    let dev = mintleaf().dev();
    let post = |headers: &[(&str, &str)], body: &str| {
        dev.api().send(&Method::POST, "/v1/tags", headers, body)
    };
    let json = [("content-type", "application/json")];
    for body in ["", "{", "null", r#"{"tag":"t"}{"#, r#"{"tag":"t","tag":"u"}"#] {
        assert_eq!(refusal(&post(&json, body), 400, "/v1/tags").0, "invalid_argument", "{body}");
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let refused = post(&form, "tag=t");
    assert_eq!(refusal(&refused, 415, "/v1/tags").0, "unsupported_media_type");
    assert_eq!(post(&[], r#"{"tag":"t"}"#).status, 415);
    let large = format!(r#"{{"tag":"t","description":"{}"}}"#, "x".repeat(64 * 1024));
    assert_eq!(refusal(&post(&json, &large), 413, "/v1/tags").0, "too_large");
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(post(&charset, r#"{"tag":"t"}"#).status, 201);
}

#[test]
fn tags_are_listed_in_pages() {
    let cluster = strict();
    let api = cluster.api(1);
    let names: Vec<String> = (0..103).map(|n| format!("tag-{n:03}")).collect();
    names.iter().for_each(|name| drop(create(api, name, 1).ok()));
    let page = |query: &str| {
        let page = api.get(&format!("/v1/tags{query}")).ok();
        let tags = page["tags"].as_array().unwrap().iter();
        let tags: Vec<String> = tags.map(|t| t["tag"].as_str().unwrap().to_owned()).collect();
        (tags, page["next"].as_str().map(str::to_owned))
    };
    let (first, next) = page("");
    assert_eq!((first.as_slice(), next.as_deref()), (&names[..100], Some("tag-099")));
    assert_eq!(page("?after=tag-099"), (names[100..].to_vec(), None));
    assert_eq!(page("?after=tag-099&limit=3"), (names[100..].to_vec(), None));
    assert_eq!(page("?limit=1").1.as_deref(), Some("tag-000"));
    assert_eq!(page("?limit=1000").0, names);
    assert_eq!(page("?after=zzz"), (vec![], None));
    assert_eq!(page("?consistency=stale&limit=2").0, names[..2]);
    for query in ["limit=0", "limit=1001", "consistency=eventual", "from=a"] {
        let refused = api.get(&format!("/v1/tags?{query}"));
        assert_eq!(refusal(&refused, 400, "/v1/tags").0, "invalid_argument", "{query}");
    }
}

#[test]
fn update_changes_what_is_given_and_max_id_forward_only() {
    let cluster = strict();
    let api = cluster.api(1);
    create(api, "orders", 10).ok();
    let patch = |body: serde_json::Value| api.patch("/v1/tags/orders", &body);
    assert_eq!(patch(json!({ "description": "new" })).ok()["step"], 10);
    assert_eq!(patch(json!({ "step": 20 })).ok()["description"], "new");
    assert_eq!(patch(json!({ "max_id": "5000" })).ok()["max_id"], "5000");
    assert_eq!(api.get("/v1/segment/orders").ids(), [5000]);
    let behind = patch(json!({ "max_id": "100", "step": 30 }));
    assert_eq!(refusal(&behind, 409, "/v1/tags/orders").0, "conflict");
    assert_eq!(api.get("/v1/tags/orders").ok()["step"], 20, "half of a change was made");
    for body in [json!({}), json!({ "tag": "x" }), json!({ "start": "1" }), json!({ "step": 0 })] {
        let refused = patch(body);
        assert_eq!(refusal(&refused, 400, "/v1/tags/orders").0, "invalid_argument");
    }
    let unknown = api.patch("/v1/tags/nobody", &json!({ "step": 5 }));
    assert_eq!(refusal(&unknown, 404, "/v1/tags/nobody").0, "unknown_tag");
}

#[test]
fn a_rise_of_max_id_beyond_2_to_the_40_wants_force() {
    const FAR: u64 = 1 << 40;
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    create(cluster.api(1), "orders", 10).ok();
    let patch =
        |node: u64, body: serde_json::Value| cluster.api(node).patch("/v1/tags/orders", &body);
    for node in cluster.ids() {
        let refused = patch(node, json!({ "max_id": (FAR + 2).to_string(), "step": 20 }));
        let (code, detail) = refusal(&refused, 409, "/v1/tags/orders");
        assert_eq!(code, "conflict");
        for told in ["by 1099511627777,", "2^40", "\"force\": true"] {
            assert!(detail.contains(told), "{detail}");
        }
    }
    let unforced = patch(1, json!({ "max_id": (FAR + 2).to_string(), "force": false }));
    assert_eq!(refusal(&unforced, 409, "/v1/tags/orders").0, "conflict");
    let unchanged = cluster.api(1).get("/v1/tags/orders").ok();
    assert_eq!((&unchanged["max_id"], &unchanged["step"]), (&json!("1"), &json!(10)));

    // Through every node, the rise counts from the committed mark, not from the node's own copy of it.
    let mut max_id = 1;
    for node in [leader, cluster.others(leader)[0], cluster.others(leader)[1]] {
        max_id += FAR;
        let moved = patch(node, json!({ "max_id": max_id.to_string() })).ok();
        assert_eq!(moved["max_id"], max_id.to_string());
    }
    let last = json!({ "max_id": "9223372036854775808", "force": true });
    assert_eq!(patch(1, last).ok()["max_id"], "9223372036854775808");
    for (body, named) in
        [(json!({ "max_id": "5", "force": "yes" }), "force"), (json!({ "force": true }), "max_id")]
    {
        let (code, detail) = refusal(&patch(1, body), 400, "/v1/tags/orders");
        assert_eq!(code, "invalid_argument");
        assert!(detail.contains(named), "{detail}");
    }
    let unknown = json!({ "max_id": LAST_ID });
    let unknown = cluster.api(1).patch("/v1/tags/nobody", &unknown);
    assert_eq!(refusal(&unknown, 404, "/v1/tags/nobody").0, "unknown_tag");
}

#[test]
fn step_takes_effect_with_the_next_grab() {
    // The step is larger than any grab that a rate alone would cause.
    const STEP: u64 = 1_500_000;
    let cluster = strict();
    let api = cluster.api(1);
    create(api, "orders", 100).ok();
    let max_id = || {
        let tag = api.get("/v1/tags/orders").ok();
        tag["max_id"].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(api.get("/v1/segment/orders?count=10").ids()[0], 1);
    eventually("the second segment", secs(5), || {
        api.get("/cache").text().contains("<td>orders</td><td>true</td><td>true</td>").then_some(())
    });
    let before = max_id();
    api.patch("/v1/tags/orders", &json!({ "step": STEP })).ok();
    assert_eq!(max_id(), before, "a change of the step is no grab");
    let all_but_one = before - 12;
    let taken = api.get(&format!("/v1/segment/orders?format=ranges&count={all_but_one}"));
    assert_eq!(taken.status, 200, "{taken:?}");
    let after = eventually("a grab", secs(5), || Some(max_id()).filter(|&now| now != before));
    assert_eq!(after, before + STEP);
}

#[test]
fn deleted_tag_stops_on_every_node_within_a_second_and_goes_on_above() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    create(cluster.api(1), "orders", 1000).ok();
    let mut highest = 0;
    for id in cluster.ids() {
        highest = highest.max(cluster.api(id).get("/v1/segment/orders?count=5").ids()[4]);
    }
    let asked = cluster.others(leader)[0];
    assert_eq!(cluster.api(asked).delete("/v1/tags/orders").status, 204);
    let deleted = Instant::now();
    for id in cluster.ids() {
        eventually("the end of the tag", secs(1), || {
            let answer = cluster.api(id).get("/v1/segment/orders");
            (answer.status == 404).then_some(())
        });
        assert!(deleted.elapsed() < secs(1), "node {id} took {:?}", deleted.elapsed());
        let leafs = cluster.api(id).get("/api/segment/get/orders");
        assert_eq!(leafs.json()["message"], "Result{id=-2, status=EXCEPTION}");
        let row = cluster.api(id).get("/v1/tags/orders");
        assert_eq!(refusal(&row, 404, "/v1/tags/orders").0, "unknown_tag");
    }
    let again = cluster.api(1).delete("/v1/tags/orders");
    assert_eq!(refusal(&again, 404, "/v1/tags/orders").0, "unknown_tag");

    create(cluster.api(2), "orders", 10).ok();
    for id in cluster.ids() {
        let first = cluster.api(id).get("/v1/segment/orders").ids()[0];
        assert!(first > highest, "node {id} gave {first} again");
    }
}

#[test]
fn a_tag_created_on_one_node_is_there_at_once_on_the_others() {
    let cluster = mintleaf().cluster(3);
    for n in 0..5 {
        let (writer, tag) = (n % 3 + 1, format!("tag-{n}"));
        assert_eq!(create(cluster.api(writer), &tag, 10).status, 201);
        for id in cluster.ids() {
            assert_eq!(cluster.api(id).get(&format!("/v1/tags/{tag}")).ok()["step"], 10);
            assert_eq!(cluster.api(id).get(&format!("/v1/segment/{tag}")).ids().len(), 1);
        }
    }
}
