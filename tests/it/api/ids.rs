//! `GET /v1/segment/{tag}`.

use hyper::Method;

use super::*;

/// The ranges in an answer, as numbers.
fn ranges(answer: &Answer) -> Vec<(u64, u64)> {
    let body = answer.ok();
    let number = |value: &serde_json::Value| value.as_str().unwrap().parse().unwrap();
    let ranges = body["ranges"].as_array().unwrap().iter();
    ranges.map(|range| (number(&range["start"]), number(&range["end"]))).collect()
}

#[test]
fn ids_come_as_strings_as_ranges_and_as_text() {
    let dev = mintleaf().dev();
    let one = dev.api().get("/v1/segment/orders");
    assert_eq!(one.text(), r#"{"tag":"orders","ids":["1"]}"#);
    assert_eq!(one.header("content-type"), "application/json");
    assert_eq!(one.header("cache-control"), "no-store");

    let three = dev.api().get("/v1/segment/orders?count=3");
    assert_eq!(three.text(), r#"{"tag":"orders","ids":["2","3","4"]}"#);

    let range = dev.api().get("/v1/segment/orders?count=100&format=ranges");
    assert_eq!(range.text(), r#"{"tag":"orders","ranges":[{"start":"5","end":"105"}]}"#);

    let text = dev.api().get_as("/v1/segment/orders?count=2", "text/plain");
    assert_eq!(text.text(), "105\n106\n");
    assert_eq!(text.header("content-type"), "text/plain;charset=UTF-8");
    assert_eq!(text.header("cache-control"), "no-store");
    assert_eq!(dev.api().get_as("/v1/segment/orders", "text/plain").text(), "107\n");
    assert_eq!(dev.api().get("/v1/segment/orders?format=ids").ids(), [108]);
}

#[test]
fn counts_are_exact_at_their_bounds() {
    let dev = mintleaf().dev();
    let ids = dev.api().get("/v1/segment/orders?count=10000").ids();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.is_sorted_by(|a, b| a < b));
    let ranges = ranges(&dev.api().get("/v1/segment/orders?count=1000000&format=ranges"));
    assert_eq!(ranges.iter().map(|(start, end)| end - start).sum::<u64>(), 1_000_000);
    assert!(ranges[0].0 > *ids.last().unwrap());
    let path = "/v1/segment/orders";
    for (query, bound) in [
        ("count=10001", "10000"),
        ("count=0", "10000"),
        ("count=-1", "10000"),
        ("count=1.5", "10000"),
        ("count=1e3", "10000"),
        ("count=", "10000"),
        ("count=18446744073709551617", "10000"),
        ("count=1000001&format=ranges", "1000000"),
    ] {
        let refused = dev.api().get(&format!("{path}?{query}"));
        let (code, detail) = refusal(&refused, 400, path);
        assert_eq!(code, "invalid_argument");
        assert!(detail.contains("count") && detail.contains(bound), "{query}: {detail}");
    }
}

#[test]
fn misspelt_and_repeated_parameters_are_refused_by_name() {
    let dev = mintleaf().dev();
    for (query, named) in [
        ("cuont=5", "cuont"),
        ("count=5&count=5", "count"),
        ("format=xml", "format"),
        ("count=%zz", "count"),
    ] {
        let refused = dev.api().get(&format!("/v1/segment/orders?{query}"));
        let (code, detail) = refusal(&refused, 400, "/v1/segment/orders");
        assert_eq!(code, "invalid_argument");
        assert!(detail.contains(named), "{query}: {detail}");
    }
}

#[test]
fn unknown_tag_is_not_found_unless_tags_are_created_on_first_use() {
    let strict = strict();
    let refused = strict.api(1).get("/v1/segment/nobody");
    assert_eq!(refusal(&refused, 404, "/v1/segment/nobody").0, "unknown_tag");
    let dev = mintleaf().dev();
    assert_eq!(dev.api().get("/v1/segment/nobody").ids(), [1]);
    assert_eq!(dev.api().get("/v1/tags/nobody").ok()["step"], 1_000);
}

#[test]
fn any_utf8_key_of_up_to_128_characters_works() {
    let dev = mintleaf().dev();
    let longest = "订".repeat(128);
    for tag in ["a.b-c_d~e", "with space", "a/b", "50%", "订单", "plus+sign", "?#&=", &longest] {
        let path = encoded(tag);
        let answer = dev.api().get(&format!("/v1/segment/{path}"));
        assert_eq!(answer.ok()["tag"], tag);
        assert_eq!(answer.ids(), [1]);
        let leafs = dev.api().get(&format!("/api/segment/get/{path}"));
        assert_eq!((leafs.status, leafs.text()), (200, "2"), "{tag}");
        assert_eq!(dev.api().get(&format!("/v1/tags/{path}")).ok()["tag"], tag);
    }
    // A plus sign in a path is a plus sign, escaped or not.
    assert_eq!(dev.api().get("/v1/segment/plus+sign").ids(), [3]);
    assert_eq!(dev.api().get("/v1/segment/a.b-c_d~e").ids(), [3]);
}

#[test]
fn malformed_and_overlong_keys_are_refused() {
    let dev = mintleaf().dev();
    let too_long = encoded(&"订".repeat(129));
    for key in ["%zz", "50%", "%", "%ff", "%C3%28", "a%00b", "a%0Ab", "%7F", &too_long] {
        let path = format!("/v1/segment/{key}");
        let refused = dev.api().get(&path);
        let (code, detail) = refusal(&refused, 400, &path);
        assert_eq!(code, "invalid_argument");
        assert!(detail.contains("tag"), "{detail}");
    }
    for path in ["/v1/segment/", "/v1/segment", "/v1/segment/a/b"] {
        assert_eq!(refusal(&dev.api().get(path), 404, path).0, "not_found");
    }
}

#[test]
fn the_last_ids_are_handed_out_and_then_the_tag_is_exhausted() {
    let cluster = strict();
    let api = cluster.api(1);
    let start = LAST_ID - 4;
    let tag = json!({ "tag": "old", "step": 10, "start": start.to_string() });
    assert_eq!(api.post("/v1/tags", &tag).status, 201);
    let ids = api.get("/v1/segment/old?count=4").ids();
    assert_eq!(ids, (start..start + 4).collect::<Vec<_>>());
    let refused = api.get("/v1/segment/old?count=2");
    assert_eq!(refusal(&refused, 422, "/v1/segment/old").0, "exhausted");
    assert_eq!(api.get("/v1/segment/old").ids(), [LAST_ID]);
    assert_eq!(refusal(&api.get("/v1/segment/old"), 422, "/v1/segment/old").0, "exhausted");
    let leafs = api.get("/api/segment/get/old");
    assert_eq!(leafs.status, 500);
    assert_eq!(leafs.json()["message"], "Result{id=-3, status=EXCEPTION}");
    assert_eq!(api.get("/v1/tags/old").ok()["max_id"], "9223372036854775808");
}

#[test]
fn head_is_answered_without_a_body() {
    let dev = mintleaf().dev();
    for path in ["/v1/segment/orders", "/api/segment/get/orders", "/v1/tags", "/livez", "/metrics"]
    {
        let answer = dev.api().send(&Method::HEAD, path, &[], "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.is_empty(), "{path}");
    }
}
